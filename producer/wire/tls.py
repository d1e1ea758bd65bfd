"""TLS as bytes in and bytes out: one session over memory, for either end of a connection.

It does no I/O, and only uses the certificates of the given context. Errors of `ssl` go to the caller; `pending` then has the alert for
the peer.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from fencepost.producer.wire.schema.fields import Buffer

READ_BYTES: Final = 256 * 1024


class TlsPipe:
    """One TLS session. After every call, `pending()` has the bytes for the peer, or none."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool = False, server_hostname: str | None = None) -> None:
        self.established = False
        self.ended = False  # the peer has sent close_notify
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname)

    def begin(self) -> None:
        """Begin the handshake. A client then has bytes to send."""
        self._shake_hands()

    def receive(self, data: Buffer) -> bytes:
        """Take bytes from the peer, and return them decrypted; empty during the handshake. Raises ssl.SSLError."""
        self._incoming.write(data)
        if not self.established and not self._shake_hands():
            return b""
        chunks: list[bytes] = []
        with suppress(ssl.SSLWantReadError):
            while chunk := self._session.read(READ_BYTES):
                chunks.append(chunk)
            self.ended = True
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def send(self, data: Buffer) -> None:
        """Encrypt; only once the handshake is over."""
        view = memoryview(data).cast("B")
        while view:
            view = view[self._session.write(view) :]

    def end(self) -> None:
        """Send close_notify: no more bytes follow."""
        if self.established:
            with suppress(ssl.SSLError):  # the peer has not sent close_notify yet, or the session is broken already
                self._session.unwrap()

    def pending(self) -> bytes:
        """The bytes to write to the peer now."""
        return self._outgoing.read()

    def peer_certificate(self) -> Mapping[str, object]:
        """The peer's certificate as `ssl` returns it; empty if there is none, or if it was not verified."""
        return self._session.getpeercert() or {}

    def _shake_hands(self) -> bool:
        with suppress(ssl.SSLWantReadError):
            self._session.do_handshake()
            self.established = True
        return self.established
