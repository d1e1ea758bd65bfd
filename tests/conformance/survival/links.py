"""Cuts and restores connections between the brokers of a cluster, one by one, while clients continue.

It is a small TCP proxy in front of the listeners that brokers and controllers use among themselves. A connection has two ends: the broker
of the listener, and the broker that the client id of the first request names. A cut connection is closed, and closed again whenever a
broker opens it again. The proxy reads nothing but client ids.
"""

from __future__ import annotations

import asyncio
import re
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self, TypeVar

HOST: Final = "127.0.0.1"
CALL_S: Final = 10.0
CHUNK_BYTES: Final = 256 * 1024
FRAME_MAX: Final = 64 * 1024 * 1024
NUMBER: Final = re.compile(r"\d+")

T = TypeVar("T")


class End(NamedTuple):
    """From which broker (-1: unknown), to which listener of which broker. `client` is the client id of the first request."""

    there: int
    listener: str
    here: int
    client: str


class Links:
    """The proxy. While it is open, any thread may call any method."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._open: dict[asyncio.Task[None], End] = {}
        self._is_cut: Callable[[End], bool] = lambda end: False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()

    def before(self, node: int, listener: str, port: int) -> int:
        """A port that leads to that broker's listener."""
        return self._call(self._listen(node, listener, port))

    def cut(self, is_cut: Callable[[End], bool]) -> None:
        """Close every connection that matches, and keep it closed until `mend`."""
        self._call(self._cut(is_cut))

    def mend(self) -> None:
        """Let every connection be opened again."""
        self._call(self._cut(lambda end: False))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    async def _listen(self, node: int, listener: str, port: int) -> int:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._carry(reader, writer, node, listener, port)
            writer.transport.abort()

        server = await asyncio.start_server(accepted, HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int, listener: str, port: int) -> None:
        """Carry one connection until either end closes it, or until it is cut."""
        size = await reader.readexactly(4)
        frame = await reader.readexactly(min(FRAME_MAX, int.from_bytes(size)))
        client = _client(frame)
        end = End(_number(client), listener, node, client)
        if self._is_cut(end):
            return
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = end
        there, here = await asyncio.open_connection(HOST, port)
        try:
            here.write(size + frame)
            pours = [asyncio.ensure_future(_pour(reader, here)), asyncio.ensure_future(_pour(there, writer))]
            await asyncio.wait(pours, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._open[task]
            here.transport.abort()

    async def _cut(self, is_cut: Callable[[End], bool]) -> None:
        self._is_cut = is_cut
        for task, end in self._open.items():
            if is_cut(end):
                task.cancel()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._open:
            task.cancel()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()


def _client(frame: bytes) -> str:
    """The client id of a request."""
    (size,) = struct.unpack_from(">h", frame, 8)
    return frame[10 : 10 + max(0, size)].decode(errors="replace")


def _number(client: str) -> int:
    """The number in a client id; -1 if it has none."""
    found = NUMBER.search(client)
    return int(found[0]) if found else -1
