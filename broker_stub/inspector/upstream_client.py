"""Asks the brokers behind a proxy, directly and one request at a time, for what the inspector shows. It does not go through the proxy.

Every wait has a deadline. A broker that wants a login does not answer; the snapshot then says so.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from struct import Struct
from typing import Final, TypeVar

from fencepost.producer.wire import Malformed, Message, decode_response, encode_request

Address = tuple[str, int]
T = TypeVar("T")

CLIENT_ID: Final = "fencepost-inspector"
TIMEOUT_S: Final = 3.0
"""For a connection, and for each part of a response."""
WHOLE_S: Final = 10.0
"""For a whole response: a broker that sends one byte now and then does not move this."""
ASK_AGAIN_S: Final = 15.0
SILENT: Final = "it did not answer; it is asked again in a few seconds"
UNREACHABLE: Final = (OSError, Malformed)
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_SIZE: Final = Struct(">i")


class UpstreamClient:
    """One connection to each broker, with TLS if a context is given. Only one thread may use it at a time."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._sockets: dict[Address, socket.socket] = {}
        self._numbers = count(1)

    def ask(self, address: Address, request: Message, version: int) -> Message:
        """The response. OSError if there is none within the deadline."""
        link = self._sockets.get(address)
        if link is None:
            link = self._sockets[address] = self._connect(address)
        try:
            until = time.monotonic() + WHOLE_S
            number = next(self._numbers)
            link.settimeout(TIMEOUT_S)
            link.sendall(b"".join(encode_request(request, version, correlation_id=number, client_id=CLIENT_ID)))
            (size,) = _SIZE.unpack(_read(link, _SIZE.size, until))
            if not 0 < size <= ANSWER_BYTES_MAX:
                raise ConnectionError(f"a response of {size} bytes is none of a Kafka broker")
            found, answer = decode_response(_read(link, size, until), request.api, version)
            if found != number:
                raise ConnectionError(f"the response has number {found}, not {number}")
        except BaseException:
            self._drop(address)
            raise
        return answer

    def _connect(self, address: Address) -> socket.socket:
        plain = socket.create_connection(address, timeout=TIMEOUT_S)
        if self._tls is None:
            return plain
        try:
            return self._tls.wrap_socket(plain, server_hostname=address[0])
        except BaseException:
            plain.close()
            raise

    def close(self) -> None:
        """Closes every connection."""
        for address in [*self._sockets]:
            self._drop(address)

    def _drop(self, address: Address) -> None:
        link = self._sockets.pop(address, None)
        if link is not None:
            with suppress(OSError):
                link.close()


class LiveBrokers:
    """The brokers that answer, by their numbers. One that does not answer is asked again after a while; `problems` has the reasons.
    `silent`: kept between two snapshots."""

    def __init__(self, client: UpstreamClient, addresses: Mapping[int, Address], silent: dict[int, float]) -> None:
        self._client = client
        self._addresses = addresses
        self._silent = silent
        self.problems: dict[int, str] = {node: SILENT for node, until in silent.items() if until > time.monotonic()}

    def one(self, node: int, ask: Callable[[UpstreamClient, Address, int], T]) -> T | None:
        """What that broker answers; None if it does not."""
        address = self._addresses.get(node)
        if address is None or node in self.problems:
            return None
        try:
            return ask(self._client, address, node)
        except UNREACHABLE as error:
            self.problems[node] = str(error)
            self._silent[node] = time.monotonic() + ASK_AGAIN_S
            return None

    def each(self, ask: Callable[[UpstreamClient, Address, int], list[T]]) -> list[T]:
        """What all of them answer."""
        return [each for node in self._addresses for each in self.one(node, ask) or ()]


def _read(link: socket.socket, size: int, until: float) -> bytes:
    """So many bytes, until then."""
    parts = []
    while size:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no whole response within {WHOLE_S:g} s")
        link.settimeout(min(TIMEOUT_S, left_s))
        part = link.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the broker closed the connection: it may want a login, or an older version")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
