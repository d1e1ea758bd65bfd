"""An `HttpServer` with its own thread, so that it answers while brokers work. It listens from `start` to `close`, and starts only once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from fencepost.broker_stub.network.http import HEAD_BYTES_MAX, HttpServer
from fencepost.broker_stub.network.limits import CLOSE_TIMEOUT_S
from fencepost.broker_stub.network.listeners import bound
from fencepost.broker_stub.network.loop_thread import LoopEnded, LoopThread, StartsOnce

START_TIMEOUT_S = 10.0


class Served:
    """The calls of an object whose answers an HttpThread serves."""

    _http: HttpThread

    def start(self) -> Self:
        """Starts. It listens when this returns. OSError for a port in use."""
        self._http.start()
        return self

    def close(self) -> None:
        """Ends every connection and the thread. A second call does nothing."""
        self._http.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class HttpThread:
    """`name` is what errors call it. `make` makes its server at the start. `port` 0 takes a free one; `start` sets it."""

    def __init__(self, name: str, make: Callable[[], HttpServer], *, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.once = StartsOnce(name)
        self._name = name
        self._make = make
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def has_started(self) -> bool:
        """Whether it has a port."""
        return self._server is not None

    def start(self) -> None:
        """Starts. It listens when this returns. OSError for a port in use."""
        with self.once.starting():
            self.once.thread = thread = LoopThread(f"stub-{self._name}", asyncio.new_event_loop(), self._down)
            thread.start()
        try:
            thread.complete(self._listen(), START_TIMEOUT_S)
        except LoopEnded:
            raise RuntimeError(f"another thread closed the {self._name} while it started") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends every connection and the thread. A second call does nothing."""
        with self.once.ending(CLOSE_TIMEOUT_S):
            pass

    async def _listen(self) -> None:
        http = self._make()
        listener = bound(self.host, self.port)
        self.port = listener.getsockname()[1]
        try:
            self._server = await asyncio.start_server(partial(self._serve, http), sock=listener, limit=HEAD_BYTES_MAX)
        except BaseException:
            listener.close()  # Another socket may listen there since.
            raise

    def _serve(self, http: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection in a task. A task that is cancelled before its first step does not close the connection, so this does; and of
        a task of its own, asyncio would log that it was cancelled."""
        task = asyncio.get_running_loop().create_task(http.serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda ended: writer.close())

    async def _down(self) -> None:
        self._stop_listening()
        await asyncio.sleep(0)  # a connection that was just accepted gets its task
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._stop_listening()  # A start that was under way may have ended since.
        await asyncio.get_running_loop().shutdown_default_executor()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
