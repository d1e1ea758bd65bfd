"""`Control`: a small HTTP server beside a stub or a proxy, through which other processes give it faults and look at it.

    with BrokerStub() as stub, Control(stub) as control:
        subprocess.run(["fencepost", "fault", "list", "--control", control.url])

It listens on localhost unless told otherwise, asks nobody who he is, and has its own thread: while it answers, brokers go on.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Final, Self

from broker_stub.control_http import HEAD_BYTES_MAX, HttpServer
from broker_stub.control_routes import Routes
from broker_stub.proxy import FaultProxy
from broker_stub.spelling import PORT_MAX
from broker_stub.stub import BrokerStub

LOCALHOST: Final = "127.0.0.1"
LOCAL: Final = (LOCALHOST, "localhost", "::1")
START_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 10.0


class Control:
    """Serves while it is started; `port` 0 takes a free one. Starting raises OSError when the port is taken."""

    def __init__(self, target: BrokerStub | FaultProxy, *, host: str = LOCALHOST, port: int = 0) -> None:
        self._http = HttpServer(Routes(target).answer, local=host in LOCAL)
        self._host = host
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="stub-control", daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def start(self) -> Self:
        """Listens as soon as it returns."""
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends every connection and the thread; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_TIMEOUT_S)
            if self._thread.is_alive():
                raise TimeoutError(f"the control's thread did not end within {CLOSE_TIMEOUT_S:g} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._http.serve, self._host, self._port, limit=HEAD_BYTES_MAX)
        self._port = self._server.sockets[0].getsockname()[1]

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._down())
        finally:
            self._loop.close()

    async def _down(self) -> None:
        if self._server is not None:
            self._server.close()
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._loop.shutdown_default_executor()


def address(text: str) -> tuple[str, int]:
    """PORT, which is on localhost, or HOST:PORT; ValueError for anything else."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:9]) <= PORT_MAX):
        raise ValueError(f"--control {text}: a port from 0 to {PORT_MAX}, on localhost, or HOST:PORT")
    return host.strip("[]") or LOCALHOST, int(port)
