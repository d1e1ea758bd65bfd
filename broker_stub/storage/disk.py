"""Files on disk.

Few of them are open at a time, however many partitions a broker has. A file that is replaced as a whole is written beside the old one,
synced and renamed, as Kafka writes its checkpoints.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Final

from fencepost.broker_stub.storage.directory import DELETED, TEMPORARY
from fencepost.broker_stub.storage.disk_state import DiskState, StorageFailed

OPEN_FILES_MAX: Final = 256
LOCK: Final = ".lock"

Later = Callable[[int, Callable[[], None]], object]
"""Runs a function after so many milliseconds."""


def _lock(file: BufferedWriter) -> None:
    """Locks it until it is closed; OSError if another process, or another object here, has locked it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(file: BufferedWriter) -> None:
    """Also for a forked child, which has the same file open."""
    if sys.platform != "win32" and not file.closed:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)


class OpenFiles:
    """The open files of one data directory. Beyond `limit` the one that was not used for longest is closed."""

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        self._limit = limit
        self._files: OrderedDict[Path, FileIO] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def of(self, path: Path) -> FileIO:
        """The opened file of that path, which exists."""
        found = self._files.get(path)
        if found is not None:
            self._files.move_to_end(path)
            return found
        opened = self._files[path] = FileIO(path, "r+")
        if len(self._files) > self._limit:
            self._files.popitem(last=False)[1].close()
        return opened

    def __del__(self) -> None:
        self.close_all()

    def close(self, path: Path) -> None:
        if (opened := self._files.pop(path, None)) is not None:
            opened.close()

    def close_all(self, below: Path | None = None) -> None:
        """Closes every file, or those in a directory."""
        for path in [each for each in self._files if below is None or below in each.parents]:
            self.close(path)


class DiskFile:
    """See the module. There is one object for a path, because it keeps the size."""

    __slots__ = ("_disk", "_open", "_size", "_synced", "path")

    def __init__(self, path: Path, open_files: OpenFiles, disk: DiskState) -> None:
        self.path = path
        self._open = open_files
        self._disk = disk
        with writing(disk):
            if not _is_file(path):  # the time of the last change stays
                path.touch()
            self._size = self._synced = path.stat().st_size

    @property
    def size(self) -> int:
        return self._size

    @property
    def modified_ms(self) -> int:
        with failing(self._disk):
            return self.path.stat().st_mtime_ns // 1_000_000

    @modified_ms.setter
    def modified_ms(self, value: int) -> None:
        with writing(self._disk):
            os.utime(self.path, ns=(value * 1_000_000,) * 2)

    def append(self, data: bytes) -> None:
        if self._disk.fault is not None:
            self._disk.check_write()
        try:
            file = self._open.of(self.path)
            file.seek(self._size)
            written = file.write(data)
            while written < len(data):  # a system writes at most 2 GiB at a time, or less where little space is left
                written += file.write(memoryview(data)[written:])
        except OSError as error:
            self._cut_back()
            raise StorageFailed(self._disk, error) from error
        self._size += written

    def read(self, position: int, size: int) -> bytes:
        wanted = min(size, self._size - position)
        if wanted <= 0:
            return b""
        if self._disk.fault is not None:
            self._disk.check_read()
        try:
            file = self._open.of(self.path)
            file.seek(position)
            data = file.read(wanted)
            while len(data) < wanted and (more := file.read(wanted - len(data))):
                data += more
        except OSError as error:
            raise StorageFailed(self._disk, error) from error
        return data

    def overwrite(self, position: int, data: bytes) -> None:
        with writing(self._disk):
            file = self._open.of(self.path)
            file.seek(position)
            file.write(data)

    def truncate(self, size: int) -> None:
        with writing(self._disk):
            self._open.of(self.path).truncate(size)
        self._size, self._synced = size, min(size, self._synced)

    def sync(self) -> None:
        with writing(self._disk):
            os.fsync(self._open.of(self.path).fileno())
        self._synced = self._size

    def lose_unsynced(self) -> None:
        """Removes what was not synced."""
        with suppress(FileNotFoundError):
            self._open.of(self.path).truncate(self._synced)
        self._size = self._synced

    def _cut_back(self) -> None:
        """Removes what was written of an append that failed."""
        with suppress(OSError):
            self._open.of(self.path).truncate(self._size)


def _is_file(path: Path) -> bool:
    """Whether there is a file. OSError for anything else, such as a pipe, which has no end."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Is no file", str(path))
    return True


@contextmanager
def failing(disk: DiskState) -> Iterator[None]:
    """An error of the system becomes StorageFailed."""
    try:
        yield
    except StorageFailed:
        raise
    except OSError as error:
        raise StorageFailed(disk, error) from error


@contextmanager
def writing(disk: DiskState) -> Iterator[None]:
    """The same for what writes: it also fails if the disk's state says so."""
    disk.check_write()
    with failing(disk):
        yield


class DiskDirectory:
    """See the module. `later` removes files whose deletion waits."""

    def __init__(self, path: Path, *, later: Later, open_files: OpenFiles | None = None, disk: DiskState | None = None) -> None:
        self.path = path
        self._disk = disk or DiskState()
        self._later = later
        self._open = OpenFiles() if open_files is None else open_files
        self._files: dict[str, DiskFile] = {}
        self._directories: dict[str, DiskDirectory] = {}
        self._lock: BufferedWriter | None = None
        path.mkdir(parents=True, exist_ok=True)

    @property
    def space_bytes(self) -> tuple[int, int]:
        with failing(self._disk):
            space = shutil.disk_usage(self.path)
        return space.total, space.free

    def names(self) -> list[str]:
        with failing(self._disk):
            return sorted(each.name for each in os.scandir(self.path) if each.is_file())

    def directories(self) -> list[str]:
        with failing(self._disk):
            return sorted(each.name for each in os.scandir(self.path) if each.is_dir())

    def directory(self, name: str, disk: DiskState | None = None) -> DiskDirectory:
        found = self._directories.get(name)
        if found is None:
            disk = disk or self._disk
            with failing(disk):
                found = DiskDirectory(self.path / name, later=self._later, open_files=self._open, disk=disk)
            self._directories[name] = found
        return found

    def open(self, name: str) -> DiskFile:
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = DiskFile(self.path / name, self._open, self._disk)
        return found

    def read(self, name: str) -> bytes | None:
        path = self.path / name
        try:
            with failing(self._disk):
                return path.read_bytes() if _is_file(path) else None
        except StorageFailed as failed:
            if isinstance(failed.__cause__, FileNotFoundError):
                return None  # it was removed meanwhile
            raise

    def write(self, name: str, data: bytes) -> None:
        self._forget(name)
        path = self.path / (name + TEMPORARY)
        with writing(self._disk):
            with path.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            path.replace(self.path / name)
            self.sync()

    def rename(self, name: str, to: str) -> None:
        self._forget(to)
        with writing(self._disk):
            (self.path / name).replace(self.path / to)
        opened = self._files.pop(name, None)
        if opened is not None:
            self._open.close(opened.path)
            opened.path = self.path / to
            self._files[to] = opened

    def remove(self, name: str, *, delay_ms: int = 0) -> None:
        self._forget(name)
        path = self.path / name
        with failing(self._disk):
            if not delay_ms:
                path.unlink(missing_ok=True)
            elif path.exists():
                path.replace(self.path / (name + DELETED))
                self._later(delay_ms, lambda: self.remove(name + DELETED))

    def rename_directory(self, name: str, to: str) -> None:
        path = self.path / name
        self._open.close_all(path)
        self._disk.check_read()
        with failing(self._disk):
            path.rename(self.path / to)
        renamed = self._directories.pop(name, None)
        if renamed is not None:
            renamed.moved(self.path / to)
            self._directories[to] = renamed

    def moved(self, path: Path) -> None:
        """It has another path now, and so have its files."""
        self.path = path
        for name, file in self._files.items():
            file.path = path / name

    def remove_directory(self, name: str) -> None:
        path = self.path / name
        self._directories.pop(name, None)
        self._open.close_all(path)
        shutil.rmtree(path, ignore_errors=True)

    def sync(self) -> None:
        if not hasattr(os, "O_DIRECTORY"):
            return  # Windows opens no directories, and its renames need no sync
        with failing(self._disk):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lose_unsynced(self) -> None:
        for file in self._files.values():
            file.lose_unsynced()
        for directory in self._directories.values():
            directory.lose_unsynced()

    def lock(self) -> None:
        """Takes the directory for this process, as Kafka does with its file of the same name. ValueError if another one has it."""
        self._lock = (self.path / LOCK).open("ab")
        try:
            _lock(self._lock)
        except OSError:
            self._lock.close()
            raise ValueError(f"data_dir={str(self.path)!r}: another cluster uses this directory") from None

    def close(self) -> None:
        """Closes every open file of the data directory, and unlocks it."""
        self._open.close_all()
        if self._lock is not None:
            _unlock(self._lock)
            self._lock.close()

    def _forget(self, name: str) -> None:
        opened = self._files.pop(name, None)
        if opened is not None:
            self._open.close(opened.path)


_ADVICE: Final = {
    errno.EACCES: "this user must be allowed to read and write the directory and everything in it, and to enter those above it",
    errno.EPERM: "this user must be allowed to read and write the directory and everything in it",
    errno.EROFS: "the file system is read-only; give a directory on another one",
    errno.ENOSPC: "make room there, or give a directory on another file system",
    errno.EDQUOT: "make room there, or give a directory on another file system",
    errno.ENAMETOOLONG: "give a shorter path",
}


def unusable(path: str | os.PathLike[str], error: OSError) -> OSError:
    """The error of a cluster that cannot start with that directory, and what to do."""
    cause = error.__cause__ if isinstance(error, StorageFailed) else error
    filename = getattr(cause, "filename", None)
    where = "" if filename is None else f": {os.fspath(filename)!r}"
    advice = _ADVICE.get(error.errno or 0, "give another directory, or look at what is there")
    return OSError(error.errno, f"data_dir={os.fspath(path)!r} cannot be used, because {error.strerror or error}{where}: {advice}")


def open_data_dir(path: str | os.PathLike[str], *, later: Later) -> DiskDirectory:
    """The directory of a cluster. It is created, and locked until `close`. ValueError for one that another process uses."""
    if Path(path).exists() and not Path(path).is_dir():
        raise ValueError(f"data_dir={os.fspath(path)!r} is a file: give a directory, or a path where one can be created")
    try:
        directory = DiskDirectory(Path(path).absolute(), later=later)
    except FileExistsError:
        raise ValueError(f"data_dir={os.fspath(path)!r} is a link to something that does not exist") from None
    directory.lock()
    return directory
