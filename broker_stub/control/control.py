"""`Control`: a small HTTP server beside a stub or a proxy, for fault rules and state from other processes.

    with BrokerStub() as stub, Control(stub) as control:
        subprocess.run(["fencepost", "fault", "list", "--control", control.url])

It listens on localhost by default and has its own thread, so brokers continue while it answers. On localhost it needs no token. Where other
computers can reach it, it requires one, which its URL contains. It has no TLS, so the network between must be trusted.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from types import TracebackType
from typing import Final, Self

from fencepost.broker_stub.arguments import check_arguments
from fencepost.broker_stub.control.http import HEAD_BYTES_MAX, HttpServer
from fencepost.broker_stub.control.routes import Routes
from fencepost.broker_stub.network.addresses import PORT_MAX, spelled
from fencepost.broker_stub.network.limits import CLOSE_TIMEOUT_S
from fencepost.broker_stub.network.listeners import bound, is_local, reachable
from fencepost.broker_stub.network.loop_thread import LoopEnded, LoopThread, StartsOnce
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.broker_stub.stub import BrokerStub

LOCALHOST: Final = "127.0.0.1"
TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{16,}")
TOKEN_BYTES: Final = 24
START_TIMEOUT_S: Final = 10.0


class Control:
    """Serves while it is started. `port` 0 takes a free one. Starting raises OSError when the port is in use.

    `token` is required in every request. By default there is none if only this computer reaches the host, and a random one otherwise.
    """

    def __init__(self, target: BrokerStub | FaultProxy, *, host: str = LOCALHOST, port: int = 0, token: str | None = None) -> None:
        check_arguments(host=host, port=port)
        if not isinstance(target, BrokerStub | FaultProxy):
            raise TypeError(f"target={target!r}: must be a BrokerStub or a FaultProxy")
        if token is None and not is_local(host):
            token = secrets.token_urlsafe(TOKEN_BYTES)
        given: object = token
        if given is not None and not (isinstance(given, str) and TOKEN.fullmatch(given)):
            raise ValueError(
                "the control's token needs 16 or more letters, digits and -._~, so that it is hard to guess and fits into a URL"
            )
        self.token = token
        self._target = target
        self._host = host
        self._port = port
        self._once = StartsOnce("control")
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        listens = self._server is not None and not self._once.closed
        url = f"http://{spelled(reachable(self._host), self._port)}" if listens else None  # without the token
        return f"Control({self._target!r}, url={url!r})"

    @property
    def url(self) -> str:
        """Its URL, with the token, as `curl` takes it. RuntimeError before the start, when the port is unknown, and after `close`."""
        self._once.check_open()
        if self._server is None:
            raise RuntimeError(
                "the control has not started, so its port is not known: use `with Control(stub) as control:`, or call start()"
            )
        shown = f"control:{self.token}@" if self.token is not None else ""
        return f"http://{shown}{spelled(reachable(self._host), self._port)}"

    def start(self) -> Self:
        """Starts. It listens when this returns."""
        with self._once.starting():
            self._once.thread = thread = LoopThread("stub-control", asyncio.new_event_loop(), self._down)
            thread.start()
        try:
            thread.complete(self._listen(), START_TIMEOUT_S)
        except LoopEnded:
            raise RuntimeError("another thread closed the control while it started") from None
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends every connection and the thread. A second call does nothing."""
        with self._once.ending(CLOSE_TIMEOUT_S):
            pass

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def _listen(self) -> None:
        http = HttpServer(Routes(self._target).answer, names=self._names(), token=self.token)
        listener = bound(self._host, self._port)
        self._port = listener.getsockname()[1]
        try:
            self._server = await asyncio.start_server(http.serve, sock=listener, limit=HEAD_BYTES_MAX)
        except BaseException:
            listener.close()  # Another socket may listen there since.
            raise

    def _names(self) -> set[str]:
        """Its host names besides localhost and its addresses: on other interfaces also this computer's and the brokers' names."""
        if is_local(self._host):
            return set()
        return {self._host, socket.gethostname(), *(host for host, _ in self._target.addresses.values())}

    async def _down(self) -> None:
        self._stop_listening()
        await asyncio.sleep(0)  # otherwise a connection's task that has not begun would end without closing its connection
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._stop_listening()  # A start that was under way may have ended since.
        await asyncio.get_running_loop().shutdown_default_executor()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()


def address(text: str) -> tuple[str, int]:
    """The host and port of PORT, which is on localhost, or of HOST:PORT. ValueError for anything else."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:9]) <= PORT_MAX):
        raise ValueError(f"--control {text}: give a port from 0 to {PORT_MAX}, which is on localhost, or HOST:PORT")
    return host.strip("[]") or LOCALHOST, int(port)
