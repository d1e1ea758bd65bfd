"""Sockets that are listened on."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

from fencepost.broker_stub.network.listeners import bound

DEADLINE_S = 20.0


def test_an_answer_does_not_wait_for_the_one_before() -> None:
    """Nagle's algorithm is off on every accepted connection, as Kafka has it: a client that puts off acknowledging small answers would
    otherwise get the second one 40 ms late."""

    async def accepted() -> int:
        found: asyncio.Queue[int] = asyncio.Queue()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                found.put_nowait(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        loop = asyncio.get_running_loop()
        async with await loop.create_server(Accepting, sock=bound("127.0.0.1", 0)) as server:
            with closing(socket.create_connection(server.sockets[0].getsockname()[:2], DEADLINE_S)):
                return await asyncio.wait_for(found.get(), DEADLINE_S)

    assert asyncio.run(accepted())
