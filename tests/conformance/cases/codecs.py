"""What Kafka's readers of gzip, snappy and zstd accept, and where they stop reading: frames built by hand, whole, unusual and damaged."""

import gzip
import struct
import zlib
from collections.abc import Mapping

from tests.conformance.batches import GZIP, SNAPPY, ZSTD, Rec, record_bytes, stamp
from tests.conformance.cases.compressed import FRAMED, PLAIN, framed
from tests.conformance.world import World, case

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
SKIPPABLE = bytes.fromhex("502a4d18") + struct.pack("<I", 4) + b"skip"
XERIAL = bytes.fromhex("82534e4150505900") + struct.pack(">ii", 1, 1)
HALF = len(PLAIN) // 2
CHECKSUMMED = bytes.fromhex("28b52ffd2456d500009060000000046b6b50760048000a02013c77000200e0e64a700447c11c0d")


@case("V9")
def gzip_members(w: World) -> None:
    """Headers of every kind, several members, and what may follow the last one."""
    header = bytes.fromhex("1f8b080000000000 0003")
    body = gzip.compress(PLAIN)[10:]
    checked = bytes.fromhex("1f8b080200000000 0003")
    _ask_all(
        w,
        GZIP,
        {
            "a name": bytes.fromhex("1f8b0808000000000003") + b"name\0" + body,
            "name, comment and extra": bytes.fromhex("1f8b081c000000000003") + b"\2\0ex" + b"name\0" + b"comment\0" + body,
            "header checksum": checked + struct.pack("<H", zlib.crc32(checked) & 0xFFFF) + body,
            "wrong header checksum": checked + b"\0\0" + body,
            "reserved flags": bytes.fromhex("1f8b08e0000000000003") + body,
            "another method": bytes.fromhex("1f8b0900000000000003") + body,
            "two members": gzip.compress(PLAIN[:HALF]) + gzip.compress(PLAIN[HALF:]),
            "a second member that is empty": gzip.compress(PLAIN) + gzip.compress(b""),
            "a second member too much": gzip.compress(PLAIN) * 2,
            "a second member with a wrong checksum": gzip.compress(PLAIN[:HALF]) + _with_byte(gzip.compress(PLAIN[HALF:]), -8),
            "a second member cut": gzip.compress(PLAIN[:HALF]) + gzip.compress(PLAIN[HALF:])[:-9],
            "a second member cut in the header": gzip.compress(PLAIN) + header[:9],
            "a few bytes after the end": gzip.compress(PLAIN) + b"more",
            "18 bytes after the end": gzip.compress(PLAIN) + b"m" * 18,
            "many bytes after the end": gzip.compress(PLAIN) + b"more" * 20,
            "zeros after the end": gzip.compress(PLAIN) + bytes(100),
            "a small member after the end": gzip.compress(PLAIN) + gzip.compress(b"")[:18],
        },
    )


@case("V9")
def gzip_damage(w: World) -> None:
    """A member cut at each part, and each part changed."""
    good = bytes.fromhex(FRAMED[GZIP])
    _ask_all(
        w,
        GZIP,
        {
            "one byte": good[:1],
            "cut in the header": good[:6],
            "the header alone": good[:10],
            "cut in the body": good[:20],
            "no trailer": good[:-8],
            "trailer cut": good[:-4],
            "one byte short": good[:-1],
            "wrong checksum": _with_byte(good, -8),
            "wrong size": _with_byte(good, -4),
            "a bit of the body": _with_byte(good, 14),
            "zlib's own format": zlib.compress(PLAIN),
            "no records inside": gzip.compress(b""),
        },
    )


@case("V9")
def snappy_streams(w: World) -> None:
    """The stream of blocks that Java writes, and the one raw block that librdkafka writes."""
    block = _literals(PLAIN)
    chunk = struct.pack(">i", len(block)) + block
    two = b"".join(struct.pack(">i", len(each)) + each for each in (_literals(PLAIN[:HALF]), _literals(PLAIN[HALF:])))
    large = b"\0" + bytes(range(256)) * 400
    _ask_all(
        w,
        SNAPPY,
        {
            "one block": XERIAL + chunk,
            "two blocks": XERIAL + two,
            "an empty block between": XERIAL + _chunks(PLAIN[:HALF], b"", PLAIN[HALF:]),
            "two streams": XERIAL + _chunks(PLAIN[:HALF]) + XERIAL + _chunks(PLAIN[HALF:]),
            "a second stream cut in the header": XERIAL + chunk + XERIAL[:12],
            "a second stream with another magic": XERIAL + chunk + XERIAL[:4] + b"????" + XERIAL[8:],
            "a second stream of version 0": XERIAL + chunk + XERIAL[:8] + bytes(8),
            "version 0": XERIAL[:8] + struct.pack(">ii", 0, 1) + chunk,
            "version 0, compatible with 0": XERIAL[:8] + struct.pack(">ii", 0, 0) + chunk,
            "version 1, compatible with 0": XERIAL[:8] + struct.pack(">ii", 1, 0) + chunk,
            "version 7, compatible with 9": XERIAL[:8] + struct.pack(">ii", 7, 9) + chunk,
            "the header alone": XERIAL,
            "cut in the header": XERIAL[:12],
            "three bytes after the end": XERIAL + chunk + b"abc",
            "five bytes after the end": XERIAL + chunk + b"\0\0\0\x09a",
            "four zeros after the end": XERIAL + chunk + bytes(4),
            "raw": block,
            "raw, and bytes after it": block + b"more",
        },
    )
    one = {"count": 1, "last_offset_delta": 0}
    w.produce(framed(SNAPPY, XERIAL + _chunks(record_bytes([Rec(value=large)], stamp())), **one), w.topic(), label="a block of 100 KiB")
    alike = _literals(record_bytes([Rec(value=b"v" * 120)], stamp()))
    assert alike[0] == XERIAL[0]
    w.produce(framed(SNAPPY, alike, **one), w.topic(), label="raw, and its first byte is the magic's")


@case("V9")
def snappy_damage(w: World) -> None:
    """Lengths that do not fit, blocks that are cut, and copies from before the beginning."""
    block = _literals(PLAIN)
    _ask_all(
        w,
        SNAPPY,
        {
            "block cut": XERIAL + struct.pack(">i", len(block)) + block[:-1],
            "a block length of -1": XERIAL + struct.pack(">i", -1) + block,
            "a block length of a gigabyte": XERIAL + struct.pack(">i", 1 << 30) + block,
            "a block longer than its content": XERIAL + struct.pack(">i", len(block) + 1) + block + b"\0",
            "a block of no bytes": XERIAL + struct.pack(">i", 0),
            "claims a byte more": _with_byte(block, 0, 1),
            "claims a byte less": _with_byte(block, 0, -1),
            "claims a gigabyte": b"\x80\x80\x80\x80\x04" + block[1:],
            "claims four gigabytes": b"\xff\xff\xff\xff\x0f" + block[1:],
            "a length without end": b"\xff" * 6 + block,
            "a copy from before the beginning": bytes([4, 0b0000_0001, 9]),
            "a copy of nothing before": bytes([4, 0b0000_0001, 0]),
            "one byte": b"\x56",
            "no records inside, raw": b"\0",
            "no records inside": XERIAL + struct.pack(">i", 1) + b"\0",
            "another magic": b"\x82SNAPPX\0" + XERIAL[8:] + struct.pack(">i", len(block)) + block,
        },
    )


@case("V9")
def zstd_frames(w: World) -> None:
    """Frames of every kind, one after the other, and what may follow the last one."""
    good, checksummed = bytes.fromhex(FRAMED[ZSTD]), CHECKSUMMED
    sizeless = bytes.fromhex("28b52ffd0000d500009060000000046b6b50760048000a02013c77000200e0e64a7004")
    windows = {f"a window of {1 << exponent} bytes": _zstd(_stored(PLAIN), window=exponent) for exponent in (10, 20, 27, 28, 31, 41)}
    _ask_all(
        w,
        ZSTD,
        {
            "with a checksum": checksummed,
            "with a wrong checksum": _with_byte(checksummed, -1),
            "checksum cut": checksummed[:-1],
            "no content size": sizeless,
            "one stored block": _zstd(_stored(PLAIN), size=len(PLAIN)),
            "two stored blocks": _zstd(_stored(PLAIN[:HALF], last=False) + _stored(PLAIN[HALF:]), size=len(PLAIN)),
            "empty blocks": _zstd(_stored(b"", last=False) * 9 + _stored(PLAIN, last=False) + _stored(b""), size=len(PLAIN)),
            "two frames": _zstd(_stored(PLAIN[:HALF]), size=HALF) + _zstd(_stored(PLAIN[HALF:]), size=len(PLAIN) - HALF),
            "an empty frame before": bytes.fromhex("28b52ffd2000010000") + good,
            "an empty frame after": good + bytes.fromhex("28b52ffd2000010000"),
            "skippable before": SKIPPABLE + good,
            "skippable after": good + SKIPPABLE,
            "skippable cut": good + SKIPPABLE[:-1],
            "skippable alone": SKIPPABLE,
            "skippable of four gigabytes": SKIPPABLE[:4] + b"\xff" * 4,
            "no records inside": bytes.fromhex("28b52ffd2000010000"),
            "dictionary 0": _zstd(_stored(PLAIN), size=len(PLAIN), dictionary=0),
            **windows,
        },
    )


@case("V9")
def zstd_damage(w: World) -> None:
    """Frames cut and changed in each part, and bytes after them."""
    good, checksummed = bytes.fromhex(FRAMED[ZSTD]), CHECKSUMMED
    _ask_all(
        w,
        ZSTD,
        {
            "one byte": good[:1],
            "the magic alone": good[:4],
            "cut in the header": good[:5],
            "the header alone": good[:6],
            "cut in a block's header": good[:8],
            "cut in the block": good[:20],
            "one byte short": good[:-1],
            "without the last block": _zstd(_stored(PLAIN, last=False), size=len(PLAIN)),
            "content size too large": _zstd(_stored(PLAIN), size=len(PLAIN) + 1),
            "content size too small": _zstd(_stored(PLAIN), size=len(PLAIN) - 1),
            "content size of a gigabyte": ZSTD_MAGIC + b"\xa0" + struct.pack("<I", 1 << 30) + _stored(PLAIN),
            "a dictionary": _zstd(_stored(PLAIN), size=len(PLAIN), dictionary=7),
            "a reserved bit": ZSTD_MAGIC + bytes([0x28, len(PLAIN)]) + _stored(PLAIN),
            "the unused bit": ZSTD_MAGIC + bytes([0x30, len(PLAIN)]) + _stored(PLAIN),
            "a block of a reserved kind": _zstd(struct.pack("<I", 5 << 3 | 3 << 1 | 1)[:3] + b"12345", size=len(PLAIN)),
            "a repeated byte, not records": _zstd(struct.pack("<I", len(PLAIN) << 3 | 1 << 1 | 1)[:3] + b"1", size=len(PLAIN)),
            "a block larger than its window": _zstd(struct.pack("<I", 5000 << 3 | 1 << 1 | 1)[:3] + b"1", window=10),
            "a bit of the block": _with_byte(good, 12),
            "another bit of the block": _with_byte(good, -2),
            "a byte after the end": good + b"m",
            "a zero after the end": good + b"\0",
            "four bytes after the end": good + b"more",
            "five bytes after the end": good + b"more!",
            "many bytes after the end": good + b"more" * 20,
            "a magic after the end": good + ZSTD_MAGIC,
            "a frame cut after the end": good + good[:20],
            "a frame cut after its first block": good + _zstd(_stored(PLAIN, last=False), size=2 * HALF)[:-1],
            "a frame cut after two blocks": good + _zstd(_stored(PLAIN, last=False) * 2, size=4 * HALF),
            "a frame's checksum cut after the end": good + checksummed[:-2],
        },
    )


def _ask_all(w: World, codec: int, blobs: Mapping[str, bytes]) -> None:
    topic = w.topic()
    for label, blob in blobs.items():
        w.produce(framed(codec, blob), topic, label=label)


def _with_byte(blob: bytes, at: int, add: int = 0x55) -> bytes:
    """The bytes with one of them changed."""
    changed = bytearray(blob)
    changed[at] = changed[at] + add & 0xFF
    return bytes(changed)


def _literals(data: bytes) -> bytes:
    """One raw snappy block that copies nothing."""
    size = len(data)
    length = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7]) if size < 0x4000 else _long_length(size)
    if not data:
        return length
    return length + bytes([62 << 2]) + struct.pack("<I", size - 1)[:3] + data


def _long_length(size: int) -> bytes:
    return bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])


def _chunks(*parts: bytes) -> bytes:
    """The parts as blocks of a stream."""
    return b"".join(struct.pack(">i", len(block)) + block for block in map(_literals, parts))


def _stored(data: bytes, *, last: bool = True) -> bytes:
    """An uncompressed zstd block."""
    return struct.pack("<I", len(data) << 3 | last)[:3] + data


def _zstd(blocks: bytes, *, size: int | None = None, window: int | None = None, dictionary: int | None = None) -> bytes:
    """A zstd frame: of a single segment of that size, or with a window of 1 << `window` bytes and no size."""
    flags = (0x20 if size is not None else 0) | (0x01 if dictionary is not None else 0)
    head = b"" if window is None else bytes([window - 10 << 3])
    head += b"" if dictionary is None else bytes([dictionary])
    head += b"" if size is None else bytes([size])
    return ZSTD_MAGIC + bytes([flags]) + head + blocks
