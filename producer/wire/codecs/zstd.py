"""Zstandard frames (RFC 8878), read as zstd-jni's stream reads them for Kafka.

Consecutive frames are one stream, skippable ones included. It refuses damaged or truncated data, wrong checksums, dictionaries, windows
above 128 MiB, and content above a limit. It counts a stream's blocks before it decompresses them, so it allocates no more than they can
hold. Like Kafka, it ignores one kind of truncation: a last frame that ends before its first content, after a complete frame.
"""

from __future__ import annotations

from typing import Final

import cramjam

from fencepost.producer.wire.codecs.damage import CorruptBatch, too_much

_MAGIC: Final = bytes.fromhex("28b52ffd")
_SKIPPABLE: Final = bytes.fromhex("2a4d18")  # after a byte from 50 to 5f
_LENGTH_BYTES: Final = 4
_BLOCK_HEADER_BYTES: Final = 3
_BLOCK_BYTES_MAX: Final = 128 << 10
_STORED, _REPEATED = 0, 1
_SINGLE_SEGMENT: Final = 0x20
_CHECKSUM: Final = 0x04
_ID_BYTES: Final = (0, 1, 2, 4)
_SIZE_BYTES: Final = (0, 2, 4, 8)
_SIZE_BASE: Final = (0, 256, 0, 0)


def compress(data: bytes, level: int) -> bytes:
    """One frame with its content size."""
    return bytes(cramjam.zstd.compress(data, level=level))


def decompress(stream: bytes, limit: int) -> bytes:
    """The content of all frames."""
    end, most = _measure(stream)
    if end == 0:
        return b""
    opened = bytearray(min(most, limit))
    try:
        size = cramjam.zstd.decompress_into(memoryview(stream)[:end], opened)
    except cramjam.DecompressionError as error:
        if most > limit and "whole buffer" in str(error):
            raise too_much("zstd", limit) from None
        raise CorruptBatch(f"zstd: {error}") from None
    return bytes(memoryview(opened)[:size])


class _Cut(Exception):
    """The stream ends inside a frame. `opens`: whether a streaming reader would return some of that frame's content."""

    def __init__(self, *, opens: bool) -> None:
        super().__init__()
        self.opens = opens


def _measure(stream: bytes) -> tuple[int, int]:
    """The end of the last frame, and the largest content that all frames can have."""
    at = most = 0
    while at < len(stream):
        try:
            end, holds = _measure_frame(stream, at)
        except _Cut as cut:
            if at == 0 or cut.opens:
                raise CorruptBatch("zstd: the frame ends early") from None
            break
        at = end
        most += holds
    return at, most


def _measure_frame(stream: bytes, at: int) -> tuple[int, int]:
    """The same for one frame."""
    magic = stream[at : at + len(_MAGIC)]
    if magic[0] >> 4 == 5 and _SKIPPABLE.startswith(magic[1:]):
        at += len(_MAGIC) + _LENGTH_BYTES
        end = at + int.from_bytes(stream[at - _LENGTH_BYTES : at], "little")
        if at > len(stream) or end > len(stream):
            raise _Cut(opens=False)
        return end, 0
    if not _MAGIC.startswith(magic):
        raise CorruptBatch("zstd: no frame")
    at += len(_MAGIC) + 1
    if at > len(stream):
        raise _Cut(opens=False)
    flags = stream[at - 1]
    single = bool(flags & _SINGLE_SEGMENT)
    at += _ID_BYTES[flags & 3] + (not single)
    size_bytes = _SIZE_BYTES[flags >> 6] or int(single)
    at += size_bytes
    size = int.from_bytes(stream[at - size_bytes : at], "little") + _SIZE_BASE[flags >> 6]
    at, most = _measure_blocks(stream, at)
    at += _LENGTH_BYTES if flags & _CHECKSUM else 0
    if at > len(stream):
        raise _Cut(opens=True)
    return at, min(most, size) if size_bytes else most


def _measure_blocks(stream: bytes, at: int) -> tuple[int, int]:
    """The same for the blocks of one frame; the first one is at `at`."""
    most = 0
    last = False
    while not last:
        at += _BLOCK_HEADER_BYTES
        if at > len(stream):
            raise _Cut(opens=most > 0)
        head = int.from_bytes(stream[at - _BLOCK_HEADER_BYTES : at], "little")
        last, kind, length = bool(head & 1), head >> 1 & 3, head >> 3
        begins = at
        at += 1 if kind == _REPEATED else length
        if at > len(stream):
            raise _Cut(opens=most > 0 or (kind == _STORED and begins < len(stream)))
        most += min(length, _BLOCK_BYTES_MAX) if kind in (_STORED, _REPEATED) else _BLOCK_BYTES_MAX
    return at, most
