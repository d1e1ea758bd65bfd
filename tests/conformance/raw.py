"""A small blocking Kafka client for the conformance cases: one socket, requests and responses, and a deadline for everything.

It retries nothing, hides nothing and interprets nothing. The caller gets exactly what the broker sent.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

from fencepost.producer import wire

TIMEOUT_S = 30.0
CLIENT_ID = "conformance"

Answer = TypeVar("Answer", bound=wire.Message)


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class Silent(Exception):
    """Neither an answer nor an end of the connection came before the deadline."""


class RawConnection:
    """One connection, which a `with` block closes. `newest`: the newest version of each API, if the broker is older than some requested
    versions.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        client_id: str | None = CLIENT_ID,
        timeout: float = TIMEOUT_S,
        newest: Mapping[int, int] | None = None,
    ) -> None:
        self.client_id = client_id
        self._newest = newest or {}
        self.timeout = timeout
        self._socket = socket.create_connection(address, timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._correlation_id = 0

    def ask(self, request: wire.Message, version: int) -> wire.Message:
        """Send the request and return its response, which must have the request's correlation id."""
        expected = self.send(request, version)
        return self.receive(request, version, correlation_id=expected)

    def send(self, request: wire.Message, version: int) -> int:
        self._correlation_id += 1
        version = self._spoken(request, version)
        parts = wire.encode_request(request, version, correlation_id=self._correlation_id, client_id=self.client_id)
        self.send_bytes(b"".join(parts))
        return self._correlation_id

    def receive(self, request: wire.Message, version: int, *, correlation_id: int | None = None) -> wire.Message:
        answered, answer = wire.decode_response(self.receive_frame(), request.api, self._spoken(request, version))
        assert correlation_id is None or answered == correlation_id, f"asked {correlation_id}, answered {answered}"
        return answer

    def _spoken(self, request: wire.Message, version: int) -> int:
        """The requested version, or the newest one that an older broker has."""
        return min(version, self._newest.get(request.api, version))

    def send_frame(self, body: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(body)) + body)

    def send_bytes(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise Silent from error
        except ConnectionError as error:
            raise Closed from error

    def receive_frame(self) -> bytes:
        """The next response without its length prefix."""
        deadline = time.monotonic() + self.timeout
        (size,) = struct.unpack(">i", self._take(4, deadline))
        return self._take(size, deadline)

    def read_to_end(self) -> bytes:
        """All bytes until the broker closes the connection."""
        deadline = time.monotonic() + self.timeout
        got = bytearray()
        while True:
            try:
                got += self._take(1, deadline)
            except Closed:
                return bytes(got)

    def is_closed(self, within: float | None = None) -> bool:
        """Whether the broker closes the connection within this time without sending anything first."""
        try:
            self._take(1, time.monotonic() + (self.timeout if within is None else within))
        except Closed:
            return True
        except Silent:
            return False
        return False

    def quiet(self, seconds: float) -> bool:
        """Whether neither bytes nor the end of the connection come within this time."""
        if self._received:
            return False
        self._socket.settimeout(seconds)
        try:
            self._received += self._socket.recv(1 << 16)
        except TimeoutError:
            return True
        return False

    def reset(self) -> None:
        """End the connection with a reset, at once."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _take(self, size: int, deadline: float) -> bytes:
        while len(self._received) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Silent
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 20)
            except TimeoutError as error:
                raise Silent from error
            except ConnectionError as error:
                raise Closed from error
            if not data:
                raise Closed
            self._received += data
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken
