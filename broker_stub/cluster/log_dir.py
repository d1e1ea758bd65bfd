"""One log directory of a broker: its disk, the logs in it, each in a directory of its own, and their checkpoints.

Checkpoints tell the next start of the broker what the files themselves do not: how far the logs are flushed, where they start, up to where
they are replicated, and up to where they are compacted. A future log, which is to take the place of a log in another directory, has a
directory whose name says so. This decides nothing about replicas; `log_manager` chooses among directories.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container
from contextlib import suppress
from typing import Final
from uuid import UUID, uuid4

from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.log.checkpoint_text import (
    CLEANER_OFFSETS,
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    REPLICATION_OFFSETS,
    read_offsets,
    read_partition_metadata,
    write_offsets,
    write_partition_metadata,
)
from fencepost.broker_stub.log.errors import CorruptFile
from fencepost.broker_stub.log.segment import LOG
from fencepost.broker_stub.storage.directory import TEMPORARY, Directory
from fencepost.broker_stub.storage.disk_state import DiskState, StorageFailed
from fencepost.producer.wire.records import CorruptBatch

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
FUTURE: Final = "-future"
DELETED: Final = "-delete"
STRAY: Final = "-stray"
_IS_DELETED: Final = re.compile(rf".*\.[0-9a-f]{{32}}{DELETED}").fullmatch

Key = tuple[str, int]
"""A topic and the number of a partition."""

_log = logging.getLogger(__name__)

OFFSETS: Final[dict[str, Callable[[PartitionLog], int]]] = {
    RECOVERY_POINTS: lambda log: log.recovery_point,
    LOG_START_OFFSETS: lambda log: log.log_start_offset,
    REPLICATION_OFFSETS: lambda log: log.high_watermark,
    CLEANER_OFFSETS: lambda log: log.first_dirty_offset,
}
"""What each checkpoint has of a log."""


def name_of(key: Key, topic_id: UUID | None = None, suffix: str = "") -> str:
    """The name of a log's directory. `suffix`: of one that is no replica's log yet, or no longer."""
    topic, index = key
    return f"{topic}-{index}" if topic_id is None else f"{topic}-{index}.{topic_id.hex}{suffix}"


class LogDir:
    """See the module. `logs` and `futures`: by their partitions. `is_offline`: its disk failed, until the broker starts again.
    `must_load`: the broker lost its power, or this disk failed, so the next start reads the files. `is_cordoned`: it gets no new logs."""

    def __init__(self, name: str, storage: Directory, disk: DiskState, *, clock_ms: Callable[[], int]) -> None:
        self.name = name
        self.disk = disk
        self.directory = storage.directory(name, disk)
        self.logs: dict[Key, PartitionLog] = {}
        self.futures: dict[Key, PartitionLog] = {}
        self.is_offline = self.must_load = self.is_cordoned = False
        self.is_clean = self.directory.read(CLEAN_SHUTDOWN) is not None
        self._clock_ms = clock_ms
        self._offsets: dict[str, dict[Key, int]] | None = None  # of the checkpoints, while logs are loaded
        self._names: frozenset[str] | None = None  # of the directories in it, while logs are loaded

    @property
    def path(self) -> str:
        """Its absolute path; a made-up one in memory."""
        path = self.directory.path
        return f"/memory/{self.name}" if path is None else str(path.absolute())

    @property
    def space_bytes(self) -> tuple[int, int]:
        """The whole space on its disk, and what is left of it; -1 in memory."""
        return self.directory.space_bytes

    def has(self, name: str) -> bool:
        """Whether there is a directory of that name in it."""
        if self._names is None:
            self._names = frozenset(self.directory.directories())
        return name in self._names

    def has_log(self, key: Key, topic_id: UUID) -> bool:
        """Whether it has a directory for that log, which is no other topic's."""
        name = name_of(key)
        with suppress(CorruptFile):
            data = self.directory.directory(name).read(PARTITION_METADATA) if self.has(name) else None
            return self.has(name) and (data is None or read_partition_metadata(data) == topic_id)
        return False

    def has_segments(self, key: Key) -> bool:
        """Whether that log's directory has a segment. A disk that failed while the log was created may have left it without one."""
        return any(name.endswith(LOG) for name in self.directory.directory(name_of(key)).names())

    def create(self, key: Key, *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """A new, empty log."""
        log = self.logs[key] = self._create(name_of(key), topic_id, config)
        return log

    def create_future(self, key: Key, *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """A new, empty future log."""
        log = self.futures[key] = self._create(name_of(key, topic_id, FUTURE), topic_id, config)
        return log

    def load(self, key: Key, *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of that partition. ValueError for files that cannot be read, or that are another topic's; they stay as they are."""
        log = self.logs[key] = self._load(key, name_of(key), topic_id, config)
        return log

    def load_future(self, key: Key, *, topic_id: UUID, config: LogConfig) -> PartitionLog | None:
        """The future log of that partition, if there is one. It is removed if it cannot be read: the current log has everything."""
        name = name_of(key, topic_id, FUTURE)
        self.futures.pop(key, None)
        if not self.has(name):
            return None
        try:
            log = self.futures[key] = self._load(key, name, topic_id, config)
        except ValueError as error:
            _log.warning("%s", error)
            self._remove(name)
            return None
        return log

    def loaded(self, known: Container[UUID] | None = None) -> None:
        """Every log is loaded. From now on the end of the process is an unclean shutdown, until `close`. The directories of topics that
        were deleted are removed. `known`: as in `tidy_up`."""
        self.forget_files()
        self.directory.remove(CLEAN_SHUTDOWN)
        self.directory.sync()
        self.tidy_up(known)

    def forget_files(self) -> None:
        """No log is loaded any more: the checkpoints and names are read anew for the next one."""
        self._names = self._offsets = None

    def tidy_up(self, known: Container[UUID] | None = None) -> None:
        """Removes the directories of logs that no replica has, and what is left of deleted ones. `known`: the topics that there are or
        were, by default all. Records of another topic stay, in a directory with another name, as in Kafka."""
        logs, futures = {name_of(key) for key in self.logs}, {name_of(key) for key in self.futures}
        for name in self.directory.directories():
            current, _, _ = name.rpartition(".")
            if _IS_DELETED(name):
                self.directory.remove_directory(name)
            elif name not in logs and not (name.endswith(FUTURE) and current in futures) and self._is_partition(name):
                if known is None or not self._has_records(name) or self._topic_id(name) in known:
                    self._remove(name)
                else:
                    self._put_aside(name, "is the log of a topic that is not known")

    def remove_deleted(self, topic_ids: Container[UUID]) -> None:
        """Removes the logs of these topics."""
        for name in self.directory.directories():
            if self._topic_id(name) in topic_ids:
                self._remove(name)

    def delete(self, key: Key, topic_id: UUID) -> None:
        """Deletes the log of that partition and the future log, with their files. A disk that failed keeps them until the next start."""
        for logs, name in ((self.logs, name_of(key)), (self.futures, name_of(key, topic_id, FUTURE))):
            if logs.pop(key, None) is not None and not self.is_offline:
                self._remove(name)

    def delete_future(self, key: Key, topic_id: UUID) -> None:
        """Deletes the future log with its files. It must not come back: a later one may be elsewhere."""
        if self.futures.pop(key, None) is not None and not self.is_offline:
            self._remove(name_of(key, topic_id, FUTURE))

    def take_out(self, key: Key, topic_id: UUID) -> None:
        """The log is to be deleted: from now on a start does not take it for the partition's."""
        self.directory.remove_directory(name_of(key, topic_id, DELETED))
        self.directory.rename_directory(name_of(key), name_of(key, topic_id, DELETED))
        self.directory.sync()

    def put_back(self, key: Key, topic_id: UUID) -> None:
        """Undoes `take_out`."""
        self.directory.rename_directory(name_of(key, topic_id, DELETED), name_of(key))
        self.directory.sync()

    def remove_taken_out(self, key: Key, topic_id: UUID) -> None:
        """Deletes what `take_out` left."""
        del self.logs[key]
        self.directory.remove_directory(name_of(key, topic_id, DELETED))

    def promote(self, key: Key, topic_id: UUID) -> None:
        """The future log is the partition's log from now on."""
        self.directory.rename_directory(name_of(key, topic_id, FUTURE), name_of(key))
        self.directory.sync()
        self._names = None
        if key in self.futures:
            self.logs[key] = self.futures.pop(key)

    def stopped(self, *, clean: bool = True, lost_power: bool = False, failed: bool = False) -> None:
        """The broker is down. A clean stop syncs the logs. After a loss of power, and after a failure of the disk, the next start reads the
        files."""
        if clean:
            with suppress(StorageFailed):
                for log in (*self.logs.values(), *self.futures.values()):
                    log.flush()
        if lost_power:
            self.directory.lose_unsynced()
        if lost_power or failed:
            self.must_load, self.is_clean = True, False
            self.forget_files()

    def failed(self) -> None:
        """Its disk failed: it is offline until the broker starts again."""
        self.is_offline = True
        self.stopped(clean=False, failed=True)

    def checkpoint(self, *kinds: str) -> None:
        """Writes these checkpoints."""
        for kind in kinds:
            offsets = {key: OFFSETS[kind](log) for logs in (self.logs, self.futures) for key, log in logs.items()}
            self.directory.write(kind, write_offsets(offsets).encode())

    def close(self) -> None:
        """A clean shutdown: the next start scans no batches. After a loss of power or a failure the files stay as they are."""
        if self.must_load:
            return
        for log in (*self.logs.values(), *self.futures.values()):
            log.close()
        self.checkpoint(*OFFSETS)
        self.directory.write(CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')

    def partitions(self) -> list[str]:
        """The directories of partitions, by their names. There may be others beside them."""
        return [name for name in self.directory.directories() if self._is_partition(name)]

    def _is_partition(self, name: str) -> bool:
        return not name.endswith(STRAY) and self.directory.directory(name).read(PARTITION_METADATA) is not None

    def _topic_id(self, name: str) -> UUID | None:
        """Of the log in that directory. None: it has none that can be read."""
        data = self.directory.directory(name).read(PARTITION_METADATA)
        with suppress(CorruptFile):
            return None if data is None else read_partition_metadata(data)
        return None

    def _has_records(self, name: str) -> bool:
        directory = self.directory.directory(name)
        return any(directory.open(each).size for each in directory.names() if each.endswith(LOG))

    def _put_aside(self, name: str, why: str) -> None:
        """Gives the directory a name that no log has."""
        aside = f"{name}.{uuid4().hex}{STRAY}"
        _log.warning("%s/%s %s; it is %s now", self.path, name, why, aside)
        self.directory.rename_directory(name, aside)
        self.directory.sync()

    def _remove(self, name: str) -> None:
        """Removes the directory of a log, which first gets a name that says so: what a crash leaves of it counts as no log. The next start
        removes what a disk that failed has kept."""
        aside = f"{name}.{uuid4().hex}{DELETED}"
        try:
            self.directory.rename_directory(name, aside)
            self.directory.sync()
        except StorageFailed:
            self.directory.remove_directory(name)
        self.directory.remove_directory(aside)

    def _create(self, name: str, topic_id: UUID, config: LogConfig) -> PartitionLog:
        self._make_room(name)
        directory = self.directory.directory(name)
        try:
            self.directory.sync()
            directory.write(PARTITION_METADATA, write_partition_metadata(topic_id).encode())
            return self._watched(PartitionLog(clock_ms=self._clock_ms, config=config, directory=directory))
        except StorageFailed:
            self.directory.remove_directory(name)
            raise

    def _make_room(self, name: str) -> None:
        """Removes what an interrupted creation or deletion has left. Other files stay, under another name."""
        path = self.directory.path
        there = self.directory.directory(name) if path is not None and (path / name).is_dir() else None
        left = [] if there is None else [each for each in (*there.names(), *there.directories()) if not each.endswith(TEMPORARY)]
        if left and PARTITION_METADATA not in left:
            self._put_aside(name, "is not the log of a partition")
        if there is not None:
            self._remove(name)
        else:
            self.directory.remove_directory(name)  # what is known of one whose files are gone

    def _load(self, key: Key, name: str, topic_id: UUID, config: LogConfig) -> PartitionLog:
        directory = self.directory.directory(name)
        try:
            if self._offsets is None:
                self._offsets = {kind: self._read(kind) for kind in OFFSETS}
            known = {kind: offsets.get(key, 0) for kind, offsets in self._offsets.items()}
            _check_topic_id(directory, topic_id)
            log = PartitionLog.load(
                directory,
                clock_ms=self._clock_ms,
                config=config,
                log_start_offset=known[LOG_START_OFFSETS],
                high_watermark=known[REPLICATION_OFFSETS],
                first_dirty_offset=known[CLEANER_OFFSETS],
                recovery_point=None if self.is_clean else known[RECOVERY_POINTS],
            )
        except (CorruptBatch, CorruptFile) as error:
            raise ValueError(f"the log of {name} of {self.name} cannot be loaded: {error}. Look at it with fencepost log verify") from error
        return self._watched(log)

    def _watched(self, log: PartitionLog) -> PartitionLog:
        """The log, whose truncations are in the checkpoints at once: the next start must check what is written after one, and the next
        compaction must read it."""
        log.truncated = self._truncated
        return log

    def _truncated(self, log: PartitionLog) -> None:
        self.checkpoint(RECOVERY_POINTS, *((CLEANER_OFFSETS,) if log.config.compacted else ()))

    def _read(self, kind: str) -> dict[Key, int]:
        data = self.directory.read(kind)
        try:
            return {} if data is None else read_offsets(kind, data)
        except CorruptFile as error:
            _log.warning("%s; the logs are read from their start", error)
            return {}


def _check_topic_id(directory: Directory, topic_id: UUID) -> None:
    """A log without its topic's id gets it, as in Kafka. CorruptFile for another one, or for one that cannot be read."""
    data = directory.read(PARTITION_METADATA)
    if data is None:
        directory.write(PARTITION_METADATA, write_partition_metadata(topic_id).encode())
    elif (found := read_partition_metadata(data)) != topic_id:
        raise CorruptFile(PARTITION_METADATA, 2, f"the topic's id is {topic_id}, and this is {found}")
