"""What a log needs of its storage: a directory with files that grow, and with small files that are replaced as a whole.

Until `sync`, written bytes can be lost when the machine loses its power. They are never lost when only the process ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from fencepost.broker_stub.storage.disk_state import DiskState

DELETED: Final = ".deleted"
"""The suffix of a removed file, until it is deleted."""
TEMPORARY: Final = ".tmp"
"""The suffix of a small file that is being written."""


class File(Protocol):
    """A file that grows. `modified_ms`: when it was last changed, as far as the storage knows."""

    modified_ms: int

    @property
    def size(self) -> int:
        """Its bytes, which is the position of the next append."""
        ...

    def append(self, data: bytes) -> None:
        """Appends `data`, all or nothing. The caller must not change it any more. Raises StorageFailed, as all that changes or
        reads a file does."""
        ...

    def read(self, position: int, size: int) -> bytes | memoryview:
        """The bytes from `position`, at most `size` of them, fewer at the end. A view where that saves a copy: do not write to it."""
        ...

    def overwrite(self, position: int, data: bytes) -> None:
        """Replaces bytes that are there, as a fault of the disk does: what was synced counts as synced."""
        ...

    def truncate(self, size: int) -> None:
        """Removes everything from position `size` on."""
        ...

    def sync(self) -> None:
        """Returns when the file survives a loss of power."""
        ...


class Directory(Protocol):
    """Files by name, and directories by name."""

    @property
    def path(self) -> Path | None:
        """Where it is on disk; None: nowhere."""
        ...

    @property
    def space_bytes(self) -> tuple[int, int]:
        """The whole space where it is, and what is left of it; -1 in memory."""
        ...

    def names(self) -> list[str]:
        """The names of its files, in order."""
        ...

    def directories(self) -> list[str]:
        """The names of the directories in it, in order."""
        ...

    def directory(self, name: str, disk: DiskState | None = None) -> Directory:
        """The directory of that name in it, created if there is none. `disk`: the one on which it is, if it is another one."""
        ...

    def open(self, name: str) -> File:
        """The file that grows, created if there is none. The same object each time."""
        ...

    def read(self, name: str) -> bytes | None:
        """The whole file; None: there is none."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Replaces the file as a whole. After a loss of power it is the old one or the new one."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Renames a file. It replaces one of that name. The caller does not use an opened `to` any more."""
        ...

    def remove(self, name: str, *, delay_ms: int = 0) -> None:
        """Removes the file, if there is one. With a delay its space is freed later (Kafka's file.delete.delay.ms)."""
        ...

    def rename_directory(self, name: str, to: str) -> None:
        """Renames a directory. There must be none with the new name. Its files stay open, and its `Directory` is the same object. A full
        disk does so, too."""
        ...

    def remove_directory(self, name: str) -> None:
        """Removes the directory of that name with everything in it, if there is one."""
        ...

    def sync(self) -> None:
        """Returns when the names of its files survive a loss of power."""
        ...

    def lose_unsynced(self) -> None:
        """The power fails: every file that grows, also in the directories in it, ends where it was synced."""
        ...

    def close(self) -> None:
        """Ends the use of the whole storage."""
        ...
