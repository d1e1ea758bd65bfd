"""LZ4 frames: byte for byte Java's. Frames that Java does not read are refused."""

from __future__ import annotations

import contextlib
import random

import lz4.block
import lz4.frame
import pytest

from fencepost.producer.wire.codecs.codec import Codec, CorruptBatch, compress, decompress

PAYLOAD = bytes.fromhex("60000000046b6b50") + b"v" * 40 + bytes.fromhex("0048000a02013c") + b"w" * 30 + b"\0"
LZ4_VECTOR = bytes.fromhex("04224d18604082 1f000000 9f60000000046b6b50760100148f0048000a02013c7701000650777777770000000000")
JAVA = {"block_size": lz4.frame.BLOCKSIZE_MAX64KB, "block_linked": False, "store_size": False}


def test_lz4_vector() -> None:
    """The reference LZ4 frame is written and read to the byte."""
    assert compress(Codec.LZ4, PAYLOAD) == LZ4_VECTOR
    assert decompress(Codec.LZ4, LZ4_VECTOR) == PAYLOAD


@pytest.mark.parametrize("level", [None, 1, 3, 9, 12, 17])
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 300_000])
def test_lz4_layout_is_javas(level: int | None, size: int) -> None:
    """At every size and level: independent blocks of at most 64 KiB, no checksums, no size, and an end mark at the very end."""
    data = random.Random(size).randbytes(size // 2) + b"x" * (size - size // 2)
    frame = compress(Codec.LZ4, data, level=level)
    assert frame[:7] == bytes.fromhex("04224d18604082")
    at, opened = 7, 0
    while block := int.from_bytes(frame[at : at + 4], "little"):
        length = block & 0x7FFFFFFF
        body = frame[at + 4 : at + 4 + length]
        if block >> 31:
            opened += len(body)
        else:
            opened += len(lz4.block.decompress(body, uncompressed_size=65536))
        assert length <= 65536
        at += 4 + length
    assert (at + 4, opened) == (len(frame), size)
    assert decompress(Codec.LZ4, frame) == data


def test_default_level_is_the_fast_compressor() -> None:
    """Level 9 is Java's name for the fast compressor. The others are the slow one, which compresses more."""
    words = random.Random(5)
    data = b" ".join(words.choice([b"alpha", b"beta", b"gamma", b"delta"]) for _ in range(9000))
    assert compress(Codec.LZ4, data) == compress(Codec.LZ4, data, level=9)
    assert len(compress(Codec.LZ4, data, level=10)) < len(compress(Codec.LZ4, data))


@pytest.mark.parametrize(
    "frame_options",
    [
        {**JAVA, "block_checksum": True},
        {**JAVA, "content_checksum": True},
        {**JAVA, "store_size": True},
        {**JAVA, "block_size": lz4.frame.BLOCKSIZE_MAX4MB},
        {**JAVA, "block_size": lz4.frame.BLOCKSIZE_MAX256KB, "block_checksum": True, "content_checksum": True, "store_size": True},
    ],
)
def test_what_java_reads_is_read(frame_options: dict[str, object]) -> None:
    """Checksums, a stored size and larger blocks are options of other writers that Kafka accepts."""
    data = PAYLOAD * 20_000
    assert decompress(Codec.LZ4, lz4.frame.compress(data, **frame_options)) == data


def test_linked_blocks_are_refused() -> None:
    """A frame whose blocks depend on each other, the default of many libraries, is refused as by Kafka."""
    frame = lz4.frame.compress(PAYLOAD * 2000, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True)
    assert not frame[4] & 0x20
    with pytest.raises(CorruptBatch, match="linked"):
        decompress(Codec.LZ4, frame)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "no frame"),
        (LZ4_VECTOR[:6], "no frame"),
        (b"\x00" + LZ4_VECTOR[1:], "no frame"),
        (LZ4_VECTOR[:4] + b"\xa0" + LZ4_VECTOR[5:], "version 2"),
        (LZ4_VECTOR[:4] + b"\x61" + LZ4_VECTOR[5:], "descriptor"),
        (LZ4_VECTOR[:5] + b"\x30" + LZ4_VECTOR[6:], "descriptor"),
        (LZ4_VECTOR[:5] + b"\xc0" + LZ4_VECTOR[6:], "descriptor"),
        (LZ4_VECTOR[:6] + b"\x83" + LZ4_VECTOR[7:], "lz4"),
        (LZ4_VECTOR[:-1], "ends early"),
        (LZ4_VECTOR[:-4], "ends early"),
        (LZ4_VECTOR[:20], "ends early"),
    ],
)
def test_damaged_frames_are_refused(frame: bytes, reason: str) -> None:
    """Each part is checked: magic, version, reserved bits, header checksum, blocks, and the end mark."""
    with pytest.raises(CorruptBatch, match=reason):
        decompress(Codec.LZ4, frame)


def test_block_checksums_are_verified() -> None:
    """If blocks have checksums, these must match."""
    frame = bytearray(lz4.frame.compress(PAYLOAD, **JAVA, block_checksum=True))
    frame[-5] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, bytes(frame))


def test_what_kafka_does_not_look_at() -> None:
    """A wrong content checksum or size, and anything after the frame, are accepted, as in Kafka. An announced checksum must be there."""
    everything = {**JAVA, "content_checksum": True, "store_size": True, "block_checksum": True}
    frame = bytearray(lz4.frame.compress(PAYLOAD, **everything))
    frame[-1] ^= 1
    assert decompress(Codec.LZ4, frame) == PAYLOAD
    with pytest.raises(CorruptBatch, match="content checksum"):
        decompress(Codec.LZ4, frame[:-1])
    for size in (0, 5, 1 << 60):
        frame[6:14] = size.to_bytes(8, "little")
        with pytest.raises(CorruptBatch, match="header checksum"):
            decompress(Codec.LZ4, frame)
        frame[14] = descriptor_checksum(bytes(frame[4:14]))
        assert decompress(Codec.LZ4, frame) == PAYLOAD
        frame[14] ^= 1
    for rest in (b"\0", b"more than four", LZ4_VECTOR):
        assert decompress(Codec.LZ4, LZ4_VECTOR + rest) == PAYLOAD


def descriptor_checksum(descriptor: bytes) -> int:
    """The byte, of all 256, that liblz4 accepts."""
    for candidate in range(256):
        with contextlib.suppress(RuntimeError):
            lz4.frame.get_frame_info(LZ4_VECTOR[:4] + descriptor + bytes([candidate]) + LZ4_VECTOR[7:])
            return candidate
    raise AssertionError(descriptor)


@pytest.mark.parametrize("options", [{"store_size": True}, {"content_checksum": True}, {"content_checksum": True, "store_size": True}])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_header_checksums_of_others_are_understood(options: dict[str, bool], block_size: int, size: int) -> None:
    """This project reads the header's checksum as the library does, for every descriptor."""
    data = bytes(size)
    assert decompress(Codec.LZ4, lz4.frame.compress(data, **{**JAVA, "block_size": block_size} | options)) == data
