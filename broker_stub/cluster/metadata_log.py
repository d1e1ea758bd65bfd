"""What the controller knows, in a file: topics, their partitions' leaders and in-sync replicas, ACLs, quotas, dynamic configs, and the
producer ids that were given out.

Each line is a JSON array of records that count together or not at all, such as a new topic with its partitions. It is synced before any
client can see what follows from it. A last line that was torn does not count. The file is written anew, without what is obsolete, when a
cluster starts with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from uuid import UUID

import msgspec

from fencepost.broker_stub.replication.partition_state import PartitionState
from fencepost.broker_stub.storage.directory import Directory
from fencepost.broker_stub.storage.disk_state import StorageFailed

NAME: Final = "cluster-metadata.jsonl"
VERSION: Final = 1


class ClusterRecord(msgspec.Struct, frozen=True, tag="cluster", tag_field="type"):
    """The first line."""

    cluster_id: str
    version: int = VERSION


class StartRecord(msgspec.Struct, frozen=True, tag="start", tag_field="type"):
    """The cluster has started so many times. Its brokers are 1 to `brokers`."""

    number: int
    brokers: int


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


class AclsRecord(msgspec.Struct, frozen=True, tag="acls", tag_field="type"):
    """Every ACL, in the order of their creation (`security.acls.AclRow`)."""

    acls: list[tuple[str, int, int, str, int, int, str]]


class QuotasRecord(msgspec.Struct, frozen=True, tag="quotas", tag_field="type"):
    """The quotas of one entity, which has types and names. None of them: they were removed."""

    entity: list[tuple[str, str | None]]
    values: dict[str, float]


class ScramRecord(msgspec.Struct, frozen=True, tag="scram", tag_field="type"):
    """A user's credential for one mechanism, or that it was removed (`security.scram_credentials.Row`)."""

    row: tuple[str, str, int, str, str, str]


class ConfigsRecord(msgspec.Struct, frozen=True, tag="configs", tag_field="type"):
    """All dynamic configs of one broker, of all brokers, of a group or of a client metrics subscription (`kind` is Kafka's number). None of
    them: they were removed."""

    kind: int
    name: str
    values: dict[str, str]


class FeaturesRecord(msgspec.Struct, frozen=True, tag="features", tag_field="type"):
    """The finalized levels of features that were changed."""

    levels: dict[str, int]


Record = (
    ClusterRecord
    | StartRecord
    | ProducerIdsRecord
    | TopicRecord
    | PartitionState
    | TopicDeleted
    | AclsRecord
    | QuotasRecord
    | ScramRecord
    | ConfigsRecord
    | FeaturesRecord
)


class Metadata(msgspec.Struct):
    """The newest of each. `partitions`: by topic id, in the order of their numbers. `deleted`: topics that were deleted in the last two
    lives of the cluster, and whether a start has begun since, which removes logs that were left of them."""

    cluster: ClusterRecord | None = None
    start: StartRecord = StartRecord(0, 0)
    next_producer_id: int = 0
    topics: dict[UUID, TopicRecord] = {}
    partitions: dict[UUID, dict[int, PartitionState]] = {}
    acls: AclsRecord = AclsRecord([])
    quotas: dict[frozenset[tuple[str, str | None]], QuotasRecord] = {}
    scram: dict[tuple[str, str], ScramRecord] = {}
    configs: dict[tuple[int, str], ConfigsRecord] = {}
    features: dict[str, int] = {}
    deleted: dict[UUID, bool] = {}

    def take(self, record: Record) -> None:
        match record:
            case ClusterRecord():
                self.cluster = record
            case StartRecord():
                self.start = record
                self.deleted = dict.fromkeys(self.deleted, True)
            case ProducerIdsRecord():
                self.next_producer_id = record.next
            case TopicRecord():
                self.topics[record.id] = record
            case PartitionState():
                self.partitions.setdefault(record.topic_id, {})[record.index] = record
            case TopicDeleted():
                self.topics.pop(record.id, None)
                self.partitions.pop(record.id, None)
                self.deleted[record.id] = False
            case AclsRecord():
                self.acls = record
            case QuotasRecord(entity=entity, values=values):
                self.quotas.pop(frozenset(entity), None)
                if values:
                    self.quotas[frozenset(entity)] = record
            case ScramRecord():
                self.scram[record.row[0], record.row[1]] = record
            case FeaturesRecord(levels=levels):
                self.features.update(levels)
            case ConfigsRecord(kind=kind, name=name, values=values):
                self.configs.pop((kind, name), None)
                if values:
                    self.configs[kind, name] = record

    def records(self) -> Iterator[Record]:
        """What is needed to get here."""
        if self.cluster is not None:
            yield self.cluster
        yield self.start
        yield ProducerIdsRecord(self.next_producer_id)
        yield from self.topics.values()
        for partitions in self.partitions.values():
            yield from partitions.values()
        if self.acls.acls:
            yield self.acls
        yield from self.quotas.values()
        yield from self.scram.values()
        yield from self.configs.values()
        yield from (TopicDeleted(topic_id) for topic_id, is_old in self.deleted.items() if not is_old)
        if self.features:
            yield FeaturesRecord(self.features)


class MetadataLog:
    """See the module. Raises ValueError for a file that is none of its own. `found`: what it had."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._together: list[Record] | None = None
        self.found = Metadata()
        for record in _records(directory.read(NAME) or b""):
            self.found.take(record)
        directory.write(NAME, _line([*self.found.records()]) if self.found.cluster is not None else b"")
        self._file = directory.open(NAME)

    def write(self, record: Record) -> None:
        """Returns when the record survives a loss of power; inside `together` at its end."""
        if self._together is not None:
            self._together.append(record)
        else:
            self._write([record])

    @contextmanager
    def together(self) -> Iterator[None]:
        """The records that are written inside count together. Nothing that follows from them may be seen before the end."""
        self._together = []
        try:
            yield
            records = self._together
        finally:
            self._together = None
        if records:
            self._write(records)

    def _write(self, records: list[Record]) -> None:
        before = self._file.size
        try:
            self._file.append(_line(records))
            self._file.sync()
        except StorageFailed:
            with suppress(StorageFailed):
                self._file.truncate(before)  # what was refused must not count at the next start
            raise


def _line(records: list[Record]) -> bytes:
    return msgspec.json.encode(records) + b"\n"


def _records(data: bytes) -> Iterator[Record]:
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            records = msgspec.json.decode(line, type=list[Record])
        except msgspec.MsgspecError as error:
            if number == len(lines) - 1:
                return  # a line whose end was written before its start
            raise ValueError(f"{NAME}, line {number}: {error}") from None
        for record in records:
            if isinstance(record, ClusterRecord) and record.version != VERSION:
                raise ValueError(f"{NAME}, line {number}: version {record.version}, only {VERSION} is known")
            yield record
