"""GZIP members (RFC 1952), read as Java's `GZIPInputStream` reads them.

Consecutive members are one stream. Bytes after a member that are not the header of another one are ignored. It refuses damaged or
truncated data, wrong checksums and sizes, and content above a limit. The standard library does the deflate part, and releases the GIL
meanwhile.
"""

from __future__ import annotations

import zlib
from struct import Struct as Layout
from typing import Final

from fencepost.producer.wire.codecs.damage import CorruptBatch, too_much

_WBITS_GZIP: Final = 31
_WBITS_RAW: Final = -15
_FIXED: Final = Layout("<3sB6x")  # magic and method, flags; time, hints and system are ignored
_TRAILER: Final = Layout("<II")
_U16: Final = Layout("<H")
_MAGIC: Final = b"\x1f\x8b\x08"
_HEADER_CHECKSUM: Final = 0x02
_EXTRA: Final = 0x04
_TEXTS: Final = (0x08, 0x10)  # name and comment, in this order
_REST_MIN: Final = 18
"""Java only looks for another member if more bytes than these follow."""
_STEP_BYTES: Final = 4096
"""How many bytes of a later member are decompressed at once. zlib copies the unused rest, and a member may be only twenty bytes long."""


def compress(data: bytes, level: int) -> bytes:
    """One member, without a name or a time."""
    return zlib.compress(data, level, _WBITS_GZIP)


def decompress(stream: bytes, limit: int) -> bytes:
    """The content of all members."""
    at = _header_end(stream, 0)
    if at is None:
        raise CorruptBatch("gzip: no member")
    parts: list[bytes] = []
    room, step = limit, len(stream)
    while at is not None:
        part, at = _open_member(stream, at, step=step, room=room)
        if part is None:
            raise too_much("gzip", limit)
        parts.append(part)
        room -= len(part)
        step = _STEP_BYTES
        at = _header_end(stream, at) if len(stream) - at > _REST_MIN else None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _open_member(stream: bytes, at: int, *, step: int, room: int) -> tuple[bytes | None, int]:
    """The content of the member whose header ends at `at`, or None if the content exceeds `room` bytes; and the end of the member."""
    inflater = zlib.decompressobj(_WBITS_RAW)
    view = memoryview(stream)
    parts: list[bytes] = []
    while not inflater.eof:
        if at == len(stream):
            raise CorruptBatch("gzip: the member ends early")
        fed = view[at : at + step]
        try:
            part = inflater.decompress(fed, room + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        if len(part) > room:
            return None, at
        room -= len(part)
        parts.append(part)
        at += len(fed) - len(inflater.unused_data)
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    if len(stream) - at < _TRAILER.size:
        raise CorruptBatch("gzip: the member ends before its checksum")
    if _TRAILER.unpack_from(stream, at) != (zlib.crc32(content), len(content) & 0xFFFFFFFF):
        raise CorruptBatch("gzip: the content has another checksum or size")
    return content, at + _TRAILER.size


def _header_end(stream: bytes, start: int) -> int | None:
    """The end of the header at `start`; None if Java would not accept it. Reserved flags are ignored."""
    end = len(stream)
    if end - start < _FIXED.size:
        return None
    magic, flags = _FIXED.unpack_from(stream, start)
    if magic != _MAGIC:
        return None
    at = start + _FIXED.size
    if flags & _EXTRA:
        if end - at < _U16.size:
            return None
        at += _U16.size + _U16.unpack_from(stream, at)[0]
    for text in _TEXTS:
        if flags & text:
            at = stream.find(0, at) + 1
            if at == 0:
                return None
    if flags & _HEADER_CHECKSUM:
        if end - at < _U16.size or _U16.unpack_from(stream, at)[0] != zlib.crc32(stream[start:at]) & 0xFFFF:
            return None
        at += _U16.size
    return at if at <= end else None
