"""The LZ4 frame format, written and read as Kafka's Java clients do: independent blocks of 64 KiB, no checksums and no content size.

It refuses linked blocks, which many LZ4 libraries write by default and Kafka does not read; frames that are damaged or end early; and
content above a limit. Like Kafka, it ignores a content checksum, a content size, and bytes after the frame.
"""

from __future__ import annotations

from typing import Final

import lz4.frame

from fencepost.producer.wire.codecs.damage import CorruptBatch, too_much

_LEVEL_FAST: Final = 9
"""The default level. As in Java, it means the fast compressor; all other levels are slower."""

_MAGIC: Final = b"\x04\x22\x4d\x18"
_CONTENT_SIZE: Final = 0x08
_CONTENT_CHECKSUM: Final = 0x04
_CONTENT_FIELDS: Final = _CONTENT_SIZE | _CONTENT_CHECKSUM
_STEP_BYTES: Final = 1 << 20


def compress(data: bytes, level: int) -> bytes:
    """One frame, byte for byte like Java's."""
    packed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level == _LEVEL_FAST else max(level, lz4.frame.COMPRESSIONLEVEL_MINHC),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def decompress(frame: bytes, limit: int) -> bytes:
    """The content of the frame."""
    flags = _check_descriptor(frame)
    opener = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    total = 0
    fed = _without_content_fields(frame, flags) if flags & _CONTENT_FIELDS else frame
    while not opener.eof:
        # Decompress in steps, so that a small frame that claims a large size allocates no more than its content.
        try:
            part: bytes = opener.decompress(fed, max_length=_STEP_BYTES)
        except RuntimeError as error:
            raise CorruptBatch(f"lz4: {error}") from None
        fed = b""
        parts.append(part)
        total += len(part)
        if total > limit:
            raise too_much("lz4", limit)
        if not part and opener.needs_input and not opener.eof:
            raise CorruptBatch("lz4: the frame ends early")
    if flags & _CONTENT_CHECKSUM and len(opener.unused_data or b"") < 4:
        raise CorruptBatch("lz4: the frame ends before its content checksum")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_descriptor(frame: bytes) -> int:
    """Check the frame's flags. It refuses what `Lz4BlockInputStream` refuses, although liblz4 could read it."""
    if len(frame) < 7 or frame[:4] != _MAGIC:
        raise CorruptBatch("lz4: no frame")
    flags, block = frame[4], frame[5]
    if flags >> 6 != 1:
        raise CorruptBatch(f"lz4: frame version {flags >> 6}")
    if not flags & 0x20:
        raise CorruptBatch("lz4: linked blocks, which Kafka does not read")
    if flags & 0x03 or block & 0x8F or not 4 <= block >> 4 <= 7:
        raise CorruptBatch(f"lz4: descriptor {flags:02x} {block:02x}")
    return flags


def _without_content_fields(frame: bytes, flags: int) -> bytes:
    """The same frame with a header without content checksum and content size. liblz4 verifies both, Kafka neither."""
    end = 14 if flags & _CONTENT_SIZE else 6
    if len(frame) <= end or frame[end] != _descriptor_checksum(frame[4:end]):
        raise CorruptBatch("lz4: header checksum")
    descriptor = bytes((flags & ~_CONTENT_FIELDS, frame[5]))
    return b"".join((_MAGIC, descriptor, bytes((_descriptor_checksum(descriptor),)), memoryview(frame)[end + 1 :]))


def _descriptor_checksum(descriptor: bytes) -> int:
    """The second byte of the descriptor's xxHash32, for at most ten bytes."""
    value = 0x165667B1 + len(descriptor)
    whole = len(descriptor) & ~3
    for at in range(0, whole, 4):
        value += int.from_bytes(descriptor[at : at + 4], "little") * 0xC2B2AE3D
        value = _rotated(value, 17) * 0x27D4EB2F
    for byte in descriptor[whole:]:
        value += byte * 0x165667B1
        value = _rotated(value, 11) * 0x9E3779B1
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF
