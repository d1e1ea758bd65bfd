"""Files in memory. They last as long as the object that holds the directory.

A storage knows positions and bytes, no offsets and no batches.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final
from weakref import WeakValueDictionary

from fencepost.broker_stub.storage.disk_state import DiskState
from fencepost.broker_stub.storage.freed_memory import note_freed

WHOLE_BYTES_MIN: Final = 16 << 10  # an append of this size is kept as its own object
TAIL_BYTES_MAX: Final = 64 << 10  # smaller ones are joined up to this size


class Chunk:
    """Bytes of a file that no longer change."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __del__(self) -> None:
        note_freed(len(self.data))


class SharedChunks:
    """The joined chunks of a cluster's files, as long as a file has them. Files that have the same one share it, however late the second
    one gets it."""

    def __init__(self) -> None:
        self._chunks = WeakValueDictionary[int, Chunk]()

    def shared(self, data: bytes) -> Chunk:
        """A chunk with these bytes: that of another file if one has it."""
        known = self._chunks.get(hash(data))
        if known is not None and known.data == data:
            return known
        chunk = self._chunks[hash(data)] = Chunk(data)
        return chunk


class MemoryFile:
    """A list of immutable chunks and a growing tail.

    A large append is kept as it came, and read as a view of itself. Small ones are joined, so that a log of tiny batches needs no object
    for each. The tail is copied when read, because a view would prevent its growth. Replicas get the same appends, so they join the same
    chunks, and share them.
    """

    __slots__ = ("_chunks", "_disk", "_shared", "_starts", "_synced", "_tail", "_tail_start", "modified_ms")

    def __init__(self, disk: DiskState | None = None, shared: SharedChunks | None = None) -> None:
        self.modified_ms = 0
        self._disk = disk or DiskState()
        self._shared = shared or SharedChunks()
        self._synced = 0
        self._chunks: list[Chunk] = []
        self._starts: list[int] = []
        self._tail = bytearray()
        self._tail_start = 0

    @property
    def size(self) -> int:
        return self._tail_start + len(self._tail)

    def append(self, data: bytes) -> None:
        if self._disk.fault is not None:
            self._disk.check_write()
        if len(data) >= WHOLE_BYTES_MIN:
            self._seal()
            self._keep(Chunk(data))
            return
        self._tail += data
        if len(self._tail) >= TAIL_BYTES_MAX:
            self._seal()

    def read(self, position: int, size: int) -> bytes | memoryview:
        if self._disk.fault is not None:
            self._disk.check_read()
        end = min(position + size, self.size)
        if position >= self._tail_start:
            return bytes(memoryview(self._tail)[position - self._tail_start : end - self._tail_start])
        number = bisect_right(self._starts, position) - 1
        parts = [self._part(number, position, end)]
        at = position + len(parts[0])
        while at < end and at < self._tail_start:
            number += 1
            parts.append(self._part(number, at, end))
            at += len(parts[-1])
        if at < end:
            with memoryview(self._tail) as tail:
                parts.append(bytes(tail[: end - at]))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def overwrite(self, position: int, data: bytes) -> None:
        synced, behind = self._synced, bytes(self.read(position + len(data), self.size))
        self.truncate(position)
        self.append(data + behind)
        self._synced = synced

    def truncate(self, size: int) -> None:
        self._synced = min(self._synced, size)
        if size >= self._tail_start:
            del self._tail[size - self._tail_start :]
            return
        number = bisect_right(self._starts, size) - 1
        kept = self._chunks[number].data[: size - self._starts[number]]
        del self._chunks[number:], self._starts[number:]
        self._tail.clear()
        self._tail_start = self._starts[-1] + len(self._chunks[-1].data) if self._chunks else 0
        if kept:
            self.append(kept)

    def sync(self) -> None:
        self._disk.check_write()
        self._synced = self.size

    def lose_unsynced(self) -> None:
        """Removes what was not synced."""
        self.truncate(self._synced)

    def _part(self, number: int, position: int, end: int) -> bytes | memoryview:
        chunk = self._chunks[number].data
        start = position - self._starts[number]
        stop = min(end - self._starts[number], len(chunk))
        return chunk if stop - start == len(chunk) else memoryview(chunk)[start:stop]

    def _seal(self) -> None:
        if self._tail:
            self._keep(self._shared.shared(bytes(self._tail)))
            self._tail = bytearray()

    def _keep(self, chunk: Chunk) -> None:
        self._starts.append(self._tail_start)
        self._chunks.append(chunk)
        self._tail_start += len(chunk.data)


class MemoryDirectory:
    """See the module. A small file is a `bytes` object, a file that grows a MemoryFile."""

    __slots__ = ("_directories", "_disk", "_files", "_shared")
    path: Final = None
    space_bytes: Final = (-1, -1)

    def __init__(self, disk: DiskState | None = None, shared: SharedChunks | None = None) -> None:
        self._disk = disk or DiskState()
        self._shared = shared or SharedChunks()
        self._files: dict[str, MemoryFile | bytes] = {}
        self._directories: dict[str, MemoryDirectory] = {}

    def names(self) -> list[str]:
        return sorted(self._files)

    def directories(self) -> list[str]:
        return sorted(self._directories)

    def directory(self, name: str, disk: DiskState | None = None) -> MemoryDirectory:
        found = self._directories.get(name)
        if found is None:
            found = self._directories[name] = MemoryDirectory(disk or self._disk, self._shared)
        return found

    def open(self, name: str) -> MemoryFile:
        found = self._files.get(name)
        if isinstance(found, MemoryFile):
            return found
        opened = self._files[name] = MemoryFile(self._disk, self._shared)
        if found:
            opened.append(found)
        return opened

    def read(self, name: str) -> bytes | None:
        found = self._files.get(name)
        return bytes(found.read(0, found.size)) if isinstance(found, MemoryFile) else found

    def write(self, name: str, data: bytes) -> None:
        self._disk.check_write()
        self._files[name] = data

    def rename(self, name: str, to: str) -> None:
        self._files[to] = self._files.pop(name)

    def remove(self, name: str, *, delay_ms: int = 0) -> None:
        self._files.pop(name, None)

    def rename_directory(self, name: str, to: str) -> None:
        self._disk.check_read()
        self._directories[to] = self._directories.pop(name)

    def remove_directory(self, name: str) -> None:
        self._directories.pop(name, None)

    def sync(self) -> None:
        """Does nothing: there is nothing that survives."""

    def lose_unsynced(self) -> None:
        for file in self._files.values():
            if isinstance(file, MemoryFile):
                file.lose_unsynced()
        for directory in self._directories.values():
            directory.lose_unsynced()

    def close(self) -> None:
        """Does nothing: the files stay as long as the object."""
