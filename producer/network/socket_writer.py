"""The way into a socket for frames that lie in pieces: one gathering write for as much as it takes, without putting them together first.

What the socket does not take at once goes on when asyncio says that there is room. Where the loop is not asyncio's own, or not on sockets,
pieces are joined and asyncio's transport has them. It does not notice errors: it leaves them to the transport, which meets them, too.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from fencepost.producer.wire.schema.fields import Buffer

PIECES_MAX: Final = 512
"""Of one gathering write; systems take 1024 (IOV_MAX)."""

AHEAD_BYTES: Final = 64 * 1024
"""What the transport is given to wait with, and copies."""


class SocketWriter:
    """Made on the loop's thread, like every call. The transport's high-water mark must be 0, and nobody else may write to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting: deque[memoryview] = deque()
        self._fd = -1
        own_loop = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
        connection = transport.get_extra_info("socket")
        if own_loop and connection is not None and hasattr(os, "writev"):
            self._fd = connection.fileno()

    @property
    def empty(self) -> bool:
        """Whether the socket has taken everything."""
        return not self._waiting and not self._transport.get_write_buffer_size()

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Write them in this order, after everything before."""
        if self._fd < 0 or self._transport.is_closing():
            self._transport.write(b"".join(pieces))
            return
        self._waiting.extend(memoryview(piece) for piece in pieces if len(piece))
        self.go_on()

    def go_on(self) -> None:
        """Write what waits, as far as the socket takes it: when there is something new, and when asyncio says that there is room."""
        while self._waiting and not self._transport.get_write_buffer_size():
            if self._transport.is_closing():
                self._waiting.clear()
            elif not self._gather():
                # The transport tells of room, and of whatever is wrong with the socket.
                self._transport.write(self._take(AHEAD_BYTES))

    def _gather(self) -> bool:
        """One write; False where the socket did not take all that it was given."""
        pieces = list(islice(self._waiting, PIECES_MAX))
        try:
            written = os.writev(self._fd, pieces)
        except OSError:
            return False
        for piece in pieces:
            if written < len(piece):
                self._waiting[0] = piece[written:]
                return False
            written -= len(piece)
            self._waiting.popleft()
        return True

    def _take(self, most: int) -> bytes:
        """Some of what waits, copied."""
        first = self._waiting.popleft()
        if len(first) > most:
            self._waiting.appendleft(first[most:])
        return bytes(first[:most])
