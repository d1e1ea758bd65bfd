"""The offsets that a transaction commits for a group, read from the types of Python's consumers.

An offset is that of the next record to read, one more than the last one read. As in librdkafka, a partition without a position
(OFFSET_INVALID) is left out. Any other negative offset, and a partition that is named twice, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.base_producer import check_topic
from fencepost.producer.bulk.rows import PARTITION_MAX
from fencepost.producer.wire.messages.txn_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.txn.group_metadata import GroupMetadata, check_text

OFFSET_MAX: Final = (1 << 63) - 1
EPOCH_MAX: Final = 2_147_483_647
UNKNOWN: Final = -1001
"""librdkafka's OFFSET_INVALID: the consumer has read nothing of the partition."""


class OffsetAndMetadata(Struct, frozen=True):
    """An offset, with the leader epoch of the record before it (-1: unknown), and a note of the program's own."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Offsets = dict[tuple[str, int], OffsetAndMetadata]


def read_offsets(given: object) -> Offsets:
    """Offsets by partition, from a mapping or from confluent-kafka's TopicPartitions. Raises TypeError or ValueError."""
    if isinstance(given, Mapping):
        pairs = [(_partition(key), value) for key, value in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        pairs = list(_listed(given))
    else:
        raise TypeError(f"offsets is a {type(given).__name__}: a mapping (topic, partition) -> offset, or a list of TopicPartition")
    offsets: Offsets = {}
    for tp, value in pairs:
        if tp in offsets:
            raise ValueError(f"offsets names {tp[0]}-{tp[1]} twice")
        offsets[tp] = _offset(tp, value)
    return offsets


def _listed(given: Iterable[Any]) -> Iterator[tuple[tuple[str, int], object]]:
    """The TopicPartitions of a list; each contains its offset."""
    for each in given:
        if not hasattr(each, "offset"):
            raise TypeError(f"offsets has {each!r} in a list: only confluent-kafka's TopicPartition has its offset with it; give a mapping")
        tp = _partition(each)
        if getattr(each, "error", None) is not None:
            raise ValueError(f"offsets has {tp[0]}-{tp[1]} with an error: {each.error}")
        if each.offset != UNKNOWN:
            yield tp, each


def _partition(key: Any) -> tuple[str, int]:
    """(topic, partition), from a tuple or an object with these attributes."""
    if hasattr(key, "topic") and hasattr(key, "partition"):
        topic, partition = key.topic, key.partition
    elif isinstance(key, tuple) and len(key) == 2:
        topic, partition = key
    else:
        raise TypeError(f"offsets names {key!r}: a partition is (topic, partition), or a TopicPartition")
    check_topic(topic)
    _check(f"{topic}: partition", partition, PARTITION_MAX)
    return topic, partition


def _offset(tp: tuple[str, int], value: Any) -> OffsetAndMetadata:
    where = f"{tp[0]}-{tp[1]}"
    if isinstance(value, int):
        value = OffsetAndMetadata(value)
    elif not hasattr(value, "offset"):
        raise TypeError(f"{where}: offset={value!r}: an int or OffsetAndMetadata(offset, leader_epoch=..., metadata=...)")
    epoch, metadata = getattr(value, "leader_epoch", None), getattr(value, "metadata", None)
    _check(f"{where}: offset", value.offset, OFFSET_MAX)
    if epoch is not None and epoch != -1:
        _check(f"{where}: leader_epoch", epoch, EPOCH_MAX)
    if metadata is not None and not isinstance(metadata, str):
        raise TypeError(f"{where}: metadata={metadata!r}: a str is wanted, not {type(metadata).__name__}")
    check_text(f"{where}: metadata", metadata or "")
    return OffsetAndMetadata(value.offset, -1 if epoch is None else epoch, metadata or "")


def _check(what: str, number: object, highest: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{what}={number!r}: an int is wanted, not {type(number).__name__}")
    if not 0 <= number <= highest:
        raise ValueError(f"{what}={number}: from 0 to {highest}")


def offsets_request(transactional_id: str, identity: tuple[int, int], group: GroupMetadata, offsets: Offsets) -> TxnOffsetCommitRequest:
    """The offsets of one group; they count if the transaction commits."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), at in offsets.items():
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=at.offset,
                committed_leader_epoch=at.leader_epoch,
                committed_metadata=at.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
