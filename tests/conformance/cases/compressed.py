"""Compressed batches: codecs, framing, and the broker's checks of the records inside."""

import gzip
from dataclasses import replace
from typing import Any

import lz4.frame

from tests.conformance.batches import GZIP, LZ4, SNAPPY, ZSTD, Batch, Rec, plain, record_bytes, stamp
from tests.conformance.world import World, case

# Two records (key "kk" and 40 times "v"; no key and 30 times "w"; five milliseconds apart), as each codec's Java writer frames them.
PLAIN = bytes.fromhex("60000000046b6b50" + "76" * 40 + "0048000a02013c" + "77" * 30 + "00")
FRAMED = {
    GZIP: "1f8b08000000000000034b60606060c9ce0e282312307830703131da94e3050c00f52abb2156000000",
    SNAPPY: "82534e415050590000000001000000010000001c562060000000046b6b50769a01001c0048000a02013c777201000000",
    LZ4: "04224d186040821f0000009f60000000046b6b50760100148f0048000a02013c770100065077777777 0000000000".replace(" ", ""),
    ZSTD: "28b52ffd2056d500009060000000046b6b50760048000a02013c77000200e0e64a7004",
}
NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}


def framed(codec: int, blob: bytes | None = None, **changes: Any) -> Batch:
    """The two records in that codec's frame, or other bytes in their place."""
    when = stamp()
    payload = bytes.fromhex(FRAMED[codec]) if blob is None else blob
    batch = Batch(payload=payload, attributes=codec, base_timestamp=when, max_timestamp=when + 5, count=2, last_offset_delta=1)
    return replace(batch, **changes)


def lz4_frame(data: bytes, **options: bool | int) -> bytes:
    return bytes(
        lz4.frame.compress(data, **{"block_linked": False, "block_size": lz4.frame.BLOCKSIZE_MAX64KB, "store_size": False} | options)
    )


@case()
def lz4_batches(w: World) -> None:
    """The broker accepts LZ4 frames of independent blocks, and stores them unchanged."""
    topic = w.topic()
    w.produce(framed(LZ4), topic, label="as Java frames it")
    w.fetch(topic, 0)
    w.produce(framed(LZ4, lz4_frame(PLAIN)), topic, label="as Python frames it")
    w.produce(framed(LZ4, lz4_frame(PLAIN, store_size=True)), topic, label="with a content size")
    w.produce(framed(LZ4, lz4_frame(PLAIN, content_checksum=True)), topic, label="with a content checksum")
    w.produce(framed(LZ4, lz4_frame(PLAIN, block_checksum=True)), topic, label="with block checksums")
    w.produce(framed(LZ4, lz4_frame(PLAIN, block_size=lz4.frame.BLOCKSIZE_MAX4MB)), topic, label="blocks of 4 MiB")
    large = [Rec(value=bytes(range(256)) * 1000)]
    w.produce(w.compressed(LZ4, plain(*large)), topic, label="several blocks")


@case()
def lz4_linked_blocks(w: World) -> None:
    """The broker does not read frames whose blocks depend on each other, although most libraries write them."""
    topic, when = w.topic(), stamp()
    large = record_bytes([Rec(value=bytes(range(256)) * 1000)], when)
    assert lz4_frame(large, block_linked=True)[4] & 0x20 == 0, "the library made the blocks independent"
    w.produce(framed(LZ4, lz4_frame(large, block_linked=True), count=1, last_offset_delta=0), topic, label="linked")
    w.produce(framed(LZ4, lz4_frame(large), count=1, last_offset_delta=0), topic, label="independent")


@case("V9")
def lz4_damage(w: World) -> None:
    """Bytes that are not an LZ4 frame, or only a part of one."""
    topic = w.topic()
    good = bytes.fromhex(FRAMED[LZ4])
    for label, blob in {
        "empty": b"",
        "not a frame": b"abcdefgh" * 4,
        "the records, not compressed": PLAIN,
        "cut in the header": good[:6],
        "cut in the block": good[:20],
        "no end mark": good[:-4],
        "header checksum": good[:6] + b"\0" + good[7:],
        "a bit of the block": good[:12] + bytes([good[12] ^ 0x55]) + good[13:],
        "block size of a gigabyte": good[:7] + b"\0\0\0\x40" + good[11:],
        "bytes after the end": good + b"more",
        "two frames": good + good,
        "wrong content checksum": lz4_frame(PLAIN, content_checksum=True)[:-1] + b"\0",
        "wrong block checksum": _damaged_block_checksum(),
    }.items():
        w.produce(framed(LZ4, blob), topic, label=label)


@case("V9", "V6")
def compressed_counts(w: World) -> None:
    """Counts and records that disagree inside a compressed batch."""
    topic = w.topic()
    when = stamp()
    w.produce(framed(LZ4, count=1, last_offset_delta=0), topic, label="one too many")
    w.produce(framed(LZ4, count=3, last_offset_delta=2), topic, label="one missing")
    w.produce(framed(LZ4, lz4_frame(b"")), topic, label="no records inside")
    w.produce(framed(LZ4, lz4_frame(PLAIN + b"\0\0")), topic, label="bytes after the last record")
    w.produce(framed(LZ4, lz4_frame(PLAIN[:50])), topic, label="records cut")
    shifted = record_bytes([Rec(offset_delta=0), Rec(offset_delta=2)], when)
    w.produce(framed(LZ4, lz4_frame(shifted)), topic, label="offset deltas 0 and 2")
    shifted = record_bytes([Rec(offset_delta=1), Rec(offset_delta=0)], when)
    w.produce(framed(LZ4, lz4_frame(shifted)), topic, label="offset deltas 1 and 0")


@case("V10")
def null_keys_inside_a_compressed_batch(w: World) -> None:
    """The broker checks the records inside a compressed batch."""
    topic = w.topic(config={"cleanup.policy": "compact"})
    w.produce(framed(LZ4), topic, label="second has no key")
    w.produce(w.compressed(LZ4, plain(Rec(), Rec())), topic, label="both have keys")


@case("V9")
def codecs_that_do_not_exist(w: World) -> None:
    """Codec numbers 5, 6 and 7."""
    topic = w.topic()
    for codec in (5, 6, 7):
        w.produce(replace(plain(), attributes=codec), topic, label=f"codec {codec}")


@case("V2")
def zstd_needs_version_seven(w: World) -> None:
    """Produce before version 7 does not support zstd."""
    topic = w.topic()
    for version in (3, 6, 7, 12):
        w.produce(framed(ZSTD), topic, version=version, label=f"v{version}")


@case()
def other_codecs(w: World) -> None:
    """The broker accepts gzip, snappy (framed and raw) and zstd, and stores them unchanged."""
    topic = w.topic()
    for codec in (GZIP, SNAPPY, ZSTD):
        w.produce(framed(codec), topic, label=NAMES[codec])
    raw = bytes([len(PLAIN)]) + bytes([(60 << 2), len(PLAIN) - 1]) + PLAIN
    w.produce(framed(SNAPPY, raw), topic, label="snappy raw")
    w.produce(framed(GZIP, gzip.compress(PLAIN)), topic, label="gzip by Python")
    w.fetch(topic, 0)


@case("V9")
def damage_in_other_codecs(w: World) -> None:
    """Bytes that cannot be decompressed."""
    topic = w.topic()
    for codec in (GZIP, SNAPPY, ZSTD):
        good = bytes.fromhex(FRAMED[codec])
        w.produce(framed(codec, b"abcdefgh" * 4), topic, label=f"{NAMES[codec]} not a frame")
        w.produce(framed(codec, good[: len(good) // 2]), topic, label=f"{NAMES[codec]} cut")
        w.produce(framed(codec, b""), topic, label=f"{NAMES[codec]} empty")


@case()
def recompression(w: World) -> None:
    """The topic's compression.type decides in which codec a batch is stored."""
    for kind in ("producer", "uncompressed", "lz4", "gzip", "snappy", "zstd"):
        topic = w.topic(config={"compression.type": kind})
        w.produce(plain(Rec(), Rec(value=None)), topic, label=f"{kind} plain")
        for codec in (LZ4, GZIP, SNAPPY, ZSTD):
            w.produce(framed(codec), topic, label=f"{kind} {NAMES[codec]}")
        pid = w.pid()
        w.produce(replace(w.compressed(LZ4, plain(Rec())), pid=pid, epoch=1, sequence=4), topic, label=f"{kind} with a producer")
        w.produce(replace(w.compressed(LZ4, plain(Rec())), pid=pid, epoch=1, sequence=4), topic, label=f"{kind} duplicate")
        w.fetch(topic, 0, label=f"{kind} stored")


@case("V9", "V11")
def recompression_looks_closer(w: World) -> None:
    """The broker reads a batch completely to compress it again, and its records get the topic's timestamp type."""
    topic = w.topic(config={"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"})
    w.produce(framed(GZIP), topic, label="append time")
    w.produce(framed(ZSTD), topic, label="append time, same codec")
    w.produce(plain(Rec(), Rec()), topic, label="append time, from plain")
    w.fetch(topic, 0, label="append time stored")
    for kind in ("gzip", "zstd"):
        topic = w.topic(config={"compression.type": kind})
        when = stamp()
        for label, records in {
            "offset deltas 0 and 2": [Rec(), Rec(offset_delta=2)],
            "offset deltas 1 and 0": [Rec(offset_delta=1), Rec(offset_delta=0)],
            "a length that is not that of the fields": [Rec(length=9), Rec()],
            "times that fall": [Rec(timestamp=when + 5), Rec(timestamp=when)],
            "a header": [Rec(headers=[(b"h\xff", None)]), Rec()],
        }.items():
            w.produce(framed(GZIP, gzip.compress(record_bytes(records, when))), topic, label=f"{kind}: {label}")
        w.fetch(topic, 0, label=f"{kind} stored")


@case("V13")
def recompression_that_grows(w: World) -> None:
    """The broker refuses a batch that is too large after decompression, or in another codec."""
    large = plain(Rec(value=b"v" * 20_000))
    for kind in ("uncompressed", "snappy", "gzip", "producer"):
        topic = w.topic(config={"compression.type": kind, "max.message.bytes": "600"})
        w.produce(framed(ZSTD, count=2), topic, label=f"{kind} small")
        w.produce(w.compressed(LZ4, large), topic, label=f"{kind} large")


@case()
def levels(w: World) -> None:
    """A topic may have any level of a codec."""
    topics = {
        "gzip": ("1", "9", "-1"),
        "lz4": ("1", "17"),
        "zstd": ("-131072", "0", "22"),
    }
    for kind, numbers in topics.items():
        for number in numbers:
            topic = w.topic(config={"compression.type": kind, f"compression.{kind}.level": number})
            w.produce(framed(SNAPPY), topic, label=f"{kind} {number}")
            w.fetch(topic, 0, label=f"{kind} {number} stored")


@case()
def zstd_needs_fetch_ten(w: World) -> None:
    """A topic with compression.type zstd refuses older readers. The producers' own codec is not checked."""
    for kind in ("producer", "zstd", "gzip"):
        topic = w.topic(config={"compression.type": kind})
        for version in (4, 9, 10, 12):
            w.fetch(topic, 0, version=version, label=f"{kind} empty, v{version}")
        w.produce(framed(ZSTD), topic, label=kind)
        for version in (4, 9, 10, 12):
            w.fetch(topic, 0, version=version, label=f"{kind}, v{version}")
        w.fetch(topic, 0, version=9, max_wait_ms=300, min_bytes=10_000, timed=True, label=f"{kind}, v9 waiting")
        w.fetch(topic, 99, version=9, label=f"{kind}, v9 out of range")


def _damaged_block_checksum() -> bytes:
    frame = bytearray(lz4_frame(PLAIN, block_checksum=True))
    frame[-5] ^= 1  # The checksum ends four bytes before the end: those are the end mark.
    return bytes(frame)
