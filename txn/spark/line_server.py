"""A server for lines of JSON over TCP, in a thread of its own, for what tasks ask of their driver. What is said, `talk` decides.

Each connection has a thread. Who says nothing that can be read is left alone; the connection ends where `talk` returns.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

log = logging.getLogger("fencepost.spark")

LINE_BYTES: Final = 1 << 20
CLOSE_S: Final = 20.0

Talk = Callable[[Iterator[bytes], Callable[[Any], None]], None]
"""Is given the lines as they come, and what to answer with."""


class LineServer:
    """Serves on a port of its own at the address `bind`. `silence_s`: how long a connection may say nothing. `close` it."""

    def __init__(self, bind: str, talk: Talk, *, name: str, silence_s: float | None) -> None:
        self._server = _Server((bind, 0), _Handler)
        self._server.talk = talk
        self._server.silence_s = silence_s
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(CLOSE_S)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    talk: Talk
    silence_s: float | None


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def setup(self) -> None:
        self.request.settimeout(self._mine.silence_s)
        # Who is gone without a word is noticed by the kernel.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        super().setup()

    def handle(self) -> None:
        try:
            self._mine.talk(self._lines(), self._say)
        except (msgspec.DecodeError, OSError) as error:
            log.debug("%s said nothing that can be read: %s", self.client_address, error)

    @property
    def _mine(self) -> _Server:
        server: Any = self.server
        assert isinstance(server, _Server)
        return server

    def _lines(self) -> Iterator[bytes]:
        while (line := self.rfile.readline(LINE_BYTES)).endswith(b"\n"):
            yield line

    def _say(self, answer: Any) -> None:
        self.wfile.write(msgspec.json.encode(answer) + b"\n")
