"""`Control`: a small HTTP server beside a stub or a proxy, for fault rules and state from other processes.

    with BrokerStub() as stub, Control(stub) as control:
        subprocess.run(["fencepost", "fault", "list", "--control", control.url])

It listens on localhost by default and has its own thread, so brokers continue while it answers. On localhost it needs no token. Where other
computers can reach it, it requires one, which its URL contains. It has no TLS, so the network between must be trusted.
"""

from __future__ import annotations

import re
import secrets
import socket
from typing import Final

from fencepost.broker_stub.arguments import check_arguments
from fencepost.broker_stub.control.routes import Routes
from fencepost.broker_stub.network.addresses import PORT_MAX, spelled
from fencepost.broker_stub.network.http import HttpServer
from fencepost.broker_stub.network.http_thread import HttpThread, Served
from fencepost.broker_stub.network.listeners import is_local, reachable
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.broker_stub.stub import BrokerStub

LOCALHOST: Final = "127.0.0.1"
TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{16,}")
TOKEN_BYTES: Final = 24


class Control(Served):
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
        self._http = HttpThread("control", self._server, host=host, port=port)

    def __repr__(self) -> str:
        listens = self._http.has_started and not self._http.once.closed
        url = f"http://{spelled(reachable(self._http.host), self._http.port)}" if listens else None  # without the token
        return f"Control({self._target!r}, url={url!r})"

    @property
    def url(self) -> str:
        """Its URL, with the token, as `curl` takes it. RuntimeError before the start, when the port is unknown, and after `close`."""
        self._http.once.check_open()
        if not self._http.has_started:
            raise RuntimeError(
                "the control has not started, so its port is not known: use `with Control(stub) as control:`, or call start()"
            )
        shown = f"control:{self.token}@" if self.token is not None else ""
        return f"http://{shown}{spelled(reachable(self._http.host), self._http.port)}"

    def _server(self) -> HttpServer:
        return HttpServer(Routes(self._target).answer, names=self._names(), token=self.token)

    def _names(self) -> set[str]:
        """Its host names besides localhost and its addresses: on other interfaces also this computer's and the brokers' names."""
        if is_local(self._http.host):
            return set()
        return {self._http.host, socket.gethostname(), *(name for name, _ in self._target.addresses.values())}


def address(text: str) -> tuple[str, int]:
    """The host and port of PORT, which is on localhost, or of HOST:PORT. ValueError for anything else."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:9]) <= PORT_MAX):
        raise ValueError(f"--control {text}: give a port from 0 to {PORT_MAX}, which is on localhost, or HOST:PORT")
    return host.strip("[]") or LOCALHOST, int(port)
