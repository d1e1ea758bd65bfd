"""One client's connection through the proxy: requests to a broker, responses back, and the faults in between.

Frames pass unchanged; the proxy reads only those that a fault is about, or that have addresses. Responses leave in the order of the
requests. A request that a fault holds also holds those behind it. While a response waits at AFTER_APPEND, requests that were forwarded
before may still take effect. It opens no sockets: the hub does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from fencepost.broker_stub.faults.execution import execute
from fencepost.broker_stub.faults.refused_responses import refusal
from fencepost.broker_stub.faults.rules import Action, Kind, Point
from fencepost.broker_stub.journal.exchange import Exchange, Heard
from fencepost.broker_stub.network.limits import JOINED_BYTES_MAX, QUEUED_BYTES_MAX, QUEUED_FRAMES_MAX
from fencepost.broker_stub.proxy.journal import note_answer, note_request
from fencepost.broker_stub.proxy.request import Names, ProxiedRequest
from fencepost.broker_stub.proxy.writes import is_write, together, without
from fencepost.producer.wire import FRAME_BYTES_MAX, Buffer, FrameSplitter, FrameTooLarge, Malformed, Message, encode_request

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.clock import Clock
    from fencepost.broker_stub.faults.rules import Faults
    from fencepost.broker_stub.journal.journal import Journal
    from fencepost.broker_stub.proxy.counters import ProxyCounters
    from fencepost.broker_stub.proxy.fetch_sessions import FetchSessions

ANSWER_BYTES_MAX = 1 << 30
LINGER_S = 5.0

_SIZE = Struct(">i")
_log = logging.getLogger(__name__)


class Shared(Names, Protocol):
    """What all connections of a proxy share."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def faults(self) -> Faults: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def sessions(self) -> FetchSessions: ...
    @property
    def counters(self) -> ProxyCounters: ...
    @property
    def connection_ids(self) -> Iterator[int]: ...
    def post(self, run: Callable[[], None]) -> None:
        """Runs it on the loop, from any thread."""
        ...

    def forget(self, connection: ProxyConnection) -> None:
        """Removes a connection that has ended."""
        ...


class ProxyConnection:
    """One client connection and its connection to the broker."""

    def __init__(self, hub: Shared, node: int) -> None:
        self.hub = hub
        self.node = node
        self.id = next(hub.connection_ids)
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._requests = FrameSplitter(limit=FRAME_BYTES_MAX)
        self._answers = FrameSplitter(limit=ANSWER_BYTES_MAX)
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._unanswered_requests: deque[ProxiedRequest] = deque()  # responses that the client still expects, in order
        # The requests that the broker will answer, and whether the client gets the response.
        self._asked: deque[tuple[ProxiedRequest, Exchange | None, bool]] = deque()
        self._blocks = 1  # the number of reasons to forward nothing now; the first is that the broker is not connected
        self._held = 0  # requests that a fault holds before they are forwarded; they outlive the client
        self._pumping = False
        self._choked = False
        self._paused = False
        self._silent = False

    # -- the client --------------------------------------------------------------------------------------------------------

    def client_connected(self, transport: asyncio.Transport) -> None:
        self._client = transport

    def client_sent(self, data: bytes) -> None:
        try:
            frames = self._requests.feed(data)
        except FrameTooLarge:
            self.cut()
            return
        self._frames.extend(frames)
        self._queued_bytes += sum(map(len, frames))
        self._pump()

    def client_lost(self) -> None:
        """Held requests still reach the broker, like packets that were late. Nothing else does."""
        self._client = None
        self._frames.clear()
        self._unanswered_requests.clear()
        self._silent = True
        if self._held == 0:
            self._hang_up()

    # -- the broker --------------------------------------------------------------------------------------------------------

    def broker_connected(self, transport: asyncio.Transport) -> None:
        if self._client is None:
            transport.close()
            return
        self._broker = transport
        self._unblock()

    def broker_sent(self, data: bytes) -> None:
        try:
            frames = self._answers.feed(data)
        except FrameTooLarge:
            self.cut()
            return
        for frame in frames:
            self._answered(frame)

    def broker_lost(self) -> None:
        """Closes the client's connection after the responses that were on their way, as the broker does with its own clients."""
        self._broker = None
        if self._client is not None:
            self._client.close()
        self.hub.forget(self)

    def choke_client(self, choked: bool) -> None:
        """The connection to the broker cannot take more for now, or can again."""
        self._choked = choked
        self._read_or_wait()

    def choke_broker(self, choked: bool) -> None:
        """The client's connection cannot take more for now, or can again."""
        if self._broker is not None and not self._broker.is_closing():
            if choked:
                self._broker.pause_reading()
            else:
                self._broker.resume_reading()

    def cut(self) -> None:
        """Ends both connections now."""
        for transport in (self._client, self._broker):
            if transport is not None:
                transport.abort()
        self._client = self._broker = None
        self._frames.clear()
        self._unanswered_requests.clear()
        self.hub.forget(self)

    # -- requests ----------------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Forwards requests until one is held. Never re-enters itself."""
        if self._pumping:
            return
        self._pumping = True
        while self._frames and self._blocks == 0 and self._broker is not None:
            frame = self._frames.popleft()
            self._queued_bytes -= len(frame)
            self._begin(frame)
        self._pumping = False
        self._read_or_wait()

    def _read_or_wait(self) -> None:
        """Pauses reading from the client while requests cannot be forwarded."""
        wait = self._choked or len(self._frames) > QUEUED_FRAMES_MAX or self._queued_bytes > QUEUED_BYTES_MAX
        if wait is self._paused or self._client is None or self._client.is_closing():
            return
        self._paused = wait
        if wait:
            self._client.pause_reading()
        else:
            self._client.resume_reading()

    def _begin(self, frame: bytes) -> None:
        self.hub.counters.requests += 1
        try:
            proxied = ProxiedRequest(self.hub, self.node, frame)
        except Malformed:
            self._send(frame)  # no valid request: the broker handles it
            return
        if proxied.expects_answer and not self._silent:
            self._unanswered_requests.append(proxied)
        actions = self.hub.faults.match(proxied, Point.BEFORE)
        if actions:
            proxied.acted_on(actions)
            self._blocks += 1
            self._held += 1
            execute(_Faulted(self, proxied), iter(actions), Point.BEFORE, partial(self._released, proxied))
        else:
            self._forward(proxied)

    def _released(self, proxied: ProxiedRequest) -> None:
        self._forward(proxied)
        self._let_go()
        self._unblock()

    def _let_go(self) -> None:
        """One request less is held. The last one of a client that is gone ends the connection to the broker."""
        self._held -= 1
        if self._client is None and self._held == 0:
            if self._asked:
                self.hub.loop.call_later(LINGER_S, self._hang_up)  # so that the broker can read it
            else:
                self._hang_up()

    def _forward(self, proxied: ProxiedRequest) -> None:
        """Sends the request to the broker, or the part of it that a fault left."""
        frame = self._refuse(proxied) if proxied.errors else proxied.frame
        if frame is None:
            return
        self._ask(proxied, frame, wanted=True)
        if proxied.twice:
            self._ask(proxied, frame, wanted=False)
        if not proxied.expects_answer:
            # The broker never says when it has processed the request, so AFTER_APPEND comes when it was forwarded.
            self._pass(proxied, Point.AFTER_APPEND, partial(self._unanswered, proxied))

    def _ask(self, proxied: ProxiedRequest, frame: bytes, *, wanted: bool) -> None:
        hub = self.hub
        kept = self._may_send()
        exchange = note_request(hub.journal, proxied, frame, connection_id=self.id, at_ms=hub.clock.now_ms()) if kept else None
        self._send(frame)
        if wanted:
            proxied.exchange = exchange
        if proxied.expects_answer:
            self._asked.append((proxied, exchange, wanted))

    def _refuse(self, proxied: ProxiedRequest) -> bytes | None:
        """The frame to forward when faults inject errors at BEFORE. None: the response needs no broker."""
        request = proxied.request()
        if request is None:
            _log.warning(
                "a fault rule has an error for a request that the proxy cannot read (api %d v%d): it cuts the connection instead",
                proxied.api,
                proxied.version,
            )
            self._end_here(proxied)
            return None
        if not is_write(request):
            return proxied.frame  # without effect: the broker gets it, and the proxy changes its response
        left: Message | None = request
        for action in proxied.errors:
            refused = refusal(request, action.code, action.covers, self.hub.name_of, version=proxied.version)
            proxied.refused = refused if proxied.refused is None else together(proxied.refused, refused)
            left = None if left is None else without(left, action.covers, self.hub.name_of)
        proxied.errors = []
        if left is not None:
            parts = encode_request(left, proxied.version, correlation_id=proxied.correlation_id, client_id=proxied.client_id)
            return b"".join(parts)[_SIZE.size :]
        if proxied in self._unanswered_requests:
            self._after_append(proxied)
        elif not self._silent:
            self._end_here(proxied)  # acks=0: an error closes the connection
        return None

    def _unanswered(self, proxied: ProxiedRequest) -> None:
        if proxied.errors or proxied.refused is not None:
            self._end_here(proxied)

    # -- answers -----------------------------------------------------------------------------------------------------------

    def _answered(self, frame: bytes) -> None:
        self.hub.counters.answers += 1
        (correlation_id,) = _SIZE.unpack_from(frame) if len(frame) >= _SIZE.size else (None,)
        if not self._asked or self._asked[0][0].correlation_id != correlation_id:
            _log.warning("node %d sent a response (%s) that is not the next one: the proxy cuts the connection", self.node, correlation_id)
            self.cut()
            return
        proxied, exchange, wanted = self._asked.popleft()
        if exchange is not None:
            note_answer(self.hub.journal, exchange, frame, at_ms=self.hub.clock.now_ms())
        if wanted:
            proxied.answer = frame
            self.hub.sessions.note(proxied, frame)
            if proxied in self._unanswered_requests:
                self._after_append(proxied)
        if self._client is None and not self._asked and self._held == 0:
            self._hang_up()

    def _after_append(self, proxied: ProxiedRequest) -> None:
        self._pass(proxied, Point.AFTER_APPEND, partial(self._pass, proxied, Point.REPLY, partial(self._fill, proxied)))

    def _fill(self, proxied: ProxiedRequest, *, halfway: bool = False) -> None:
        """Prepares the response, which leaves after those before it."""
        if proxied not in self._unanswered_requests:
            return
        try:
            parts = proxied.answer_parts()
        except (OSError, ValueError) as error:
            _log.warning("node %d sent an address that the proxy cannot listen for: %s; it cuts the connection", self.node, error)
            self.cut()
            return
        if halfway:
            whole = b"".join(parts)
            parts = [whole[: len(whole) // 2]]
            proxied.cut = True
        proxied.parts = parts
        if proxied.throttle_ms:
            self._blocks += 1
            self.hub.loop.call_later(proxied.throttle_ms / 1000, self._unblock)
        self._flush()

    def _flush(self) -> None:
        while self._unanswered_requests and self._unanswered_requests[0].parts is not None and self._client is not None:
            proxied = self._unanswered_requests.popleft()
            if not self._client.is_closing():  # else the client has reset it, and `client_lost` follows
                if proxied.exchange is not None and not proxied.cut:
                    proxied.exchange.heard = Heard.CHANGED if proxied.changed else Heard.ALL
                _write(self._client, proxied.parts or [])
            if proxied.cut:
                self.hub.counters.connections_cut += not self._client.is_closing()
                self._client.close()
                self._hang_up()

    # -- faults ------------------------------------------------------------------------------------------------------------

    def _pass(self, proxied: ProxiedRequest, point: Point, go_on: Callable[[], None]) -> None:
        actions = self.hub.faults.match(proxied, point)
        if actions:
            proxied.acted_on(actions)
        if not actions:
            go_on()
        elif point is Point.AFTER_APPEND:
            self._blocks += 1
            execute(_Faulted(self, proxied), iter(actions), point, partial(self._unblocked, go_on))
        else:
            execute(_Faulted(self, proxied), iter(actions), point, go_on)

    def _unblocked(self, go_on: Callable[[], None]) -> None:
        go_on()
        self._unblock()

    def _unblock(self) -> None:
        self._blocks -= 1
        self._pump()

    def _break_off(self, kind: Kind, proxied: ProxiedRequest, point: Point) -> None:
        """Ends the exchange. After a DROP the requests behind it continue, without responses."""
        if point is Point.BEFORE:
            self._let_go()
        if kind is Kind.DISCONNECT and point is Point.REPLY:
            self._fill(proxied, halfway=True)
        elif kind is Kind.DISCONNECT:
            self._end_here(proxied)
        else:
            self._fall_silent(proxied)
            if point is not Point.REPLY:
                self._unblock()

    def _fall_silent(self, proxied: ProxiedRequest) -> None:
        """Drops the response to this request and to all later ones. Earlier ones still leave."""
        self._silent = True
        while proxied in self._unanswered_requests:
            self._unanswered_requests.pop()

    def _end_here(self, proxied: ProxiedRequest) -> None:
        """Ends the connection after the responses before this one."""
        if proxied not in self._unanswered_requests:
            self._unanswered_requests.append(proxied)
        proxied.parts, proxied.cut = [], True
        self._flush()

    # -- bytes -------------------------------------------------------------------------------------------------------------

    def _may_send(self) -> bool:
        """Whether the connection to the broker is up, as far as the proxy knows."""
        return self._broker is not None and not self._broker.is_closing()

    def _send(self, frame: bytes) -> None:
        if self._broker is not None and self._may_send():
            _write(self._broker, [_SIZE.pack(len(frame)), frame])

    def _hang_up(self) -> None:
        """Ends the connection to the broker after the written bytes."""
        if self._broker is not None:
            self._broker.close()
        else:
            self.hub.forget(self)


class _Faulted:
    """One request of a connection, as faults act on it."""

    __slots__ = ("_connection", "_proxied")

    def __init__(self, connection: ProxyConnection, proxied: ProxiedRequest) -> None:
        self._connection = connection
        self._proxied = proxied

    @property
    def over(self) -> bool:
        """Never: a request that a fault delays or holds outlives its client."""
        return False

    def inject(self, action: Action) -> None:
        self._proxied.errors.append(action)

    def throttle(self, ms: int) -> None:
        self._proxied.throttle_ms = ms

    def repeat(self, point: Point) -> None:
        if point is Point.BEFORE:
            self._proxied.twice = True
        else:
            self._connection._ask(self._proxied, self._proxied.frame, wanted=False)

    def continue_after(self, ms: int, go_on: Callable[[], None]) -> None:
        self._connection.hub.loop.call_later(ms / 1000, go_on)

    def post(self, go_on: Callable[[], None]) -> None:
        self._connection.hub.post(go_on)

    def break_off(self, kind: Kind, point: Point) -> bool:
        goes_on = kind is Kind.DROP and not self._proxied.expects_answer and point is not Point.BEFORE
        if not goes_on:
            self._connection._break_off(kind, self._proxied, point)
        return not goes_on


def _write(transport: asyncio.Transport, parts: list[Buffer]) -> None:
    if sum(memoryview(part).nbytes for part in parts) <= JOINED_BYTES_MAX:
        transport.write(b"".join(parts))
    else:
        for part in parts:
            transport.write(part)
