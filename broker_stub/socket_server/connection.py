"""One accepted socket of a broker: passes bytes between the socket, TLS where the listener has it, and a ClientConnection.

With TLS the ClientConnection is created after the handshake. A handshake that takes too long ends the connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Protocol, cast

from fencepost.broker_stub.network.limits import HANDSHAKE_TIMEOUT_S, JOINED_BYTES_MAX, WRITE_BUFFER_BYTES_MAX
from fencepost.broker_stub.security.principal import ANONYMOUS, LOCALHOST, of_certificate
from fencepost.broker_stub.socket_server.client_connection import UNPROVEN_BYTES_MAX, ClientConnection
from fencepost.producer.wire import FRAME_BYTES_MAX, Buffer, FrameSplitter, FrameTooLarge

if TYPE_CHECKING:
    from fencepost.broker_stub.socket_server.acceptor import Acceptor
    from fencepost.producer.wire.tls import TlsPipe

_log = logging.getLogger(__name__)


class Listening(Protocol):
    """What a connection needs of the server that accepted it."""

    @property
    def acceptor(self) -> Acceptor: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def tls(self) -> ssl.SSLContext | None: ...
    def began(self, connection: Connection) -> None:
        """It is up."""
        ...

    def ended(self, connection: Connection) -> None:
        """It is down."""
        ...

    def arm(self) -> None:
        """Runs what is due, after the cluster has changed."""
        ...


class Connection(asyncio.Protocol):
    """One accepted socket."""

    def __init__(self, server: Listening, node_id: int) -> None:
        self._server = server
        self.node_id = node_id
        self._now_ms = server.acceptor.cluster.now_ms
        self.seen_ms = self._now_ms()
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._client: ClientConnection | None = None
        self._tls: TlsPipe | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No assert, because uvloop's transport is no asyncio.Transport by class.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._server.began(self)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        if self._server.tls is None:
            self._connect(transport, ANONYMOUS)
            return
        from fencepost.producer.wire.tls import TlsPipe

        self._tls = TlsPipe(self._server.tls, server_side=True)
        self._patience = self._server.loop.call_later(HANDSHAKE_TIMEOUT_S, transport.abort)

    def _connect(self, transport: asyncio.Transport, principal: str) -> None:
        try:
            host, port = (transport.get_extra_info("peername") or (LOCALHOST, None))[:2]
            self._client = self._server.acceptor.connect(self.node_id, self, principal=principal, host=host, port=port)
        except ConnectionRefusedError:
            transport.abort()  # the broker stopped while the connection was being accepted

    @property
    def busy(self) -> bool:
        return self._client is not None and self._client.busy

    def data_received(self, data: bytes) -> None:
        self.seen_ms = self._now_ms()
        if self._tls is None:
            self._take(data)
            return
        self._take(self._decrypt(data, self._tls))
        if self._tls.ended and self._transport is not None:
            self.cut(flush=True)  # some clients wait for the answer to their close_notify

    def _decrypt(self, data: bytes, tls: TlsPipe) -> bytes:
        """Decrypts the bytes, and creates the ClientConnection once the handshake is over. Bytes that are not TLS, and the client's alert,
        end the connection, with an alert if TLS has one for that."""
        transport = self._transport
        assert transport is not None
        try:
            return tls.receive(data)
        except ssl.SSLError as error:
            _log.info("broker %d closes a connection: %s", self.node_id, error)
            transport.write(tls.pending())
            transport.close()
            return b""
        finally:
            transport.write(tls.pending())
            if tls.established and self._patience is not None:
                self._patience.cancel()
                self._patience = None
                self._connect(transport, of_certificate(tls.peer_certificate()))

    def _take(self, data: bytes) -> None:
        client = self._client
        if client is None or not client.open:
            return
        view = memoryview(data)
        while view and client.open:
            # An unauthenticated client is read frame by frame, so that each frame is checked against the limit of its time.
            self._splitter.limit = FRAME_BYTES_MAX if client.proven else UNPROVEN_BYTES_MAX
            piece = view if client.proven else view[: self._splitter.missing]
            view = view[len(piece) :]
            too_large = False
            try:
                frames = self._splitter.feed(piece)
            except FrameTooLarge as error:
                frames, too_large = error.frames, True
            for frame in frames:
                client.receive(frame)
            if too_large:
                client.cut()
        self._server.arm()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.ended(self)
        if self._patience is not None:
            self._patience.cancel()
        client, self._client = self._client, None
        # The connection and its ClientConnection refer to each other, so drop everything that was received.
        self._splitter, self._tls = FrameSplitter(), None
        if client is not None:
            client.lost(reset=error is not None)
            self._server.arm()

    def pause_writing(self) -> None:
        if self._client is not None:
            self._client.choke(True)

    def resume_writing(self) -> None:
        if self._client is not None:
            self._client.choke(False)
            self._server.arm()

    # For the ClientConnection

    def write(self, parts: list[Buffer]) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return  # the client has reset it, and `connection_lost` follows
        self.seen_ms = self._now_ms()
        if self._tls is not None:
            for part in parts:
                self._tls.send(part)
            self._transport.write(self._tls.pending())
        elif len(parts) == 1:
            self._transport.write(parts[0])
        elif sum(memoryview(part).nbytes for part in parts) <= JOINED_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            # `writelines` joins before Python 3.12, and ignores flow control in some later releases.
            for part in parts:
                self._transport.write(part)

    def cut(self, *, flush: bool) -> None:
        assert self._transport is not None
        if flush:
            if self._tls is not None:
                self._tls.end()
                self._transport.write(self._tls.pending())
            self._transport.close()
        else:
            self._transport.abort()

    def pause(self, paused: bool) -> None:
        assert self._transport is not None
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
