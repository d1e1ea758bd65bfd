"""One connection to one broker: writing requests, reading responses in order, TLS, and reauthentication.

`connector` makes connections. A connection retries nothing. If it is lost, the core decides what that means for its requests.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

from msgspec import Struct

from fencepost.producer.errors import plain
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.protocol_probe import OPENING_BYTES
from fencepost.producer.network.response_limits import answer_bytes_max
from fencepost.producer.network.sasl import Ask
from fencepost.producer.network.socket_writer import SocketWriter
from fencepost.producer.wire import FRAME_BYTES_MAX, Api, FrameSplitter, Message, WireError, api_name, decode_response, encode_request
from fencepost.producer.wire.tls import TlsPipe

CORRELATION_ID_FIRST = int.from_bytes(b"\r\n\r\n", "big")
"""Any number would do. This one is the empty line for which an HTTP server waits, so an HTTP server replies at once with an error, and
the connection does not wait for a timeout."""

STRANGERS_BYTES_MAX = 1024 * 1024
"""The largest response of a peer before ApiVersions and authentication are over. Real ones are a thousand times smaller."""

READ_BYTES = 256 * 1024
"""The most that is read at once, into a buffer that is kept. asyncio's own buffers are allocated and freed for each read, which costs
more than the read."""

RENEW_SHARE_MIN, RENEW_SHARE_SPAN = 0.85, 0.1
"""A session is renewed after 85 to 95 % of its lifetime, at a random moment for each connection (KIP-368)."""


class Pending(Struct):
    """A request that was written and not answered. `bytes_max`: the largest response. `answer`: the future of a request that the connection
    itself sent."""

    correlation_id: int
    token: int
    api: int
    version: int
    bytes_max: int
    answer: asyncio.Future[Message] | None = None


class Held(Struct, frozen=True):
    """A request that waits until reauthentication is over."""

    token: int
    version: int
    message: Message
    answered: bool


OnReply = Callable[[int, Message], None]
OnWritten = Callable[[int], None]
OnLost = Callable[[str], None]
Perform = Callable[[Ask], Awaitable[float | None]]
"""Authenticates, and returns the session's lifetime in seconds, None for no limit."""

Explain = Callable[[Exception, bytes], ConnectError | None]
"""Explains why a response cannot be read, from the first bytes of the peer (decrypted, unless TLS itself failed). None if another attempt
may succeed."""


class Connection(asyncio.BufferedProtocol):
    """See the module.

    `on_reply(token, message)`, `on_written(token)` (the socket has a request that gets no response) and `on_lost(reason)` are called on
    the loop's thread, `on_lost` exactly once. `refused` then says why retrying cannot help; None if it may help. `tls`: the TLS session.
    `on_unserved` is called when the peer closes the connection and has answered no request of `send`.
    """

    def __init__(
        self, client_id: str, *, on_reply: OnReply, on_lost: OnLost, tls: TlsPipe | None = None, explain: Explain | None = None
    ) -> None:
        self.refused: ConnectError | None = None
        self.opening = b""  # the first bytes as received
        self._heard = b""  # the first bytes, decrypted
        self.on_unserved: Callable[[], None] = lambda: None
        self._served = False
        self._client_id = client_id
        self._on_reply = on_reply
        self._on_written: OnWritten = lambda token: None
        self._on_lost = on_lost
        self._tls = tls
        self._explain: Explain = explain or (lambda error, opening: None)
        self._secured: asyncio.Future[None] | None = None
        self._unwritten: list[int] = []
        self._splitter = FrameSplitter(limit=STRANGERS_BYTES_MAX)
        self._read = memoryview(bytearray(READ_BYTES))
        self._pending: deque[Pending] = deque()
        self._correlation_id = CORRELATION_ID_FIRST - 1
        self._transport: asyncio.Transport | None = None
        self._socket_writer: SocketWriter | None = None
        self._lost = False
        self._perform: Perform | None = None
        self._patience_s = 0.0
        self._renew_at = float("inf")
        self._renewal: asyncio.Task[None] | None = None
        self._held: list[Held] | None = None

    # -- asyncio's side ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No assert: uvloop's transport does not inherit from asyncio.Transport.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._socket_writer = SocketWriter(transport)
        transport.set_write_buffer_limits(high=0)
        if self._tls is not None:
            self._tls.begin()
            self._socket_writer.write([self._tls.pending()])

    def resume_writing(self) -> None:
        """The socket took all bytes of asyncio's buffer. asyncio calls this because the buffer's limit is 0."""
        assert self._socket_writer is not None
        self._socket_writer.go_on()
        if not self._socket_writer.empty:
            return
        written, self._unwritten = self._unwritten, []
        for token in written:
            self._on_written(token)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        if self._lost:
            return
        try:
            data = self._read[:nbytes]
            if len(self.opening) < OPENING_BYTES:
                self.opening += data[: OPENING_BYTES - len(self.opening)]
            said = data if self._tls is None else self._decrypt(data, self._tls)
            if len(self._heard) < OPENING_BYTES:
                self._heard += said[: OPENING_BYTES - len(self._heard)]
            for frame in self._splitter.feed(said):
                self._take(frame)
            if self._tls is not None and self._tls.ended:
                self._hung_up(None)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):  # the peer closed the connection during the handshake
            self._hung_up(None)
        except (WireError, ssl.SSLError) as error:
            refusal = self._explain(error, self.opening if isinstance(error, ssl.SSLError) else self._heard)
            if refusal is not None:
                self._refuse(refusal)
            else:
                self.abort(f"the response could not be read: {error}")
        except BaseException as error:
            # A signal handler may raise anywhere. Then the read bytes are lost, and the start of the next response is unknown.
            self.abort(f"reading was interrupted: {error!r}")
            raise

    def connection_lost(self, error: Exception | None) -> None:
        # Nothing is left to abort. If asyncio's transport closed with bytes still to write, `abort` would call connection_lost again, on a
        # transport without a protocol, and asyncio would log an AttributeError.
        self._transport = None
        self._hung_up(error)

    # -- the connector's side -------------------------------------------------------------------------------------------

    async def secured(self) -> None:
        """Wait until the TLS handshake is over. Raises ConnectError, or ConnectionError."""
        if self._tls is not None and not self._tls.established:
            self._secured = asyncio.get_running_loop().create_future()
            if self._lost:
                raise self.refused or ConnectionError("the connection was lost")
            await self._secured

    async def ask(self, message: Message, version: int) -> Message:
        """Send a request of the connection's own and wait for the response. Raises ConnectError, or ConnectionError when the connection is
        lost first."""
        if self._lost:
            raise self.refused or ConnectionError("the connection was lost")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        try:
            self._write(0, message.api, version, message, answer=answer)
        except BaseException:
            answer.cancel()  # Without a caller, asyncio would log its exception.
            raise
        return await answer

    async def log_in(self, perform: Perform, *, patience_s: float) -> None:
        """Authenticate now, and again before each session ends; each time within `patience_s` seconds."""
        self._perform = perform
        self._patience_s = patience_s
        self._expire_after(await perform(self.ask))

    def known(self) -> None:
        """ApiVersions and authentication are over: from now on, responses may be large."""
        self._splitter.limit = FRAME_BYTES_MAX

    # -- the engine's side -------------------------------------------------------------------------------------------

    def send(self, token: int, api: int, version: int, message: Message, *, answered: bool = True) -> None:
        """Write a request. Its response comes as on_reply(token, ...), after those of all earlier requests. A request that gets no response
        ends with on_written(token)."""
        if self._perform is not None and self._held is None and asyncio.get_running_loop().time() >= self._renew_at:
            self._begin_renewal()
        if self._held is not None:
            self._held.append(Held(token, version, message, answered))
        else:
            self._write(token, api, version, message, answered=answered)

    def adopt(self, *, on_reply: OnReply, on_written: OnWritten, on_lost: OnLost) -> None:
        """Set the callbacks of the engine. If the connection is already lost, `on_lost` is called at once."""
        self._on_reply, self._on_written, self._on_lost = on_reply, on_written, on_lost
        if self._lost:
            on_lost("the connection was lost")

    def abort(self, reason: str) -> None:
        """Close the connection now."""
        if self._transport is not None:
            self._transport.abort()
        self._give_up(reason)

    def silence(self) -> None:
        """Close the connection without calling `on_lost`."""
        self._on_lost = lambda reason: None
        self.abort("the connection was closed by this producer")

    # -- authenticating again ----------------------------------------------------------------------------------------

    def _begin_renewal(self) -> None:
        """Reauthenticate (KIP-368). Requests in flight are answered first, and later ones wait until it is over. As in Java's client, the
        first request after the time begins it, so an idle connection does not reauthenticate."""
        self._held = []
        self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        assert self._perform is not None
        try:
            async with asyncio.timeout(self._patience_s):
                self._expire_after(await self._perform(self.ask))
        except ConnectError as refusal:
            self._refuse(refusal)
        except TimeoutError:
            self.abort(f"reauthentication took longer than socket_connection_setup_timeout_ms={plain(self._patience_s * 1000)}")
        except OSError as error:
            self.abort(f"reauthentication failed: {error}")
        else:
            self._write_held()

    def _write_held(self) -> None:
        """Write what has waited for the renewal. A request without a response is done once it is written, and the core may then send the
        next one, which waits behind the others."""
        try:
            self._write_all(self._held or [])
        finally:
            self._held = None

    def _write_all(self, held: list[Held]) -> None:
        """Remove each request and write it. Meanwhile others may come behind them."""
        while held:
            each = held.pop(0)
            self._write(each.token, each.message.api, each.version, each.message, answered=each.answered)

    def _expire_after(self, lifetime_s: float | None) -> None:
        share = RENEW_SHARE_MIN + RENEW_SHARE_SPAN * random.random()
        self._renew_at = float("inf") if lifetime_s is None else asyncio.get_running_loop().time() + share * lifetime_s

    # -- bytes -------------------------------------------------------------------------------------------------------

    def _write(
        self,
        token: int,
        api: int,
        version: int,
        message: Message,
        *,
        answered: bool = True,
        answer: asyncio.Future[Message] | None = None,
    ) -> None:
        assert self._socket_writer is not None
        if self._lost:
            return
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        if answered:
            self._pending.append(Pending(self._correlation_id, token, api, version, answer_bytes_max(message), answer))
        parts = encode_request(message, version, correlation_id=self._correlation_id, client_id=self._client_id)
        if self._tls is not None:
            for part in parts:
                self._tls.send(part)
            parts = [self._tls.pending()]
        self._socket_writer.write(parts)
        if not answered:
            self._unwritten.append(token)
            if self._socket_writer.empty:
                self.resume_writing()

    def _decrypt(self, data: memoryview, tls: TlsPipe) -> bytes:
        """The decrypted bytes. Replies of TLS itself are written to the peer, for example an alert for invalid bytes."""
        assert self._socket_writer is not None
        try:
            return tls.receive(data)
        finally:
            if pending := tls.pending():
                self._socket_writer.write([pending])
            if tls.established and self._secured is not None and not self._secured.done():
                self._secured.set_result(None)

    def _take(self, frame: bytes) -> None:
        if not self._pending:
            raise Unasked("a response without a request")
        pending = self._pending[0]
        if len(frame) > pending.bytes_max:
            raise Oversized(f"a response to {api_name(pending.api)} has {len(frame)} bytes, and at most {pending.bytes_max} are accepted")
        correlation_id, message = decode_response(frame, Api(pending.api), pending.version)
        if correlation_id != pending.correlation_id:
            raise Unasked(f"a response has correlation id {correlation_id} instead of {pending.correlation_id}")
        self._pending.popleft()
        if pending.answer is None:
            self._served = True
            self._on_reply(pending.token, message)
        elif not pending.answer.done():
            pending.answer.set_result(message)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _refuse(self, refusal: ConnectError) -> None:
        self.refused = refusal
        self.abort(str(refusal))

    def _hung_up(self, error: Exception | None) -> None:
        """The peer or the network ended the connection."""
        if not self._lost and not self._served:
            self.on_unserved()
        self.abort(f"the connection was lost: {error}" if error is not None else "the broker closed the connection")

    def _give_up(self, reason: str) -> None:
        if self._lost:
            return
        self._lost = True
        if self._renewal is not None and self._renewal is not asyncio.current_task():
            self._renewal.cancel()
        error = self.refused or ConnectionError(reason)
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(error)
        for pending in self._pending:
            if pending.answer is not None and not pending.answer.done():
                pending.answer.set_exception(error)
        self._on_lost(reason)


class Unasked(WireError):
    """A response that matches no request."""


class Oversized(WireError):
    """A response that is larger than its request can need."""
