"""One client connection below its socket: frames in, frames out, in order.

As in Kafka, requests of one connection are processed one at a time and answered in their order; while one waits, those behind it wait
too. Only a response that a fault holds at the REPLY point lets the next request be processed meanwhile. Bytes that are no served request
(garbage, an unknown API, a version that is not offered) end the connection without a response; only ApiVersions answers an unknown version
(KIP-511). A connection whose response was dropped stays silent from then on, because Kafka's responses have no gaps either.

Requests that wait when the client closes its connection are still processed, as by Kafka's `Selector` (`CloseMode.GRACEFUL`): one by one,
muted as before, until a response cannot be sent. Requests with acks=0 have none, so all of them are.

It does no I/O: `write` takes the pieces of a frame, `cut` ends the connection after the written bytes.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from fencepost.broker_stub.network.limits import QUEUED_BYTES_MAX, QUEUED_FRAMES_MAX
from fencepost.broker_stub.requests.call import Call, Fate, Reply
from fencepost.broker_stub.requests.client import Client, Software
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.router import route_to
from fencepost.broker_stub.security.principal import ANONYMOUS, LOCALHOST
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import (
    RESPONSES,
    Api,
    ApiVersionsRequest,
    Buffer,
    ErrorCode,
    Malformed,
    Message,
    RequestHeader,
    api_name,
    decode,
    decode_request_header,
    encode_response,
)

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.broker import Broker
    from fencepost.broker_stub.security.sasl import SaslState

UNPROVEN_BYTES_MAX = 512 * 1024  # sasl.server.max.receive.size: the largest frame of an unauthenticated client
WAITING_ANSWERS_MAX = 64  # responses that a fault holds

_log = logging.getLogger(__name__)


class Wire(Protocol):
    """What a connection needs of its transport."""

    def write(self, parts: list[Buffer]) -> None:
        """Sends these pieces in this order."""
        ...

    def cut(self, *, flush: bool) -> None:
        """Ends the connection, after the written bytes or at once. The transport calls `lost` when it is down."""
        ...

    def pause(self, paused: bool) -> None:
        """Stops reading frames, or continues."""
        ...


class _PendingResponse:
    """The place of one response in their order."""

    __slots__ = ("by_fault", "correlation_id", "cut", "filled", "parts", "version")

    def __init__(self, version: int, correlation_id: int) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.filled = False
        self.parts: list[Buffer] = []
        self.cut = False
        self.by_fault = False


class ClientConnection:
    """One connection to one broker. `sasl_state`: its SASL state, None on a listener without SASL."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        broker: Broker,
        connection_id: int,
        wire: Wire,
        *,
        principal: str = ANONYMOUS,
        host: str = LOCALHOST,
        port: int | None = None,
        sasl_state: SaslState | None = None,
    ) -> None:
        self.id = connection_id
        self.broker = broker
        self._dispatcher = dispatcher
        self._cluster = dispatcher.cluster
        self.sasl_state = sasl_state
        self.host = host
        self.port = port
        self._software = Software()
        self._principal = principal
        self._wire = wire
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._pending: deque[_PendingResponse] = deque()
        self._call: Call | None = None
        self._pumping = False
        self._paused = False
        self._choked = False
        self._silent = False
        self._muted_until_ms = 0
        self._open = True
        self._reset = False  # whether the client's system refuses what is sent

    @property
    def open(self) -> bool:
        return self._open

    @property
    def busy(self) -> bool:
        """Whether a request waits for its response."""
        return bool(self._pending or self._frames) or self._call is not None

    @property
    def principal(self) -> str:
        """The current principal."""
        return self._principal if self.sasl_state is None else self.sasl_state.principal

    @property
    def proven(self) -> bool:
        """Whether it is authenticated, or need not be."""
        return self.sasl_state is None or self.sasl_state.proven

    def receive(self, frame: bytes) -> None:
        """One complete frame, without its length prefix."""
        if not self._open:
            return
        self._cluster.counters.frames += 1
        self._frames.append(frame)
        self._queued_bytes += len(frame)
        self._pump()

    def choke(self, choked: bool) -> None:
        """Stops processing while the transport's buffer is full."""
        self._choked = choked
        self._pump()

    def cut(self) -> None:
        """Ends the connection at once, and drops unsent bytes."""
        self._finish(flush=False)

    def lost(self, *, reset: bool = False) -> None:
        """The client has closed the connection. `reset`: its system refuses a response already, not only what follows the next one."""
        self._open = False
        self._reset = reset
        self._pending.clear()
        if self._choked or not self.proven:  # a response waits to be sent, or Kafka's channel is not READY
            self._frames.clear()
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        """Leaves the broker once a lost connection has no further requests. Its last one continues, but waits for nothing."""
        if not self._open and not self._frames:
            self.broker.disconnected(self)
            call, self._call = self._call, None
            if call is not None:
                call.abandon()

    def _finish(self, *, flush: bool) -> None:
        was_open = self._open
        self._frames.clear()
        self.lost()
        if was_open:
            self._wire.cut(flush=flush)

    def _pump(self) -> None:
        """Processes queued requests until one waits. Never re-enters itself."""
        if self._pumping:
            return
        self._pumping = True
        cluster = self._cluster
        while self._frames and self._may_begin() and self._muted_until_ms <= cluster.now_ms():
            frame = self._frames.popleft()
            self._queued_bytes -= len(frame)
            try:
                self._begin(frame)
            except Exception:  # noqa: BLE001 - the outermost loop of a connection: see `_failed`
                self._failed()
        self._pumping = False
        full = len(self._frames) > QUEUED_FRAMES_MAX or self._queued_bytes > QUEUED_BYTES_MAX
        if full is not self._paused and self._open:
            self._paused = full
            self._wire.pause(full)
        self._leave_if_done()

    def _may_begin(self) -> bool:
        """Whether no request is being processed, and not too many responses wait."""
        return self._call is None and not self._choked and len(self._pending) < WAITING_ANSWERS_MAX

    def _begin(self, frame: bytes) -> None:
        if self.sasl_state is not None and self.sasl_state.bare:
            self._take_token(self.sasl_state, frame)
            return
        try:
            header, start = decode_request_header(frame)
            if self.sasl_state is not None and not self._admitted(self.sasl_state, header, len(frame)):
                return
            route = route_to(header.api_key)
            known = route is not None and self._cluster.release.takes(header.api_key, route.versions, header.api_version)
            if route is not None and known:
                request = _decoded(route.request, header.api_version, frame, start)
            elif header.api_key == Api.API_VERSIONS:
                request = ApiVersionsRequest()
            else:
                self._refuse(f"{api_name(header.api_key)} v{header.api_version} is not served")
                return
        except Malformed as error:
            self._refuse(str(error))
            return
        pending = _PendingResponse(header.api_version if known else 0, header.correlation_id)
        if self._open and not self._silent:
            self._pending.append(pending)
        self._call = self._dispatcher.call(
            self.broker,
            self.id,
            header,
            request=request,
            reply=partial(self._fill, pending),
            processed=self._processed,
            client=Client(self.principal, self.host, self.sasl_state, port=self.port, software=self._software),
            size_bytes=len(frame),
        )
        self._call.start()

    def _admitted(self, sasl_state: SaslState, header: RequestHeader, size: int) -> bool:
        """Whether SASL allows the request. If not, the connection ends, with an error where Kafka sends one."""
        from fencepost.broker_stub.security.sasl import Admission

        if not sasl_state.proven and size > UNPROVEN_BYTES_MAX:  # sent before the new authentication began
            admission = Admission.CLOSE
        else:
            admission = sasl_state.admit(header.api_key, self._cluster.now_ms())
        if admission is Admission.SERVE:
            return True
        response = RESPONSES.get(header.api_key) if admission is Admission.ILLEGAL else None
        if response is not None and header.api_version in response.versions and "error_code" in response.__struct_fields__:
            answer = response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._write(encode_response(answer, header.api_version, correlation_id=header.correlation_id))
        self._refuse(f"{api_name(header.api_key)} from a client that is not authenticated")
        return False

    def _take_token(self, sasl_state: SaslState, frame: bytes) -> None:
        """Answers a bare SASL token, after SaslHandshake version 0."""
        answer = sasl_state.take_bare(frame, self._cluster.now_ms())
        if answer is None:
            self._refuse("the client was not authenticated")
        else:
            self._write([len(answer).to_bytes(4, "big") + answer])

    def _refuse(self, reason: str) -> None:
        """Ends the connection as Kafka does, without a response, and logs the reason."""
        _log.info("broker %d closes connection %d: %s", self.broker.node_id, self.id, reason)
        self._finish(flush=True)

    def _failed(self) -> None:
        """The stub itself failed at a request. Only this connection ends, though another client's bytes or timer may have run the code."""
        failed = sys.exception()
        if isinstance(failed, StorageFailed):
            self._cluster.disk_failed(failed)
            self._finish(flush=True)
            return
        _log.exception("broker %d closes connection %d: the stub failed at its request; this is a bug", self.broker.node_id, self.id)
        self._finish(flush=True)

    def _processed(self) -> None:
        self._call = None
        self._pump()

    def _fill(self, pending: _PendingResponse, reply: Reply) -> None:
        if reply.throttle_ms:
            self._mute(reply.throttle_ms)
        if pending not in self._pending:
            if reply.exchange is not None:
                reply.exchange.response = None
            if not self._open and reply.fate in (Fate.CLOSE, Fate.CUT):
                self._finish(flush=False)
            elif not self._open and reply.response is not None:
                self._write([])
            return  # the connection is down or silent
        if reply.fate is Fate.SILENCE:
            self._silent = True
            while self._pending.pop() is not pending:
                pass  # later answers must not overtake the one that never comes
            return
        if reply.fate in (Fate.CLOSE, Fate.CUT):
            self._cluster.counters.connections_cut += reply.fate is Fate.CUT
            self._finish(flush=True)
            return
        if self.sasl_state is not None:
            if reply.response is not None and reply.response.api == Api.API_VERSIONS and not getattr(reply.response, "error_code", 0):
                self.sasl_state.told_versions()
            pending.cut = self.sasl_state.failed
        if reply.response is not None:
            try:
                pending.parts = encode_response(reply.response, pending.version, correlation_id=pending.correlation_id)
            except Exception:  # noqa: BLE001 - the response may come during another client's request: see `_failed`
                self._failed()
                return
            journal = self._dispatcher.journal
            if journal.enabled and reply.exchange is not None:
                journal.weigh(reply.exchange)
        if reply.fate is Fate.CUT_HALFWAY:
            whole = b"".join(pending.parts)
            pending.parts = [whole[: len(whole) // 2]]
            pending.cut = pending.by_fault = True
        pending.filled = True
        self._flush()

    def _flush(self) -> None:
        while self._pending and self._pending[0].filled:
            pending = self._pending.popleft()
            if pending.parts:
                self._write(pending.parts)
            if pending.cut:
                self._cluster.counters.connections_cut += pending.by_fault and self._open
                self._finish(flush=True)
        self._pump()

    def _write(self, parts: list[Buffer]) -> None:
        """Sends these pieces. After the client's close its system takes one response, and resets the connection for it."""
        if self._open:
            self._wire.write(parts)
        elif self._reset:
            self._finish(flush=False)
        self._reset = not self._open

    def _mute(self, ms: int) -> None:
        """KIP-219: the answer goes out at once, the next request is looked at later."""
        cluster = self._cluster
        self._muted_until_ms = cluster.now_ms() + ms
        cluster.timers.at(self._muted_until_ms, self._pump)


def _decoded(request: type[Message], version: int, frame: bytes, start: int) -> Message:
    """The body of a frame. Bytes after its end are passed over, as Kafka does: librdkafka sends some with Metadata."""
    try:
        return decode(request, version, frame, start=start)
    except Malformed as error:
        # If nothing was wrong but those bytes, the message ends where they were met.
        return decode(request, version, frame[: error.offset], start=start)
