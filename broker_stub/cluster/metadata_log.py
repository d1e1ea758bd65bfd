"""What the controller knows, in a file: topics, their partitions' leaders and in-sync replicas, and the producer ids that were given out.

Each change is a line of JSON, synced before any client can see what follows from it. The file is written anew, without what is obsolete,
when a cluster starts with it. A last line that was torn by a loss of power does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import msgspec

from fencepost.broker_stub.cluster.partition import PartitionState
from fencepost.broker_stub.storage.directory import Directory

NAME: Final = "cluster-metadata.jsonl"
VERSION: Final = 1


class ClusterRecord(msgspec.Struct, frozen=True, tag="cluster", tag_field="type"):
    """The first line."""

    cluster_id: str
    version: int = VERSION


class BrokersRecord(msgspec.Struct, frozen=True, tag="brokers", tag_field="type"):
    """The brokers are 1 to `count`."""

    count: int


class ProducerIdsRecord(msgspec.Struct, frozen=True, tag="producer_ids", tag_field="type"):
    """The first producer id that was not reserved yet."""

    next: int


class TopicRecord(msgspec.Struct, frozen=True, tag="topic", tag_field="type"):
    """A topic, and the configs that were set on it."""

    id: UUID
    name: str
    overrides: dict[str, str]


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic_deleted", tag_field="type"):
    """The topic is no more."""

    id: UUID


Record = ClusterRecord | BrokersRecord | ProducerIdsRecord | TopicRecord | PartitionState | TopicDeleted


class Metadata(msgspec.Struct):
    """The newest of each. `partitions`: by topic id, in the order of their numbers."""

    cluster: ClusterRecord | None = None
    brokers: int = 0
    next_producer_id: int = 0
    topics: dict[UUID, TopicRecord] = {}
    partitions: dict[UUID, dict[int, PartitionState]] = {}

    def take(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                self.cluster = record
            case BrokersRecord():
                self.brokers = record.count
            case ProducerIdsRecord():
                self.next_producer_id = record.next
            case TopicRecord():
                self.topics[record.id] = record
            case PartitionState():
                self.partitions.setdefault(record.topic_id, {})[record.index] = record
            case TopicDeleted():
                self.topics.pop(record.id, None)
                self.partitions.pop(record.id, None)

    def records(self) -> Iterator[Record]:
        """What is needed to get here."""
        if self.cluster is not None:
            yield self.cluster
        yield BrokersRecord(self.brokers)
        yield ProducerIdsRecord(self.next_producer_id)
        yield from self.topics.values()
        for partitions in self.partitions.values():
            yield from partitions.values()


class MetadataLog:
    """See the module. Raises ValueError for a file that is none of its own. `found`: what it had."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._unsynced = 0
        self.found = Metadata()
        for record in _records(directory.read(NAME) or b""):
            self.found.take(record)
        directory.write(NAME, b"".join(map(_line, self.found.records())) if self.found.cluster is not None else b"")
        self._file = directory.open(NAME)

    def write(self, record: Record) -> None:
        """Returns when the record survives a loss of power; inside `together` at its end."""
        self._file.append(_line(record))
        if not self._unsynced:
            self._file.sync()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Syncs once for all the records that are written inside."""
        self._unsynced += 1
        try:
            yield
        finally:
            self._unsynced -= 1
            if not self._unsynced:
                self._file.sync()


def _line(record: Record) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def _records(data: bytes) -> Iterator[Record]:
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = msgspec.json.decode(line, type=Record)
        except msgspec.MsgspecError as error:
            if number == len(lines) - 1:
                return  # a line whose end was written before its start
            raise ValueError(f"{NAME}, line {number}: {error}") from None
        if isinstance(record, ClusterRecord) and record.version != VERSION:
            raise ValueError(f"{NAME}, line {number}: version {record.version}, only {VERSION} is known")
        yield record
