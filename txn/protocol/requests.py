"""The requests to coordinators, and which versions of them belong to which transaction version (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fencepost.producer.core.cluster.cluster_connection_states import PRODUCE_VERSIONS, Node
from fencepost.producer.wire import InitProducerIdRequest
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.add_to_txn import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from fencepost.producer.wire.messages.describe_transactions import DescribeTransactionsRequest
from fencepost.producer.wire.messages.end_txn import EndTxnRequest

Identity = tuple[int, int]
"""Producer id and epoch."""

Question = Callable[[Node], tuple[Message, range]]
"""A request to a coordinator, and its versions; it is made when it can be sent."""

NO_IDENTITY: Final = (-1, -1)

GROUP: Final = 0
TRANSACTION: Final = 1
"""FindCoordinator's key types."""

FIND_VERSION_MAX: Final = 4
TWO_PHASE_VERSION: Final = 6
"""Versions of InitProducerId, for KIP-939."""
STATE_VERSIONS: Final = range(1)
"""Versions of DescribeTransactions."""

ADD_VERSIONS: Final = range(4)
ADD_OFFSETS_VERSIONS: Final = range(5)
END_VERSIONS: Final = {False: range(5), True: range(5, 6)}
"""The versions of each API, by whether the transaction has version 2."""
LEAVES: Final = {False: range(PRODUCE_VERSIONS[0], 12), True: range(12, PRODUCE_VERSIONS[-1] + 1)}
"""The same for Produce: from version 12 on the leader adds the partition."""


def init_versions(*, renewing: bool, two_phase: bool = False) -> range:
    """From version 3 on InitProducerId can name an identity to renew (KIP-360); from version 6 on it can ask for two-phase commit
    (KIP-939)."""
    return range(TWO_PHASE_VERSION, TWO_PHASE_VERSION + 1) if two_phase else range(3 if renewing else 0, 6)


def init_request(
    transactional_id: str, timeout_ms: int, identity: tuple[int, int] | None, *, two_phase: bool = False, keep: bool = False
) -> InitProducerIdRequest:
    """Ask for the next epoch of an identity, or for a first identity."""
    pid, epoch = identity or NO_IDENTITY
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=pid,
        producer_epoch=epoch,
        enable2_pc=two_phase,
        keep_prepared_txn=keep,
    )


def add_request(transactional_id: str, identity: tuple[int, int], partitions: Iterable[tuple[str, int]]) -> AddPartitionsToTxnRequest:
    """Transaction version 1: add partitions before they are written."""
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
    """Of TxnOffsetCommit: from version 3 on it can name a group's member (KIP-447), from version 5 on the group's coordinator adds its
    partition."""
    return range(5, 6) if version2 else range(3 if named else 0, 5)


def add_offsets_request(transactional_id: str, identity: tuple[int, int], group_id: str) -> AddOffsetsToTxnRequest:
    """Transaction version 1: add a group before its offsets are written."""
    return AddOffsetsToTxnRequest(transactional_id=transactional_id, producer_id=identity[0], producer_epoch=identity[1], group_id=group_id)


def end_request(transactional_id: str, identity: tuple[int, int], *, committed: bool) -> EndTxnRequest:
    """End the transaction."""
    return EndTxnRequest(transactional_id=transactional_id, producer_id=identity[0], producer_epoch=identity[1], committed=committed)


def state_request(transactional_id: str) -> DescribeTransactionsRequest:
    """Ask the coordinator for the state of a transactional id."""
    return DescribeTransactionsRequest(transactional_ids=[transactional_id])


def state_question(transactional_id: str) -> Question:
    """The same for the present coordinator."""
    return lambda _: (state_request(transactional_id), STATE_VERSIONS)
