"""Writes frames that consist of several buffers to a socket with one gathering write (`writev`), without joining them first.

The bytes that the socket does not take at once are written when asyncio tells that there is room. If the loop is not asyncio's own, or
not on sockets, the buffers are joined and passed to asyncio's transport. It handles no errors: the transport meets and reports them.
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
"""The most buffers of one gathering write; systems accept 1024 (IOV_MAX)."""

AHEAD_BYTES: Final = 64 * 1024
"""The bytes that the transport copies, and with which it waits for room in the socket."""


class SocketWriter:
    """Make and call it on the loop's thread. The transport's high-water mark must be 0, and no other code may write to the transport."""

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
        """Whether the socket has all bytes."""
        return not self._waiting and not self._transport.get_write_buffer_size()

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Write the buffers in this order, after all earlier ones."""
        if self._fd < 0 or self._transport.is_closing():
            self._transport.write(b"".join(pieces))
            return
        self._waiting.extend(memoryview(piece) for piece in pieces if len(piece))
        self.go_on()

    def go_on(self) -> None:
        """Write waiting bytes as far as the socket takes them. Called for new bytes, and when asyncio tells that there is room."""
        while self._waiting and not self._transport.get_write_buffer_size():
            if self._transport.is_closing():
                self._waiting.clear()
            elif not self._gather():
                # The transport tells when there is room, and reports errors of the socket.
                self._transport.write(self._take(AHEAD_BYTES))

    def _gather(self) -> bool:
        """One write; False if the socket did not take all bytes."""
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
        """Some of the waiting bytes, copied."""
        first = self._waiting.popleft()
        if len(first) > most:
            self._waiting.appendleft(first[most:])
        return bytes(first[:most])
