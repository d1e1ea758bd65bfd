"""The lines of a file or pipe, with their places: the number of each line, and the offset of its first byte.

It reads a block at a time, and holds no more than a block and one unfinished line. A line above the limit ends the reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from fencepost.txn.files.errors import InputBroken
from fencepost.txn.files.patience import Interrupt, NoInterrupt

LINE_BYTES_MAX: Final = 64 * 1024 * 1024


class Lines:
    """Lines without their newlines. `read`: returns the next bytes, none at the end. After an interrupt an unfinished line is dropped.

    `complete`: whether a last line without a newline is a line. `offset`, `number`: the place of the first byte that `read` returns, and
    how many lines are before it. Later they are those after the lines that were taken. `unfinished`: the bytes of a last line that is no
    line. `bytes_read`: the bytes that `read` has returned.
    """

    def __init__(
        self,
        read: Callable[[], bytes],
        interrupt: Interrupt | None = None,
        *,
        complete: bool = True,
        offset: int = 0,
        number: int = 0,
    ) -> None:
        self._read = read
        self._interrupt = interrupt or NoInterrupt()
        self._complete = complete
        self._begin = offset
        self._held = bytearray()  # the beginning of an unfinished line
        self.ready: deque[bytes] = deque()
        self.bytes_read = 0
        self.offset = offset
        self.number = number  # the number of the line that was taken last
        self.over = False
        self.unfinished = 0

    @property
    def cut_short(self) -> bool:
        """Whether an unfinished record at the end is no record: a signal ended the reading, or the file may still be written."""
        return self.over and (bool(self._interrupt.signal) or not self._complete)

    def batch(self) -> list[bytes]:
        """All lines that have arrived, at least one; none at the end."""
        while not self.ready and not self.over:
            self._more()
        lines = list(self.ready)
        self.ready.clear()
        self._count(sum(map(len, lines)) + len(lines), len(lines))
        return lines

    def take(self) -> bytes | None:
        """The next line, None at the end."""
        while not self.ready and not self.over:
            self._more()
        if not self.ready:
            return None
        line = self.ready.popleft()
        self._count(len(line) + 1, 1)
        return line

    def _count(self, size: int, lines: int) -> None:
        self.number += lines
        # A last line may have no newline.
        self.offset = min(self.offset + size, self._begin + self.bytes_read)

    def _more(self) -> None:
        block = self._read()
        self.bytes_read += len(block)
        if not block:
            self.over = True
            if self._held and not self._interrupt.signal:
                if self._complete:
                    self.ready.append(bytes(self._held))
                else:
                    self.unfinished = len(self._held)
            return
        first, newline, rest = block.partition(b"\n")
        self._held += first
        if len(self._held) > LINE_BYTES_MAX:
            raise InputBroken(
                f"line {self.number + len(self.ready) + 1} is longer than {LINE_BYTES_MAX >> 20} MiB: is this a file of lines?"
            )
        if newline:
            lines = [bytes(self._held), *rest.split(b"\n")]
            self._held = bytearray(lines.pop())
            self.ready.extend(lines)
