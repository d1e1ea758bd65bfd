"""The requests of a transaction, and which versions of them belong to which transaction version (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from producer.core.nodes import PRODUCE_VERSIONS
from producer.wire.messages import InitProducerIdRequest
from producer.wire.messages.add_to_txn import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from producer.wire.messages.end_txn import EndTxnRequest
from txn.kip_939 import VERSION

NOBODY: Final = (-1, -1)

ADD_VERSIONS: Final = range(4)
ADD_OFFSETS_VERSIONS: Final = range(5)
END_VERSIONS: Final = {False: range(5), True: range(5, 6)}
"""By whether it is transaction version 2."""
LEAVES: Final = {False: range(PRODUCE_VERSIONS[0], 12), True: range(12, PRODUCE_VERSIONS[-1] + 1)}
"""The same for Produce: from version 12 on the leader adds the partition by itself."""


def init_versions(*, renewing: bool, two_phase: bool = False) -> range:
    """An identity to be renewed can be named from version 3 on (KIP-360); two-phase commit can be asked for in version 6 (KIP-939)."""
    return range(VERSION, VERSION + 1) if two_phase else range(3 if renewing else 0, 6)


def init_request(
    transactional_id: str, timeout_ms: int, identity: tuple[int, int] | None, *, two_phase: bool = False, keep: bool = False
) -> InitProducerIdRequest:
    """For the next epoch of an identity, or for whichever there is."""
    pid, epoch = identity or NOBODY
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=pid,
        producer_epoch=epoch,
        enable2_pc=two_phase,
        keep_prepared_txn=keep,
    )


def add_request(transactional_id: str, identity: tuple[int, int], partitions: Iterable[tuple[str, int]]) -> AddPartitionsToTxnRequest:
    """Transaction version 1: partitions that are about to be written."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )


def offsets_versions(*, version2: bool, named: bool) -> range:
    """Of TxnOffsetCommit: from version 3 on it can name a group's member (KIP-447), with 5 the group's coordinator adds its partition."""
    return range(5, 6) if version2 else range(3 if named else 0, 5)


def add_offsets_request(transactional_id: str, identity: tuple[int, int], group_id: str) -> AddOffsetsToTxnRequest:
    """Transaction version 1: a group whose offsets are about to be written."""
    return AddOffsetsToTxnRequest(transactional_id=transactional_id, producer_id=identity[0], producer_epoch=identity[1], group_id=group_id)


def end_request(transactional_id: str, identity: tuple[int, int], *, committed: bool) -> EndTxnRequest:
    """The end."""
    return EndTxnRequest(transactional_id=transactional_id, producer_id=identity[0], producer_epoch=identity[1], committed=committed)
