"""The tuples that aiokafka's producer takes and returns: aiokafka's own where it is installed, otherwise tuples with the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fencepost.compat.aiokafka.installed import INSTALLED

__all__ = ["BrokerMetadata", "OffsetAndMetadata", "RecordMetadata", "TopicPartition"]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to read, and a note of the program's own."""

    offset: int
    metadata: str


class BrokerMetadata(NamedTuple):
    """A live broker."""

    nodeId: int
    host: str
    port: int
    rack: str | None


class RecordMetadata(NamedTuple):
    """Where a record is in the log. `offset`: -1 if no broker told it. `timestamp`: milliseconds since 1970, None if unknown.
    `timestamp_type`: 0 for the record's own time (CreateTime), 1 for the broker's (LogAppendTime). `log_start_offset`: always None."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None


if not TYPE_CHECKING and INSTALLED:
    from aiokafka.structs import BrokerMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition
