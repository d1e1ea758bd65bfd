"""TLS between a client and the proxy: a transport that encrypts, and the protocol that decrypts for the protocol behind it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import cast

from fencepost.broker_stub.network.limits import HANDSHAKE_TIMEOUT_S
from fencepost.producer.wire import Buffer
from fencepost.producer.wire.tls import TlsPipe

_log = logging.getLogger(__name__)


class TlsTransport(asyncio.Transport):
    """Encrypts what the protocol behind it writes."""

    def __init__(self, transport: asyncio.Transport, pipe: TlsPipe) -> None:
        super().__init__()
        self._transport = transport
        self._pipe = pipe

    def write(self, data: Buffer) -> None:
        if not self._transport.is_closing():
            self._pipe.send(data)
            self._transport.write(self._pipe.pending())

    def close(self) -> None:
        """Close after what is written, with TLS's own farewell."""
        if not self._transport.is_closing():
            self._pipe.end()
            self._transport.write(self._pipe.pending())
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


class TlsSide(asyncio.Protocol):
    """A client's socket with TLS. `behind`: made when the handshake is over, which must be soon. `opened` and `closed` count the socket."""

    def __init__(
        self,
        context: ssl.SSLContext,
        behind: Callable[[], asyncio.Protocol],
        opened: Callable[[asyncio.BaseTransport], asyncio.Transport],
        closed: Callable[[asyncio.BaseTransport], None],
    ) -> None:
        self._pipe = TlsPipe(context, server_side=True)
        self._make_behind = behind
        self._opened, self._closed = opened, closed
        self._behind: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._sealed: TlsTransport | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No assert, because uvloop's transport is no asyncio.Transport by class.
        self._transport = cast(asyncio.Transport, transport)
        self._sealed = TlsTransport(self._transport, self._pipe)
        self._opened(transport)
        self._patience = asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        transport, sealed = self._transport, self._sealed
        assert transport is not None
        assert sealed is not None
        try:
            plain = self._pipe.receive(data)
        except ssl.SSLError as error:
            _log.info("a client's connection is closed: %s", error)
            transport.write(self._pipe.pending())
            transport.close()
            return
        transport.write(self._pipe.pending())
        if self._pipe.established and self._behind is None:
            self._begin(sealed)
        if plain and self._behind is not None:
            self._behind.data_received(plain)
        if self._pipe.ended:
            sealed.close()

    def _begin(self, sealed: TlsTransport) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._behind = self._make_behind()
        self._behind.connection_made(sealed)

    def connection_lost(self, error: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._transport is not None:
            self._closed(self._transport)
        behind, self._behind = self._behind, None
        self._sealed = None
        if behind is not None:
            behind.connection_lost(error)

    def pause_writing(self) -> None:
        if self._behind is not None:
            self._behind.pause_writing()

    def resume_writing(self) -> None:
        if self._behind is not None:
            self._behind.resume_writing()
