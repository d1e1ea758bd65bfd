"""The thread of an HTTP server, and a connection that comes while it ends."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import socket
from http import HTTPStatus
from typing import Any

import pytest

from fencepost.broker_stub.network.http import HttpServer, Request
from fencepost.broker_stub.network.http_thread import HttpThread

WAIT_S = 10.0


def answer(request: Request) -> tuple[HTTPStatus, Any]:
    """An answer to everything."""
    return HTTPStatus.OK, {}


@pytest.mark.filterwarnings("error")
def test_a_connection_whose_task_has_not_begun(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client connects just when the server is closed: its connection ends, and asyncio logs no error."""
    thread = HttpThread("control", lambda: HttpServer(answer), host="127.0.0.1", port=0)
    thread.start()
    sleep = asyncio.sleep
    stop = thread._stop_listening

    def is_new(task: asyncio.Task[Any]) -> bool:
        coroutine: Any = task.get_coro()
        return coroutine.__qualname__ == "HttpServer.serve" and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED

    async def until_it_has_a_task(seconds: float) -> None:
        monkeypatch.setattr(asyncio, "sleep", sleep)
        monkeypatch.setattr(thread, "_stop_listening", stop)
        connecting = asyncio.create_task(asyncio.to_thread(connect))
        while not any(map(is_new, asyncio.all_tasks())):
            await sleep(0)
        stop()
        await connecting

    clients: list[socket.socket] = []

    def connect() -> None:
        clients.append(socket.create_connection(("127.0.0.1", thread.port), WAIT_S))

    monkeypatch.setattr(asyncio, "sleep", until_it_has_a_task)
    monkeypatch.setattr(thread, "_stop_listening", lambda: None)
    thread.close()
    (client,) = clients
    assert client.recv(1) == b""
    client.close()
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
