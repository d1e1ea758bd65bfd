"""The logs of one broker, each in its directory, and the checkpoints of all (Kafka's `LogManager`).

Checkpoints tell the next start of the broker what the files themselves do not: how far the logs are flushed, where they start, up to where
they are replicated, and up to where they are compacted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

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
from fencepost.broker_stub.storage.directory import Directory
from fencepost.broker_stub.storage.disk_state import DiskState, StorageFailed
from fencepost.broker_stub.storage.memory import MemoryDirectory
from fencepost.producer.wire.records import CorruptBatch

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_log = logging.getLogger(__name__)

OFFSETS: Final[dict[str, Callable[[PartitionLog], int]]] = {
    RECOVERY_POINTS: lambda log: log.recovery_point,
    LOG_START_OFFSETS: lambda log: log.log_start_offset,
    REPLICATION_OFFSETS: lambda log: log.high_watermark,
    CLEANER_OFFSETS: lambda log: log.first_dirty_offset,
}
"""What each checkpoint has of a log."""


class LogManager:
    """See the module. `storage`: of the cluster; the logs of a broker are in a directory of it, on a disk of their own.
    `must_load`: the broker lost its power, or its disk failed, so its next start reads the files."""

    def __init__(self, node_id: int, storage: Directory, *, clock_ms: Callable[[], int]) -> None:
        self._name = f"broker-{node_id}"
        self.disk = DiskState(node_id)
        self.directory = directory = storage.directory(self._name, self.disk)
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self._clock_ms = clock_ms
        self.must_load = False
        self.is_clean = directory.read(CLEAN_SHUTDOWN) is not None
        self._offsets: dict[str, dict[tuple[str, int], int]] | None = None  # of the checkpoints, until they are read

    @property
    def path(self) -> str:
        """The absolute path of its directory; a made-up one in memory."""
        path = self.directory.path
        return f"/memory/{self._name}" if path is None else str(path.absolute())

    @property
    def space_bytes(self) -> tuple[int, int]:
        """The whole space on its disk, and what is left of it; -1 in memory."""
        return self.directory.space_bytes

    def create(self, topic: str, index: int, *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """A new, empty log."""
        name = f"{topic}-{index}"
        self.directory.remove_directory(name)
        directory = self.directory.directory(name)
        self.directory.sync()
        directory.write(PARTITION_METADATA, write_partition_metadata(topic_id).encode())
        log = self.logs[topic, index] = PartitionLog(clock_ms=self._clock_ms, config=config, directory=directory)
        return log

    def stand_in(self, config: LogConfig) -> PartitionLog:
        """For a log that could not be created: an empty one that cannot be written. The broker creates the log when it starts again."""
        self.must_load = True
        return self._elsewhere(config, DiskState(self.disk.node_id, "failed"))

    def unheard_of(self, config: LogConfig) -> PartitionLog:
        """For a log that the broker creates when it hears of the partition: an empty one, elsewhere."""
        return self._elsewhere(config, DiskState(self.disk.node_id))

    def _elsewhere(self, config: LogConfig, disk: DiskState) -> PartitionLog:
        """An empty log in memory, in the place of one that is not there."""
        return PartitionLog(clock_ms=self._clock_ms, config=config, directory=MemoryDirectory(disk))

    def load(self, topic: str, index: int, *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of that partition as the directory has it; without one an empty log. ValueError for files that cannot be read, or that
        are another topic's; they stay as they are."""
        name = f"{topic}-{index}"
        if name not in self.directory.directories():
            return self.create(topic, index, topic_id=topic_id, config=config)
        directory = self.directory.directory(name)
        try:
            if self._offsets is None:
                self._offsets = {kind: self._read(kind) for kind in OFFSETS}
            known = {kind: offsets.get((topic, index), 0) for kind, offsets in self._offsets.items()}
            _check_topic_id(directory, topic_id)
            log = self.logs[topic, index] = PartitionLog.load(
                directory,
                clock_ms=self._clock_ms,
                config=config,
                log_start_offset=known[LOG_START_OFFSETS],
                high_watermark=known[REPLICATION_OFFSETS],
                first_dirty_offset=known[CLEANER_OFFSETS],
                recovery_point=None if self.is_clean else known[RECOVERY_POINTS],
            )
        except (CorruptBatch, CorruptFile) as error:
            raise ValueError(
                f"the log of {topic}-{index} of {self._name} cannot be loaded: {error}. Look at it with fencepost log verify"
            ) from error
        return log

    def loaded(self) -> None:
        """Every log is loaded. From now on the end of the process is an unclean shutdown, until `close`. The directories of topics that
        were deleted are removed."""
        self.directory.remove(CLEAN_SHUTDOWN)
        self.directory.sync()
        there = {f"{topic}-{index}" for topic, index in self.logs}
        for name in self.partitions():
            if name not in there:
                self.directory.remove_directory(name)

    def stopped(self, *, clean: bool = True, lost_power: bool = False, failed: bool = False) -> None:
        """The broker is down. A clean stop syncs its logs. A broker that lost its power, or that was halted because its disk failed, reads
        its files when it starts."""
        if clean:
            with suppress(StorageFailed):
                for log in self.logs.values():
                    log.flush()
        if lost_power:
            self.directory.lose_unsynced()
        if lost_power or failed:
            self.must_load, self.is_clean, self._offsets = True, False, None

    def check(self) -> None:
        """Raises StorageFailed if the broker cannot start, because its disk fails."""
        self.disk.check_write()

    def restart(self, partition: tuple[str, int], *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of a broker that starts again."""
        if self.must_load:
            return self.load(*partition, topic_id=topic_id, config=config)
        log = self.logs[partition]
        log.reload()
        return log

    def started(self) -> None:
        """Every log was restarted."""
        self.must_load = False

    def delete(self, topic: str, index: int) -> None:
        """Deletes the log with its files."""
        if self.logs.pop((topic, index), None) is not None:
            self.directory.remove_directory(f"{topic}-{index}")

    def checkpoint(self, *kinds: str) -> None:
        """Writes these checkpoints."""
        for kind in kinds:
            offsets = {key: OFFSETS[kind](log) for key, log in self.logs.items()}
            self.directory.write(kind, write_offsets(offsets).encode())

    def close(self) -> None:
        """A clean shutdown: the next start scans no batches. The files of a broker that lost its power stay as they are."""
        if self.must_load:
            return
        for log in self.logs.values():
            log.close()
        self.checkpoint(*OFFSETS)
        self.directory.write(CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')

    def partitions(self) -> list[str]:
        """The directories of partitions, by their names. There may be others beside them."""
        return [name for name in self.directory.directories() if self.directory.directory(name).read(PARTITION_METADATA) is not None]

    def _read(self, kind: str) -> dict[tuple[str, int], int]:
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
