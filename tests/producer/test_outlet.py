"""What is written in pieces arrives as one stream, whatever the socket takes at a time."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import pytest

from producer.outlet import Outlet


class Told(asyncio.Protocol):
    """The writing end. `resumed`: how often asyncio said that its buffer is empty."""

    def __init__(self) -> None:
        self.outlet: Outlet | None = None
        self.resumed = 0
        self.error: Exception | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(high=0)
        self.outlet = Outlet(transport)

    def resume_writing(self) -> None:
        assert self.outlet is not None
        self.resumed += 1
        self.outlet.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.lost.set()


def waits(outlet: Outlet) -> bool:
    return not outlet.empty


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
            outlet = told.outlet
            assert outlet is not None
            if not gathering:
                outlet._fd = -1
            draw = random.Random(5)
            frames = [[draw.randbytes(draw.choice([0, 1, 61, 5_000, 300_000])) for _ in range(draw.randrange(1, 9))] for _ in range(20)]
            frames.append([b"%d" % n for n in range(3_000)])
            expected = b"".join(piece for frame in frames for piece in frame)
            for frame in frames:
                outlet.write([memoryview(piece) if draw.random() < 0.5 else piece for piece in frame])
            assert waits(outlet)
            assert await read(theirs, len(expected)) == expected
            while waits(outlet):
                await asyncio.sleep(0)
            assert told.resumed
            outlet.write([b"small"])
            assert not waits(outlet)
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
        assert told.outlet is not None
        theirs.close()
        for _ in range(3):
            told.outlet.write([b"x" * 100_000] * 9)
        await told.lost.wait()
        told.outlet.write([b"late"])

    asyncio.run(asyncio.wait_for(story(), 60))
