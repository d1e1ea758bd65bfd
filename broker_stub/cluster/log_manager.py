"""The logs of one broker, in its log directories (Kafka's `LogManager`).

A new log goes to the directory with the fewest logs, or to the one that an administrator asked for. A log is in one directory. While it
moves there is a future log in another one, which takes its place in steps of which each survives a loss of power. What is in one directory
is in `log_dir`; when logs move is in `log_dir_moves`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from uuid import UUID

from fencepost.broker_stub.cluster.log_dir import DELETED, FUTURE, OFFSETS, Key, LogDir, name_of
from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.storage.directory import Directory
from fencepost.broker_stub.storage.disk_state import DiskState, StorageFailed
from fencepost.broker_stub.storage.memory import MemoryDirectory


class LogManager:
    """See the module. `storage`: of the cluster; each log directory of a broker is in a directory of it, on a disk of its own. `dirs`: from
    the first one on. `preferred`: where an administrator wants logs that the broker does not have yet."""

    def __init__(self, node_id: int, storage: Directory, *, clock_ms: Callable[[], int], log_dirs: int = 1) -> None:
        self._node_id = node_id
        self._storage = storage
        self._clock_ms = clock_ms
        self.preferred: dict[Key, LogDir] = {}
        self.dirs = [
            LogDir(self._name(number), storage, DiskState(node_id, number=number if log_dirs > 1 else 0), clock_ms=clock_ms)
            for number in range(1, log_dirs + 1)
        ]

    @property
    def logs(self) -> dict[Key, PartitionLog]:
        """Those in directories that are not offline."""
        return self.online[0].logs if len(self.dirs) == 1 else {key: log for each in self.online for key, log in each.logs.items()}

    @property
    def online(self) -> list[LogDir]:
        """The directories that are not offline. A broker with one directory halts instead."""
        return self.dirs if len(self.dirs) == 1 else [each for each in self.dirs if not each.is_offline]

    @property
    def is_clean(self) -> bool:
        """Whether the last shutdown was clean."""
        return all(each.is_clean for each in self.dirs)

    @property
    def is_cordoned(self) -> bool:
        """Whether every directory is cordoned."""
        return all(each.is_cordoned for each in self.dirs)

    def cordon(self, paths: str) -> None:
        """No new log goes to these directories (cordoned.log.dirs), unless there is no other. The logs in them stay."""
        named = {path.strip() for path in paths.split(",")}
        for each in self.dirs:
            each.is_cordoned = "*" in named or each.path in named

    @property
    def must_load(self) -> bool:
        """Whether the next start reads files."""
        return any(each.must_load for each in self.dirs)

    @property
    def offline_keys(self) -> set[Key]:
        """The partitions whose logs are in directories that are offline."""
        return {key for each in self.dirs if each.is_offline for key in each.logs}

    def dir_at(self, path: str) -> LogDir | None:
        """The directory with that absolute path."""
        return next((each for each in self.dirs if each.path == path), None)

    def dir_of(self, key: Key) -> LogDir | None:
        """The directory of that log, also one that is offline."""
        return next((each for each in self.dirs if key in each.logs), None)

    def dir_of_future(self, key: Key) -> LogDir | None:
        """The directory of the future log of that partition."""
        return next((each for each in self.dirs if key in each.futures), None)

    def dir_on(self, disk: DiskState) -> LogDir | None:
        """The directory on that disk."""
        return next((each for each in self.dirs if each.disk is disk), None)

    def create(self, key: Key, *, topic_id: UUID, config: LogConfig, failed: Callable[[StorageFailed], None]) -> PartitionLog:
        """A new, empty log. If a disk fails, `failed` is called with that, and the log is in the next directory. After the last one
        StorageFailed is raised."""
        wanted = self.preferred.pop(key, None)
        free = [each for each in self.online if not each.is_cordoned]
        by_logs = sorted(free, key=lambda each: len(each.logs) + len(each.futures)) or self.online[:1]
        dirs = [wanted] if wanted is not None and not wanted.is_offline else by_logs or self.dirs[:1]
        for each in dirs[:-1]:
            try:
                return each.create(key, topic_id=topic_id, config=config)
            except StorageFailed as error:
                failed(error)
        return dirs[-1].create(key, topic_id=topic_id, config=config)

    def stand_in(self, config: LogConfig) -> PartitionLog:
        """For a log that is offline, or that could not be created: an empty one that cannot be written. The broker creates or loads the log
        when it starts again."""
        return self._elsewhere(config, DiskState(self._node_id, "failed"))

    def unheard_of(self, config: LogConfig) -> PartitionLog:
        """For a log that the broker creates when it hears of the partition: an empty one, elsewhere."""
        return self._elsewhere(config, DiskState(self._node_id))

    def _elsewhere(self, config: LogConfig, disk: DiskState) -> PartitionLog:
        """An empty log in memory, in the place of one that is not there."""
        return PartitionLog(clock_ms=self._clock_ms, config=config, directory=MemoryDirectory(disk))

    def has(self, key: Key, topic_id: UUID) -> bool:
        """Whether a directory has that log, or the future log that takes its place after a crash."""
        if any(each.has_log(key, topic_id) and each.has_segments(key) for each in self.online):
            return True
        return all(any(each.has(name_of(key, topic_id, suffix)) for each in self.online) for suffix in (FUTURE, DELETED))

    def load(self, key: Key, *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of that partition as the directories have it, and its future log; without one an empty log. ValueError for files that
        cannot be read, or that are another topic's, and for a log that is in two directories."""
        for each in self.online:
            each.logs.pop(key, None)
        there = [each for each in self.online if each.has(name_of(key))]
        if len(there) > 1:
            there = [each for each in there if each.has_log(key, topic_id)] or there
        if len(there) > 1:
            there = [each for each in there if each.has_segments(key)] or there[:1]
        if len(there) > 1:
            names = " and ".join(each.name for each in there)
            raise ValueError(f"the log of {name_of(key)} is in {names}: remove the directory of which you know that its disk has failed")
        for each in self.online if not there else ():
            if each.has(name_of(key, topic_id, FUTURE)):  # the broker ended when it was about to take the place of the other one
                for other in self.online:
                    other.directory.sync()  # what takes the other one out: it must not come back beside this one
                each.promote(key, topic_id)
                there = [each]
                break
        log = (
            there[0].load(key, topic_id=topic_id, config=config)
            if there
            else self.create(key, topic_id=topic_id, config=config, failed=_raised)
        )
        for each in self.online:
            if each not in there:
                each.load_future(key, topic_id=topic_id, config=config)
        return log

    def remove_deleted(self, topic_ids: Container[UUID]) -> None:
        """Removes the logs of these topics, which are in the way of those of topics with the same names."""
        for each in self.online:
            each.remove_deleted(topic_ids)

    def loaded(self, known: Container[UUID]) -> None:
        """Every log is loaded. `known`: the topics that there are or were; records of another one stay."""
        for each in self.online:
            each.loaded(known)

    def check_number(self) -> None:
        """Raises ValueError if there is a log in a directory that the broker has no more."""
        number = len(self.dirs) + 1
        for name in self._storage.directories():
            given = name.removeprefix(f"{self._name(1)}.")
            if given != name and given.isdecimal() and int(given) >= number:
                for found in LogDir(name, self._storage, DiskState(self._node_id), clock_ms=self._clock_ms).partitions():
                    if not found.endswith((FUTURE, DELETED)):
                        raise ValueError(f"log_dirs={len(self.dirs)}: the data directory has the log of {found} in {name}")

    def stopped(self, *, clean: bool = True, lost_power: bool = False, failed: bool = False) -> None:
        """The broker is down. A clean stop syncs its logs. A broker that lost its power, or that was halted because its disk failed, reads
        its files when it starts."""
        self.preferred.clear()
        for each in self.dirs:
            if not each.is_offline:
                each.stopped(clean=clean, lost_power=lost_power, failed=failed)
            elif lost_power:
                each.directory.lose_unsynced()

    def check(self) -> None:
        """The broker is about to start: directories whose disks fail are offline. Raises StorageFailed if no other one is left."""
        failures: list[StorageFailed] = []
        for each in self.dirs:
            each.is_offline = False
            try:
                each.disk.check_write()
            except StorageFailed as failed:
                failures.append(failed)
                if len(self.dirs) > 1:
                    each.failed()
        if len(failures) == len(self.dirs):
            raise failures[0]

    def restart(self, key: Key, *, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """The log of a broker that starts again."""
        found = self.dir_of(key)
        if found is not None and found.is_offline:
            return self.stand_in(config)
        if found is None or found.must_load:
            return self.load(key, topic_id=topic_id, config=config)
        for each in self.online:
            if each.must_load:
                each.load_future(key, topic_id=topic_id, config=config)
            elif key in each.futures:
                each.futures[key].reload()
        found.logs[key].reload()
        return found.logs[key]

    def started(self) -> None:
        """Every log was restarted."""
        for each in self.online:
            each.forget_files()
            if each.must_load:
                each.must_load = False
                each.loaded()

    def delete(self, key: Key, topic_id: UUID) -> None:
        """Deletes the log and its future log with their files."""
        for each in self.dirs:
            each.delete(key, topic_id)

    def promote(self, key: Key, topic_id: UUID) -> StorageFailed | None:
        """The future log, which has everything and is flushed, takes the place of the current one, which is deleted. Each step survives a
        loss of power: a start takes the future log if the current one is taken out. Raises StorageFailed only before the target has the
        log; then nothing has changed. Returns a later failure, of the source's disk."""
        source, target = self.dir_of(key), self.dir_of_future(key)
        assert source is not None
        assert target is not None
        target.checkpoint(*OFFSETS)
        source.take_out(key, topic_id)
        try:
            target.promote(key, topic_id)
        except StorageFailed:
            source.put_back(key, topic_id)
            raise
        return _failure(partial(source.remove_taken_out, key, topic_id)) or _failure(partial(source.checkpoint, *OFFSETS))

    def checkpoint(self, *kinds: str) -> list[StorageFailed]:
        """Writes these checkpoints. Returns the failures of disks."""
        return [failed for each in self.online if (failed := _failure(partial(each.checkpoint, *kinds))) is not None]

    def close(self) -> list[StorageFailed]:
        """A clean shutdown: the next start scans no batches. Returns the failures of disks."""
        return [failed for each in self.dirs if (failed := _failure(each.close)) is not None]

    def partitions(self) -> list[str]:
        """The directories of partitions, by their names. There may be others beside them."""
        return [name for each in self.dirs for name in each.partitions()]

    def _name(self, number: int) -> str:
        return f"broker-{self._node_id}" if number == 1 else f"broker-{self._node_id}.{number}"


def _failure(run: Callable[[], object]) -> StorageFailed | None:
    """Runs it, and returns its failure."""
    try:
        run()
    except StorageFailed as failed:
        return failed
    return None


def _raised(failed: StorageFailed) -> None:
    """Does nothing: there is nothing that could go offline during a start."""
