"""Snappy in the stream of blocks that Java writes (xerial's snappy-java). It also reads one raw block, which librdkafka writes.

A stream is a header of 16 bytes, and then blocks: a length, and so many bytes of raw snappy. This writer makes one block of any size; Java
makes a block every 32 KiB. Readers accept any length, and each call of the library releases the GIL and waits for it again. Another stream
may follow. Fewer than four bytes at the end are ignored.

It refuses damaged or truncated data, and content above a limit. It refuses a block that claims more than its bytes can hold before it
allocates anything for it. Snappy has no levels.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final

import cramjam

from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codecs.damage import CorruptBatch, too_much

_MAGIC: Final = b"\x82SNAPPY\0"
_VERSIONS: Final = Layout(">ii")  # version of the format, and the oldest compatible version
_LENGTH: Final = Layout(">i")
_HEADER_BYTES: Final = len(_MAGIC) + _VERSIONS.size
_HEADER: Final = _MAGIC + _VERSIONS.pack(1, 1)
_VERSION_MIN: Final = 1
"""The lowest version of a stream that follows another stream. The first stream's version is ignored, as in Java."""
_EXPANSION_MAX: Final = 22
"""One byte of raw snappy decompresses to at most 22 bytes: a copy element of three bytes yields at most 64."""


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
            if (version := _VERSIONS.unpack_from(stream, at + len(_MAGIC))[0]) < _VERSION_MIN:
                raise CorruptBatch(f"snappy: stream version {version}, the lowest is {_VERSION_MIN}")
            at += _HEADER_BYTES
            continue
        (length,) = _LENGTH.unpack_from(stream, at)
        at += _LENGTH.size
        if not 0 <= length <= len(stream) - at:
            raise CorruptBatch(f"snappy: a block of {counted(length, 'byte')}, {len(stream) - at} are there")
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
                raise CorruptBatch(f"snappy: {counted(len(block), 'byte')} cannot decompress to {claimed}")
            total += claimed
            if total > limit:
                raise too_much("snappy", limit)
            parts.append(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(str(error)) from None
    return bytes(parts[0]) if len(parts) == 1 else b"".join(map(bytes, parts))
