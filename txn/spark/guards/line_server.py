"""A server for lines of JSON over TCP, for tasks' questions to their driver. `talk` decides the answers.

The first line of a connection must contain the secret. Until then the connection costs no thread: one thread holds all of them,
UNAUTHENTICATED_MAX at most and each for HELLO_S at most, so scanners cannot keep tasks from being served. After that each connection has a
thread of its own, which ends when `talk` returns. A connection that sends unreadable lines gets no answer.
"""

from __future__ import annotations

import hmac
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from fencepost.producer.foundations.condition import Condition
from fencepost.producer.wire.errors import NO_JSON

log = logging.getLogger("fencepost.spark")

LINE_BYTES: Final = 1 << 20
CLOSE_S: Final = 20.0
HELLO_S: Final = 5.0
HELLO_BYTES: Final = 4096
UNAUTHENTICATED_MAX: Final = 128
"""With more connections the one that has been silent for longest is closed."""
RECEIVED_BYTES: Final = 1 << 16
BACKLOG: Final = 128
ACCEPT_RETRY_S: Final = 0.05

Talk = Callable[[Iterator[bytes], Callable[[Any], None]], None]
"""Gets the lines as they come, the first one with the secret, and the function to answer with."""


class Hello(msgspec.Struct, frozen=True):
    """The fields of every first line."""

    secret: str


class Unauthenticated(msgspec.Struct):
    """A connection that has not sent the secret yet, and its deadline for that."""

    sock: socket.socket
    until: float
    said: bytearray


class LineServer:
    """Serves on a port of its own at the address `bind`. `refusal`: the answer to a wrong secret. `silence_s`: how long a connection may be
    silent after the right one. `close` it."""

    def __init__(self, bind: str, talk: Talk, *, secret: str, refusal: Any, name: str, silence_s: float | None) -> None:
        self._talk = talk
        self._secret = secret.encode()
        self._refusal = _line(refusal)
        self._name = name
        self._silence_s = silence_s
        self._unauthenticated: dict[socket.socket, Unauthenticated] = {}
        self._listener = socket.create_server((bind, 0), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ)
        self._over = Condition()  # no Event: where Ctrl-C strikes in `set`, its lock stays taken
        self.port: Final = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections. Those that were accepted are served until they end."""
        self._over.notify_all()
        with suppress(OSError):
            self._wake_sender.send(b"!")
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            while self._over.notified is None:
                self._poll()
        finally:
            for sock in (*self._unauthenticated, self._listener, self._wake_receiver, self._wake_sender):
                sock.close()
            self._selector.close()

    def _poll(self) -> None:
        first = min((each.until for each in self._unauthenticated.values()), default=None)
        ready = self._selector.select(None if first is None else max(0.0, first - time.monotonic()))
        for key, _ in ready:
            sock = key.fileobj
            if sock is self._listener:
                self._accept()
            elif isinstance(sock, socket.socket) and sock in self._unauthenticated:
                try:
                    self._read_hello(self._unauthenticated[sock])
                except (*NO_JSON, OSError) as error:
                    log.debug("a connection sent an unreadable line: %s", error)
                    self._drop(sock)
                except Exception:
                    log.exception("%s: a connection is closed", self._name)
                    self._drop(sock)
        now = time.monotonic()
        for connection in [each for each in self._unauthenticated.values() if each.until <= now]:
            self._drop(connection.sock)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # This process may have too many open files; their number falls again.
            log.warning("%s: a connection could not be accepted: %s", self._name, error)
            self._over.wait(None, time.monotonic() + ACCEPT_RETRY_S)
            return
        sock.setblocking(False)
        while len(self._unauthenticated) >= UNAUTHENTICATED_MAX:
            self._drop(next(iter(self._unauthenticated)))
        self._unauthenticated[sock] = Unauthenticated(sock, time.monotonic() + HELLO_S, bytearray())
        self._selector.register(sock, selectors.EVENT_READ)

    def _read_hello(self, connection: Unauthenticated) -> None:
        """Read what one of them sends."""
        try:
            more = connection.sock.recv(HELLO_BYTES)
        except BlockingIOError:
            return
        connection.said += more
        if b"\n" not in connection.said:
            if not more or len(connection.said) > HELLO_BYTES:
                self._drop(connection.sock)
            return
        hello = msgspec.json.decode(connection.said.split(b"\n", 1)[0], type=Hello)
        if not hmac.compare_digest(hello.secret.encode(errors="backslashreplace"), self._secret):
            connection.sock.send(self._refusal)
            self._drop(connection.sock)
            return
        self._forget(connection.sock)
        threading.Thread(target=self._serve, args=(connection.sock, connection.said), name=self._name, daemon=True).start()

    def _drop(self, sock: socket.socket) -> None:
        self._forget(sock)
        sock.close()

    def _forget(self, sock: socket.socket) -> None:
        if self._unauthenticated.pop(sock, None) is not None:
            self._selector.unregister(sock)

    # -- in the thread of a connection -----------------------------------------------------------------------------------------

    def _serve(self, sock: socket.socket, said: bytearray) -> None:
        with sock:
            try:
                sock.settimeout(self._silence_s)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # The kernel notices a peer that is gone without closing.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                self._talk(_lines(sock, said), lambda answer: sock.sendall(_line(answer)))
            except (*NO_JSON, OSError) as error:
                log.debug("a task said nothing that can be read: %s", error)


def _line(answer: Any) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


def _lines(sock: socket.socket, said: bytearray) -> Iterator[bytes]:
    """The lines that were received already, and those that come, up to one that is too long."""
    while len(said) <= LINE_BYTES:
        line, newline, rest = said.partition(b"\n")
        if newline:
            said = rest
            yield bytes(line)
            continue
        more = sock.recv(RECEIVED_BYTES)
        if not more:
            return
        said += more
