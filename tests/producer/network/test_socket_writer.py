"""Bytes that are written in pieces arrive as one stream, for every number of bytes that the socket accepts at a time."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import pytest

from fencepost.producer.network.socket_writer import SocketWriter


class Told(asyncio.Protocol):
    """The writing end. `resumed`: how often asyncio said that its buffer is empty."""

    def __init__(self) -> None:
        self.socket_writer: SocketWriter | None = None
        self.resumed = 0
        self.error: Exception | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(high=0)
        self.socket_writer = SocketWriter(transport)

    def resume_writing(self) -> None:
        assert self.socket_writer is not None
        self.resumed += 1
        self.socket_writer.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.lost.set()


def waits(socket_writer: SocketWriter) -> bool:
    return not socket_writer.empty


async def read(theirs: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = await asyncio.get_running_loop().sock_recv(theirs, 100_000)
        assert part
        found += part
    return bytes(found)


@pytest.mark.parametrize("gathering", [True, False])
def test_pieces_arrive_in_order(gathering: bool) -> None:
    """Small and large pieces, empty ones and many at once, through a socket that takes little: one stream, and in the end nothing waits.
    So it is where only asyncio may write."""

    async def story() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.setblocking(False)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
            told = Told()
            transport, _ = await asyncio.get_running_loop().create_connection(lambda: told, sock=ours)
            socket_writer = told.socket_writer
            assert socket_writer is not None
            if not gathering:
                socket_writer._fd = -1
            draw = random.Random(5)
            frames = [[draw.randbytes(draw.choice([0, 1, 61, 5_000, 300_000])) for _ in range(draw.randrange(1, 9))] for _ in range(20)]
            frames.append([b"%d" % n for n in range(3_000)])
            expected = b"".join(piece for frame in frames for piece in frame)
            for frame in frames:
                socket_writer.write([memoryview(piece) if draw.random() < 0.5 else piece for piece in frame])
            assert waits(socket_writer)
            assert await read(theirs, len(expected)) == expected
            while waits(socket_writer):
                await asyncio.sleep(0)
            assert told.resumed
            socket_writer.write([b"small"])
            assert not waits(socket_writer)
            assert await read(theirs, 5) == b"small"
            transport.close()
            await told.lost.wait()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_peer_that_has_gone() -> None:
    """The transport hears of a broken socket and says so; what is written afterwards goes nowhere and raises nothing."""

    async def story() -> None:
        ours, theirs = socket.socketpair()
        told = Told()
        await asyncio.get_running_loop().create_connection(lambda: told, sock=ours)
        assert told.socket_writer is not None
        theirs.close()
        for _ in range(3):
            told.socket_writer.write([b"x" * 100_000] * 9)
        await told.lost.wait()
        told.socket_writer.write([b"late"])

    asyncio.run(asyncio.wait_for(story(), 60))
