"""Files in memory on a machine that loses its power: what was not synced is then lost, torn or kept, each write by itself.

Names are changed in order, as a journaling file system does: after a loss of power an earlier change is there if a later one is. `trip`
makes the power fail in the middle of a call.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from fencepost.broker_stub.storage.directory import TEMPORARY
from fencepost.broker_stub.storage.disk_state import DiskState
from fencepost.broker_stub.storage.memory import MemoryFile


class PowerLost(Exception):
    """The power fails now. Nothing that is in memory counts any more; `lose_power` says what the files have."""


class Power:
    """Counts what happens to files. `trip_at`: the number of the step at which the power fails; None: it does not."""

    def __init__(self) -> None:
        self.steps = 0
        self.trip_at: int | None = None

    def step(self) -> None:
        self.steps += 1
        if self.trip_at is not None and self.steps >= self.trip_at:
            raise PowerLost


class VolatileFile:
    """See the module. It has the bytes as a process sees them, the synced ones, and the writes since then."""

    def __init__(self, power: Power) -> None:
        self._power = power
        self._seen = MemoryFile()
        self._synced = b""
        self._writes: list[tuple[int, bytes | None]] = []  # position and bytes; None: a truncation to that position

    @property
    def modified_ms(self) -> int:
        return self._seen.modified_ms

    @modified_ms.setter
    def modified_ms(self, value: int) -> None:
        self._seen.modified_ms = value

    @property
    def size(self) -> int:
        return self._seen.size

    def append(self, data: bytes) -> None:
        self._power.step()
        self._writes.append((self.size, data))
        self._seen.append(data)

    def read(self, position: int, size: int) -> bytes | memoryview:
        return self._seen.read(position, size)

    def overwrite(self, position: int, data: bytes) -> None:
        self._seen.overwrite(position, data)
        synced = self._synced
        self._synced = (synced[:position] + data + synced[position + len(data) :])[: len(synced)]

    def truncate(self, size: int) -> None:
        self._power.step()
        self._writes.append((size, None))
        self._seen.truncate(size)

    def sync(self) -> None:
        self._power.step()
        self._synced = bytes(self._seen.read(0, self.size))
        self._writes.clear()

    def survivor(self, rng: random.Random) -> VolatileFile:
        """The file after the loss of power."""
        data = bytearray(self._synced)
        for position, written in self._writes:
            fate = rng.randrange(3)
            if fate == 0:
                continue
            if written is None:
                del data[position:]
            else:
                kept = written if fate == 1 else written[: rng.randrange(len(written) + 1)]
                data += bytes(max(0, position - len(data)))
                data[position : position + len(kept)] = kept
        found = VolatileFile(self._power)
        found._seen.append(bytes(data))
        found._synced = bytes(data)
        return found


Entries = dict[str, "VolatileFile | VolatileDirectory"]


class VolatileDirectory:
    """See the module."""

    path: Final = None
    space_bytes: Final = (-1, -1)

    def __init__(self, power: Power | None = None) -> None:
        self.power = power or Power()
        self._entries: Entries = {}
        self._synced: Entries = {}
        self._changes: list[Callable[[Entries], object]] = []

    def names(self) -> list[str]:
        return sorted(name for name, entry in self._entries.items() if isinstance(entry, VolatileFile))

    def directories(self) -> list[str]:
        return sorted(name for name, entry in self._entries.items() if isinstance(entry, VolatileDirectory))

    def directory(self, name: str, disk: DiskState | None = None) -> VolatileDirectory:
        found = self._entries.get(name)
        if not isinstance(found, VolatileDirectory):
            found = VolatileDirectory(self.power)
            self._put(name, found)
        return found

    def open(self, name: str) -> VolatileFile:
        found = self._entries.get(name)
        if not isinstance(found, VolatileFile):
            found = VolatileFile(self.power)
            self._put(name, found)
        return found

    def read(self, name: str) -> bytes | None:
        found = self._entries.get(name)
        return bytes(found.read(0, found.size)) if isinstance(found, VolatileFile) else None

    def write(self, name: str, data: bytes) -> None:
        temporary = name + TEMPORARY
        self.remove(temporary)
        file = self.open(temporary)
        file.append(data)
        file.sync()
        self.rename(temporary, name)
        self.sync()

    def rename(self, name: str, to: str) -> None:
        def change(entries: Entries) -> None:
            entries[to] = entries.pop(name)

        self._change(change)

    def remove(self, name: str, *, delay_ms: int = 0) -> None:
        if name in self._entries:
            self._change(lambda entries: entries.pop(name))

    def rename_directory(self, name: str, to: str) -> None:
        self.rename(name, to)

    def remove_directory(self, name: str) -> None:
        self.remove(name)

    def sync(self) -> None:
        self.power.step()
        self._synced = dict(self._entries)
        self._changes.clear()

    def lose_unsynced(self) -> None:
        self.lose_power(random.Random(self.power.steps))

    def close(self) -> None:
        """Does nothing: the files stay as long as the object."""

    def lose_power(self, rng: random.Random) -> None:
        """What a process finds when the power is back."""
        entries = dict(self._synced)
        for change in self._changes[: rng.randrange(len(self._changes) + 1)]:
            change(entries)
        self._entries = {name: entry.survivor(rng) if isinstance(entry, VolatileFile) else entry for name, entry in entries.items()}
        self._synced, self._changes = dict(self._entries), []
        for directory in self._subdirectories():
            directory.lose_power(rng)

    def _put(self, name: str, entry: VolatileFile | VolatileDirectory) -> None:
        self._change(lambda entries: entries.__setitem__(name, entry))

    def _change(self, change: Callable[[Entries], object]) -> None:
        self.power.step()
        change(self._entries)
        self._changes.append(change)

    def _subdirectories(self) -> Iterator[VolatileDirectory]:
        return (entry for entry in self._entries.values() if isinstance(entry, VolatileDirectory))
