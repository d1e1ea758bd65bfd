"""A server on a socket that sends the bytes that a test chooses, for responses that no broker sends."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from fencepost.producer.wire import Message, RequestHeader, decode_request_header, encode_response

SEND_TIMEOUT_S = 20.0

Answer = Callable[[RequestHeader], bytes | None]
"""What to write for a request: bytes, or None to close the connection."""


class FakeBroker:
    """Serves one connection after the other until it is closed. `seen`: the headers of all requests."""

    def __init__(self, answer: Answer, *, host: str = "127.0.0.1") -> None:
        self.seen: list[RequestHeader] = []
        self.connections = 0
        self._answer = answer
        self._listener = socket.create_server((host, 0))
        self._listener.settimeout(0.05)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.connections += 1
            with connection:
                connection.settimeout(0.05)
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        received = b""
        while not self._ending.is_set():
            try:
                more = connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                return
            if not more:
                return
            received += more
            while len(received) >= 4 and len(received) >= 4 + (size := struct.unpack(">i", received[:4])[0]):
                frame, received = received[4 : 4 + size], received[4 + size :]
                header, _ = decode_request_header(frame)
                self.seen.append(header)
                reply = self._answer(header)
                if reply is None:
                    return
                connection.settimeout(SEND_TIMEOUT_S)
                try:
                    connection.sendall(reply)
                except OSError:
                    return
                connection.settimeout(0.05)


def framed(message: Message, version: int, header: RequestHeader) -> bytes:
    """A response with its length prefix."""
    return b"".join(bytes(part) for part in encode_response(message, version, correlation_id=header.correlation_id))
