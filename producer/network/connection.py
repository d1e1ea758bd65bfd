"""One TCP link to one broker: writing requests, reading answers in order, TLS around them, and authenticating again while it lives.

`connector` makes connections. A connection retries nothing and remembers nothing beyond its own life; the core decides what a lost
connection means for the requests on it.
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
"""Any number would do, and this one ends the line and the headers that an HTTP server waits for: it complains at once instead of saying
nothing until somebody's patience ends."""

STRANGERS_BYTES_MAX = 1024 * 1024
"""Largest answer of a peer that has still to say what it speaks, and to authenticate where that is wanted: a thousandth would do."""

READ_BYTES = 256 * 1024
"""Most that is read at once, into memory that stays. What asyncio would allocate for each read goes back to the system afterwards, which
costs more than the read."""

RENEW_SHARE_MIN, RENEW_SHARE_SPAN = 0.85, 0.1
"""A session is renewed when 85 to 95 % of its life have passed, at another moment on each link (KIP-368)."""


class Pending(Struct):
    """A request that has been written and not answered. `bytes_max`: of its answer. `answer`: who waits for it, if it is not the link's
    user."""

    correlation_id: int
    token: int
    api: int
    version: int
    bytes_max: int
    answer: asyncio.Future[Message] | None = None


class Held(Struct, frozen=True):
    """A request that waits until the link has been authenticated again."""

    token: int
    version: int
    message: Message
    answered: bool


OnReply = Callable[[int, Message], None]
OnWritten = Callable[[int], None]
OnLost = Callable[[str], None]
Perform = Callable[[Ask], Awaitable[float | None]]
"""Authenticates, and returns for how many seconds that holds, None for ever."""

Explain = Callable[[Exception, bytes], ConnectError | None]
"""What it means that something cannot be read, with the first bytes that the peer sent (what they say, unless TLS itself failed): None if
it may go better another time."""


class Connection(asyncio.BufferedProtocol):
    """See the module.

    `on_reply(token, message)`, `on_written(token)` (a request without an answer is in the socket) and `on_lost(reason)` are called on
    the loop's thread, `on_lost` exactly once. `refused` then says why another link would fare no better, if it would not. `tls`: the
    session to speak through. `on_unserved` is called when the peer ends the link without having answered any request of `send`.
    """

    def __init__(
        self, client_id: str, *, on_reply: OnReply, on_lost: OnLost, tls: TlsPipe | None = None, explain: Explain | None = None
    ) -> None:
        self.refused: ConnectError | None = None
        self.opening = b""  # as it came, and as it was meant
        self._heard = b""
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
        # No assert: uvloop's is none by its class.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._socket_writer = SocketWriter(transport)
        transport.set_write_buffer_limits(high=0)
        if self._tls is not None:
            self._tls.begin()
            self._socket_writer.write([self._tls.pending()])

    def resume_writing(self) -> None:
        """The socket has taken everything that asyncio had; it calls this because the buffer's limit is 0."""
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
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):  # the peer hung up during the handshake
            self._hung_up(None)
        except (WireError, ssl.SSLError) as error:
            refusal = self._explain(error, self.opening if isinstance(error, ssl.SSLError) else self._heard)
            if refusal is not None:
                self._refuse(refusal)
            else:
                self.abort(f"the answer could not be read: {error}")
        except BaseException as error:
            # The handler of a signal may raise anywhere. What was read is lost, and with it where the next answer begins.
            self.abort(f"reading was cut short: {error!r}")
            raise

    def connection_lost(self, error: Exception | None) -> None:
        # Nothing is left to abort. asyncio's transport would do it all the same where it had closed with bytes still to write: it would
        # come here once more, find no protocol, and log an AttributeError.
        self._transport = None
        self._hung_up(error)

    # -- the connector's side -------------------------------------------------------------------------------------------

    async def secured(self) -> None:
        """Wait until the TLS handshake is over. Raises Refusal, or ConnectionError."""
        if self._tls is not None and not self._tls.established:
            self._secured = asyncio.get_running_loop().create_future()
            if self._lost:
                raise self.refused or ConnectionError("the connection was lost")
            await self._secured

    async def ask(self, message: Message, version: int) -> Message:
        """Send a request of the link's own and wait for the answer. Raises Refusal, or ConnectionError when the link is lost first."""
        if self._lost:
            raise self.refused or ConnectionError("the connection was lost")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._write(0, message.api, version, message, answer=answer)
        return await answer

    async def log_in(self, perform: Perform, *, patience_s: float) -> None:
        """Authenticate, now and whenever it has to be done again; each time within that many seconds."""
        self._perform = perform
        self._patience_s = patience_s
        self._expire_after(await perform(self.ask))

    def known(self) -> None:
        """The peer has said what it speaks, and has authenticated where that is wanted: its answers may be large from here on."""
        self._splitter.limit = FRAME_BYTES_MAX

    # -- the engine's side -------------------------------------------------------------------------------------------

    def send(self, token: int, api: int, version: int, message: Message, *, answered: bool = True) -> None:
        """Write a request. Its answer comes as on_reply(token, ...), after those of all earlier requests; one without an answer is over
        with on_written(token)."""
        if self._perform is not None and self._held is None and asyncio.get_running_loop().time() >= self._renew_at:
            self._begin_renewal()
        if self._held is not None:
            self._held.append(Held(token, version, message, answered))
        else:
            self._write(token, api, version, message, answered=answered)

    def adopt(self, *, on_reply: OnReply, on_written: OnWritten, on_lost: OnLost) -> None:
        """Hand the link over to whoever uses it from here on; a link that is already lost says so at once."""
        self._on_reply, self._on_written, self._on_lost = on_reply, on_written, on_lost
        if self._lost:
            on_lost("the connection was lost")

    def abort(self, reason: str) -> None:
        """Cut the connection now."""
        if self._transport is not None:
            self._transport.abort()
        self._give_up(reason)

    def silence(self) -> None:
        """Cut the connection and tell nobody."""
        self._on_lost = lambda reason: None
        self.abort("the connection was given up")

    # -- authenticating again ----------------------------------------------------------------------------------------

    def _begin_renewal(self) -> None:
        """KIP-368: the requests that are on their way are answered first, the next ones wait until the broker knows again who sends
        them. As in Java's client it begins with the first request that comes after the time, so that an idle link is left alone."""
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
            self.abort(f"authenticating again took longer than socket_connection_setup_timeout_ms={plain(self._patience_s * 1000)}")
        except OSError as error:
            self.abort(f"authenticating again failed: {error}")
        else:
            held, self._held = self._held or [], None
            for each in held:
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
        """What the bytes say. What TLS itself has to answer is answered, an alert for those that say nothing good among it."""
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
            raise Unasked("an answer to no request")
        pending = self._pending[0]
        if len(frame) > pending.bytes_max:
            raise Oversized(f"an answer to {api_name(pending.api)} of {len(frame)} bytes, where at most {pending.bytes_max} are taken")
        correlation_id, message = decode_response(frame, Api(pending.api), pending.version)
        if correlation_id != pending.correlation_id:
            raise Unasked(f"correlation id {correlation_id} where {pending.correlation_id} was due")
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
        """The peer's doing, or the network's."""
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
    """An answer that fits no request."""


class Oversized(WireError):
    """An answer that says more than was asked for can need."""
