"""Snappy in the stream of blocks that Java writes (xerial's snappy-java); one raw block, which librdkafka writes, is read too.

A stream is a header of 16 bytes and then blocks, each a length and so many bytes of raw snappy. This writer makes one
block of any size, and Java a block every 32 KiB. Readers accept any length, and each call of the library releases the GIL and waits for
it again. Another stream may follow. Fewer than four bytes at the end are ignored. It refuses damaged or truncated data, content above a
limit, and a block that claims more than its bytes can hold, before anything is allocated for it. Snappy has no levels.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final

import cramjam

from fencepost.producer.wire.codecs.damage import CorruptBatch, too_much

_MAGIC: Final = b"\x82SNAPPY\0"
_VERSIONS: Final = Layout(">ii")  # version of the format, and the oldest compatible version
_LENGTH: Final = Layout(">i")
_HEADER_BYTES: Final = len(_MAGIC) + _VERSIONS.size
_HEADER: Final = _MAGIC + _VERSIONS.pack(1, 1)
_VERSION_MIN: Final = 1
"""The version of a stream after another one; the first stream's version is ignored."""
_EXPANSION_MAX: Final = 22
"""A byte of raw snappy stands for at most a third of 64 bytes: a copy of 64 bytes takes three."""


def compress(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return b"".join((_HEADER, _LENGTH.pack(len(block)), block))


def decompress(stream: bytes, limit: int) -> bytes:
    """The content of all blocks, or of the one raw block."""
    if not stream:
        raise CorruptBatch("snappy: nothing there")
    if len(stream) < _HEADER_BYTES or not stream.startswith(_MAGIC):
        return _open_blocks([memoryview(stream)], limit)
    return _open_blocks(_blocks(stream), limit)


def _blocks(stream: bytes) -> list[memoryview]:
    view = memoryview(stream)
    blocks = []
    at = _HEADER_BYTES
    while len(stream) - at >= _LENGTH.size:
        if stream.startswith(_MAGIC[: _LENGTH.size], at):
            if len(stream) - at < _HEADER_BYTES:
                raise CorruptBatch("snappy: the stream ends in a header")
            if not stream.startswith(_MAGIC, at):
                break
            if _VERSIONS.unpack_from(stream, at + len(_MAGIC))[0] < _VERSION_MIN:
                raise CorruptBatch("snappy: a stream of a version that there never was")
            at += _HEADER_BYTES
            continue
        (length,) = _LENGTH.unpack_from(stream, at)
        at += _LENGTH.size
        if not 0 <= length <= len(stream) - at:
            raise CorruptBatch(f"snappy: a block of {length} bytes, {len(stream) - at} are there")
        blocks.append(view[at : at + length])
        at += length
    return blocks


def _open_blocks(blocks: list[memoryview], limit: int) -> bytes:
    parts: list[cramjam.Buffer] = []
    total = 0
    try:
        for block in blocks:
            claimed = cramjam.snappy.decompress_raw_len(block)
            if claimed > len(block) * _EXPANSION_MAX:
                raise CorruptBatch(f"snappy: {len(block)} bytes cannot open to {claimed}")
            total += claimed
            if total > limit:
                raise too_much("snappy", limit)
            parts.append(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(str(error)) from None
    return bytes(parts[0]) if len(parts) == 1 else b"".join(map(bytes, parts))
