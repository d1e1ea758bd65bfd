"""Frames: a message with its header and length, and the splitting of a byte stream into frames.

This module also chooses the header of each message. Flexible versions have request header 2 and response header 1, which carry a tag
buffer. The ApiVersions response always has header 0, so that a client can read it before it knows the broker. It does no I/O.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as StructError
from typing import Final

import msgspec

from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.errors import FrameTooLarge, Malformed, UnsupportedFieldValue
from fencepost.producer.wire.message import Message, decode, encode_into
from fencepost.producer.wire.messages import REQUESTS, RESPONSES
from fencepost.producer.wire.schema.fields import NEVER, Buffer
from fencepost.producer.wire.schema.runtime import REFUSALS, LayoutBroken, malformed, skip_tags

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""Kafka's socket.request.max.bytes."""

_SIZE: Final = Layout(">i")
_REQUEST_START: Final = Layout(">ihhih")
_REQUEST_HEADER: Final = Layout(">hhih")
_RESPONSE_START: Final = Layout(">ii")


class RequestHeader(msgspec.Struct, frozen=True):
    """The header of every request. The client id is in the classic encoding in every version."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def encode_request(message: Message, version: int, *, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Encode a request as a frame with its length prefix, in pieces for a gathering write."""
    try:
        client = b"" if client_id is None else client_id.encode()
        out = bytearray(_REQUEST_START.pack(0, message.api, version, correlation_id, -1 if client_id is None else len(client)))
    except (StructError, UnicodeEncodeError) as error:
        raise UnsupportedFieldValue(f"request header: {error}") from error
    out += client
    if version >= message.flexible:
        out.append(0)
    return _frame(message, version, out)


def encode_response(message: Message, version: int, *, correlation_id: int) -> list[Buffer]:
    """Encode a response as a frame with its length prefix, in pieces for a gathering write."""
    try:
        out = bytearray(_RESPONSE_START.pack(0, correlation_id))
    except StructError as error:
        raise UnsupportedFieldValue(f"response header: {error}") from error
    if _response_header_has_tags(message.api, version, message.flexible):
        out.append(0)
    return _frame(message, version, out)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body starts.

    It also reads the header of unsupported versions, as the fallback of ApiVersions needs (KIP-511). For an unknown API the header's
    version is unknown, and it reads version 1.
    """
    data = _bytes_of(frame)
    pos = 0
    api_key: int | None = None
    api_version: int | None = None
    try:
        api_key, api_version, correlation_id, size = _REQUEST_HEADER.unpack_from(data, 0)
        pos = _REQUEST_HEADER.size
        stop = pos + size
        if size < -1 or stop > len(data):
            raise LayoutBroken(f"client id of length {size} where {counted(len(data) - pos, 'byte is', 'bytes are')} left", pos)
        client_id = None
        if size >= 0:
            client_id = str(data[pos:stop], "utf-8")
            pos = stop
        if api_version >= _flexible_from(api_key):
            pos = skip_tags(data, pos, len(data))
    except REFUSALS as error:
        raise malformed(error, pos, api_key, api_version) from error
    return RequestHeader(api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id=client_id), pos


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """A request with its header. An API or a version that is not supported here is Malformed, too, because its layout is unknown."""
    header, pos = decode_request_header(frame)
    cls = REQUESTS.get(header.api_key)
    if cls is None or header.api_version not in cls.versions:
        what = "an API" if cls is None else "a version"
        raise Malformed(f"a request of {what} that is not supported", 0, api=header.api_key, version=header.api_version)
    return header, decode(cls, header.api_version, frame, start=pos)


def decode_response(frame: Buffer, api: int, version: int) -> tuple[int, Message]:
    """A response, and the correlation id of its request.

    A broker that does not know this version of ApiVersions answers in version 0 with UNSUPPORTED_VERSION (KIP-511). This function reads
    that response, too.
    """
    cls = RESPONSES[api]
    data = _bytes_of(frame)
    pos = 0
    try:
        (correlation_id,) = _SIZE.unpack_from(data, 0)
        pos = _SIZE.size
        if _response_header_has_tags(api, version, cls.flexible):
            pos = skip_tags(data, pos, len(data))
    except REFUSALS as error:
        raise malformed(error, pos, api, version) from error
    try:
        return correlation_id, decode(cls, version, frame, start=pos)
    except Malformed:
        # Only versions 3 and later have the fallback. A truncated response of an older version could look like version 0.
        if api != Api.API_VERSIONS or version < cls.flexible or bytes(data[pos : pos + 2]) != _UNSUPPORTED_VERSION:
            raise
    return correlation_id, decode(cls, 0, frame, start=pos)


class FrameSplitter:
    """Cuts a stream of bytes into frames without their length prefix. Data may arrive in pieces of any size.

    It copies each byte at most twice. For a length that is negative or above the limit it raises FrameTooLarge before it stores any byte of
    that frame. The start of the next frame is then unknown, so do not feed the splitter again.
    """

    def __init__(self, *, limit: int = FRAME_BYTES_MAX) -> None:
        self.limit = limit  # may be changed between two frames; it applies to the next length
        self._partial = bytearray()
        self._partial_size = 0

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete yet, its prefix included."""
        return len(self._partial)

    @property
    def missing(self) -> int:
        """How many bytes are missing from the current length or frame. If you feed exactly so many, it returns at most one frame."""
        size = _SIZE.size if len(self._partial) < _SIZE.size else _SIZE.size + self._partial_size
        return size - len(self._partial)

    def feed(self, data: Buffer) -> list[bytes]:
        """Add the next bytes of the stream, and return the frames that they complete."""
        frames: list[bytes] = []
        view = memoryview(data).cast("B")
        pos = self._complete(view, frames) if self._partial else 0
        while len(view) - pos >= _SIZE.size:
            size = self._checked(_SIZE.unpack_from(view, pos)[0], frames)
            stop = pos + _SIZE.size + size
            if stop > len(view):
                self._partial_size = size
                break
            frames.append(bytes(view[pos + _SIZE.size : stop]))
            pos = stop
        self._partial += view[pos:]
        return frames

    def _complete(self, view: memoryview, frames: list[bytes]) -> int:
        """Add bytes to the current frame, and return how many it took."""
        partial = self._partial
        taken = 0
        if len(partial) < _SIZE.size:
            taken = min(_SIZE.size - len(partial), len(view))
            partial += view[:taken]
            if len(partial) < _SIZE.size:
                return taken
            self._partial_size = self._checked(_SIZE.unpack_from(partial)[0], frames)
        stop = taken + _SIZE.size + self._partial_size - len(partial)
        if stop > len(view):
            partial += view[taken:]
            return len(view)
        partial += view[taken:stop]
        with memoryview(partial) as whole:
            frames.append(bytes(whole[_SIZE.size :]))
        self._partial = bytearray()
        return stop

    def _checked(self, size: int, frames: list[bytes]) -> int:
        """The size of a frame. Raises FrameTooLarge."""
        if not 0 <= size <= self.limit:
            self._partial = bytearray()
            raise FrameTooLarge(size, self.limit, frames=frames)
        return size


_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def _frame(message: Message, version: int, out: bytearray) -> list[Buffer]:
    """Complete a frame whose header is in `out`, with four bytes in front for the length."""
    parts: list[Buffer] = []
    parts.append(encode_into(message, version, out, parts))
    size = -_SIZE.size
    for part in parts:
        size += memoryview(part).nbytes
    if size > 0x7FFFFFFF:
        raise UnsupportedFieldValue(f"a frame of {counted(size, 'byte')} is above what its length can say")
    _SIZE.pack_into(out, 0, size)
    return parts


def _bytes_of(frame: Buffer) -> bytes | memoryview:
    """The frame as a buffer of bytes."""
    return frame if type(frame) is bytes else memoryview(frame).cast("B")


def _flexible_from(api_key: int) -> int:
    """The first flexible version of an API."""
    cls = REQUESTS.get(api_key)
    return NEVER if cls is None else cls.flexible


def _response_header_has_tags(api: int, version: int, flexible: int) -> bool:
    """Whether the response header ends in a tag buffer."""
    return version >= flexible and api != Api.API_VERSIONS
