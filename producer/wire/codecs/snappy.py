"""Snappy in the stream of blocks that Java writes (xerial's snappy-java); one raw block, which librdkafka writes, is read too.

A stream is a header of 16 bytes and then blocks, each a length and so many bytes of raw snappy. Ours have one block whatever their size,
where Java begins another every 32 KiB: readers take any length, and each call into the library gives the GIL away and waits to have it
back. Another stream may follow; fewer than four bytes at the end are not looked at. It refuses what is damaged or ends early, a block
that claims more than its bytes can say, before anything is allocated for it, and content above a limit. Snappy has no levels.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final

import cramjam

from fencepost.producer.wire.codecs.damage import CorruptBatch, too_much

_MAGIC: Final = b"\x82SNAPPY\0"
_VERSIONS: Final = Layout(">ii")  # of the format, and the oldest that can read it
_LENGTH: Final = Layout(">i")
_HEADER_BYTES: Final = len(_MAGIC) + _VERSIONS.size
_HEADER: Final = _MAGIC + _VERSIONS.pack(1, 1)
_VERSION_MIN: Final = 1
"""Of a stream that follows another; the first one's version is not looked at."""
_EXPANSION_MAX: Final = 22
"""The most that a byte of raw snappy can stand for is a third of 64: a copy takes three bytes."""


def compress(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return b"".join((_HEADER, _LENGTH.pack(len(block)), block))


def decompress(stream: bytes, limit: int) -> bytes:
    """What all blocks hold, or the one raw block that this is."""
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
