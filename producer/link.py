"""One TCP link to one broker: connecting to any of its addresses, asking for its versions, writing requests, reading answers in order.

It retries nothing and remembers nothing beyond its own life; what a lost link means for the requests on it is the core's to say.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from producer.core.errors import plain
from producer.resolver import resolve
from producer.wire import (
    Api,
    ErrorCode,
    FrameSplitter,
    Message,
    WireError,
    decode_response,
    encode_request,
)
from producer.wire.messages import ApiVersionsRequest, ApiVersionsResponse

API_VERSIONS_MAX = 4
SOFTWARE_NAME = "fencepost"


class Refusal(OSError):
    """The peer answered, but not like a Kafka broker that we can use."""


class Pending(Struct):
    """A request that has been written and not answered."""

    correlation_id: int
    token: int
    api: int
    version: int


OnReply = Callable[[int, Message], None]
OnWritten = Callable[[int], None]
OnLost = Callable[[str], None]


class Link(asyncio.Protocol):
    """See the module.

    `on_reply(token, message)`, `on_written(token)` (a request without an answer is in the socket) and `on_lost(reason)` are called on
    the loop's thread, `on_lost` exactly once.
    """

    def __init__(self, client_id: str, *, on_reply: OnReply, on_lost: OnLost) -> None:
        self._client_id = client_id
        self._on_reply = on_reply
        self._on_written: OnWritten = lambda token: None
        self._on_lost = on_lost
        self._unwritten: list[int] = []
        self._splitter = FrameSplitter()
        self._pending: deque[Pending] = deque()
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._lost = False

    # -- asyncio's side ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)

    def resume_writing(self) -> None:
        """The socket has taken everything; asyncio calls this because the buffer's limit is 0."""
        written, self._unwritten = self._unwritten, []
        for token in written:
            self._on_written(token)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._take(frame)
        except WireError as error:
            self.abort(f"the answer could not be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._give_up(f"the connection was lost: {error}" if error is not None else "the broker closed the connection")

    # -- the engine's side -------------------------------------------------------------------------------------------

    def send(self, token: int, api: int, version: int, message: Message, *, answered: bool = True) -> None:
        """Write a request. Its answer comes as on_reply(token, ...), after those of all earlier requests; one without an answer is over
        with on_written(token)."""
        assert self._transport is not None
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        if answered:
            self._pending.append(Pending(self._correlation_id, token, api, version))
        parts = encode_request(message, version, correlation_id=self._correlation_id, client_id=self._client_id)
        # Not writelines: in some Python 3.12 and 3.13 releases it forgets to pause and so to resume.
        self._transport.write(b"".join(parts))
        if not answered:
            self._unwritten.append(token)
            if not self._transport.get_write_buffer_size():
                self.resume_writing()

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
        self._lost = True
        self.abort("")

    def _take(self, frame: bytes) -> None:
        if not self._pending:
            raise Unasked("an answer to no request")
        pending = self._pending.popleft()
        correlation_id, message = decode_response(frame, Api(pending.api), pending.version)
        if correlation_id != pending.correlation_id:
            raise Unasked(f"correlation id {correlation_id} where {pending.correlation_id} was due")
        self._on_reply(pending.token, message)

    def _give_up(self, reason: str) -> None:
        if not self._lost:
            self._lost = True
            self._on_lost(reason)


class Unasked(WireError):
    """An answer that fits no request."""


class Handshake:
    """ApiVersions on a new link: what the broker speaks (KIP-35, KIP-511)."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[ApiVersionsResponse] = asyncio.get_running_loop().create_future()

    def replied(self, token: int, message: Message) -> None:
        if not self.answer.done():
            assert isinstance(message, ApiVersionsResponse)
            self.answer.set_result(message)

    def lost(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(ConnectionError(reason))


async def open_link(
    host: str, port: int, client_id: str, *, timeout_s: float, software_version: str
) -> tuple[Link, dict[int, tuple[int, int]]]:
    """A link to the first of the host's addresses that answers, and the versions that the broker offers.

    Raises OSError with what happened, at each address where the host has others than its name; host and port are for the caller to name.
    """
    failures: list[str] = []
    for ip in await resolve(host, timeout_s=timeout_s):
        where = "" if ip == host else f"{ip}: "
        try:
            return await _open_one(ip, port, client_id, timeout_s, software_version)
        except TimeoutError:
            failures.append(f"{where}no answer within {plain(timeout_s)} s")
        except OSError as error:
            # What asyncio makes of the system's error repeats the address.
            failures.append(f"{where}{os.strerror(error.errno) if error.errno and error.errno > 0 else error}")
    raise OSError("; ".join(failures))


async def _open_one(ip: str, port: int, client_id: str, timeout_s: float, software_version: str) -> tuple[Link, dict[int, tuple[int, int]]]:
    handshake = Handshake()
    link = Link(client_id, on_reply=handshake.replied, on_lost=handshake.lost)
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().create_connection(lambda: link, ip, port)
            versions = await _ask_versions(link, handshake, software_version)
    except BaseException:
        link.silence()
        raise
    return link, versions


async def _ask_versions(link: Link, handshake: Handshake, software_version: str) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=software_version)
    link.send(0, Api.API_VERSIONS, API_VERSIONS_MAX, request)
    answer = await handshake.answer
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        theirs = next((key.max_version for key in answer.api_keys if key.api_key == Api.API_VERSIONS), 0)
        handshake.answer = asyncio.get_running_loop().create_future()
        link.send(0, Api.API_VERSIONS, min(API_VERSIONS_MAX, theirs), request)
        answer = await handshake.answer
    if answer.error_code:
        raise Refusal(f"ApiVersions was answered with error {answer.error_code}")
    return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
