"""The producer snapshots of a log, by the offset before which they were made.

One snapshot is kept for each segment, in a file like Kafka's. A few newer ones are kept in memory, so that a truncation near the end reads
few batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fencepost.broker_stub.log.segment import DIGITS, file_name
from fencepost.broker_stub.storage.directory import Directory

SNAPSHOT: Final = ".snapshot"
INTERVAL_BYTES: Final = 1 << 20
"""A snapshot between those of segments is made after so much of the log, or later if snapshots are large."""
SHARE: Final = 100
NEWEST: Final = 8
"""How many of those are kept."""


class Snapshots:
    """See the module. It begins with the files of the directory."""

    __slots__ = ("_between", "_directory", "_due_at", "_files")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        offsets = (name.removesuffix(SNAPSHOT) for name in directory.names() if name.endswith(SNAPSHOT))
        self._files = dict.fromkeys(sorted(int(offset) for offset in offsets if len(offset) == DIGITS and offset.isdecimal()))
        self._between: dict[int, bytes] = {}  # both in the order of their offsets
        self._due_at = INTERVAL_BYTES

    def is_due(self, log_bytes: int) -> bool:
        """Whether the log has grown enough since the newest one."""
        return log_bytes >= self._due_at

    def add(self, offset: int, snapshot: bytes, *, log_bytes: int, in_file: bool) -> None:
        """Keeps a snapshot of the log before that offset. `in_file`: a segment begins there, or the log is closed. A file that is there
        already stays: what is only in memory does not survive a loss of power."""
        self._due_at = log_bytes + max(INTERVAL_BYTES, SHARE * len(snapshot))
        if offset in self._files and not in_file:
            self.forget_from(offset + 1)
            return
        self.forget_from(offset)
        if in_file:
            self._directory.write(file_name(offset, SNAPSHOT), snapshot)
            self._files[offset] = None
            return
        self._between[offset] = snapshot
        if len(self._between) > NEWEST:
            del self._between[next(iter(self._between))]

    def add_once(self, offset: int, snapshot: Callable[[], bytes], *, log_bytes: int) -> None:
        """The same in a file, unless there is one for that offset."""
        if offset not in self._files:
            self.add(offset, snapshot(), log_bytes=log_bytes, in_file=True)

    def until(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Those at or before the offset with their offsets, the newest first."""
        for each in sorted((each for each in (*self._files, *self._between) if each <= offset), reverse=True):
            found = self._between.get(each) or self._directory.read(file_name(each, SNAPSHOT))
            if found is not None:
                yield each, found

    def forget(self, offset: int) -> None:
        """Forgets the one for that offset."""
        self._forget([offset])

    def forget_from(self, offset: int) -> None:
        """Forgets those at or past the offset."""
        self._forget([each for each in (*self._files, *self._between) if each >= offset])

    def forget_before(self, offset: int) -> None:
        """Forgets those before the offset, where the log begins now."""
        self._forget([each for each in (*self._files, *self._between) if each < offset])

    def _forget(self, offsets: list[int]) -> None:
        for offset in offsets:
            if self._between.pop(offset, None) is None:
                del self._files[offset]
                self._directory.remove(file_name(offset, SNAPSHOT))
