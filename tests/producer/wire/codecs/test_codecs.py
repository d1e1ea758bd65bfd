"""Every codec: data survives compression, damage is refused, levels are Kafka's, and other threads continue during the work."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.producer.wire.codecs.codec import LEVELS, Codec, CorruptBatch, Levels, compress, decompress
from fencepost.producer.wire.records import check_crc, read_header, read_records
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD
from tests.drawn import drawn

PAYLOAD = bytes.fromhex("60000000046b6b50") + b"v" * 40 + bytes.fromhex("0048000a02013c") + b"w" * 30 + b"\0"
VECTORS = {
    Codec.GZIP: "1f8b08000000000000034b60606060c9ce0e282312307830703131da94e3050c00f52abb2156000000",
    Codec.SNAPPY: "82534e415050590000000001000000010000001c562060000000046b6b50769a01001c0048000a02013c777201000000",
    Codec.LZ4: "04224d186040821f0000009f60000000046b6b50760100148f0048000a02013c7701000650777777770000000000",
    Codec.ZSTD: "28b52ffd2056d500009060000000046b6b50760048000a02013c77000200e0e64a7004",
}
JAVA_BATCHES = Path(__file__).parent / "java_batches"
CODECS = [codec for codec in Codec if codec is not Codec.NONE]
EACH = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
MIB = 1 << 20


def words(size: int) -> bytes:
    """Text that compresses well, and better at a higher level."""
    dice = random.Random(size)
    vocabulary = [bytes(dice.choices(b"abcdefghij", k=dice.randint(3, 12))) for _ in range(400)]
    return b" ".join(dice.choices(vocabulary, k=size // 4))[:size]


@EACH
def test_vectors(codec: Codec) -> None:
    """Small batches are framed byte for byte as by Kafka's Java clients, and theirs are decompressed."""
    assert compress(codec, PAYLOAD) == bytes.fromhex(VECTORS[codec])
    assert decompress(codec, bytes.fromhex(VECTORS[codec])) == PAYLOAD


@EACH
def test_what_java_wrote(codec: Codec) -> None:
    """A batch of 700 records from Kafka's console producer, in several blocks if the codec has blocks, is decompressed and read."""
    batch = (JAVA_BATCHES / f"{codec.name.lower()}.bin").read_bytes()
    assert check_crc(batch)
    assert read_header(batch).codec is codec
    for index, record in enumerate(read_records(batch)):
        assert (record.key, record.value) == (b"key%d" % (index % 3), b"line %d of a text that packs well, as texts do" % (index % 7))
    assert index == 699


def test_our_lz4_and_gzip_are_javas() -> None:
    """Compressing Java's content again gives Java's bytes, except the byte with which a gzip member names its system."""
    for codec, system_at in ((Codec.LZ4, None), (Codec.GZIP, 9)):
        theirs = bytearray((JAVA_BATCHES / f"{codec.name.lower()}.bin").read_bytes()[BATCH_OVERHEAD:])
        ours = bytearray(compress(codec, decompress(codec, theirs)))
        if system_at is not None:
            ours[system_at] = theirs[system_at]
        assert ours == theirs


@given(st.sampled_from(list(Codec)), st.binary(max_size=3000), st.integers(1, 40), st.sampled_from([bytes, bytearray, memoryview]))
def test_what_goes_in_comes_out(codec: Codec, data: bytes, times: int, kind: Callable[[bytes], bytes]) -> None:
    """For any bytes, with any number of repeats, in every type of buffer."""
    assert decompress(codec, kind(compress(codec, data * times))) == data * times


@EACH
@pytest.mark.parametrize("size", [0, 1, 32767, 32768, 65536, 131_072, 131_073, 1_000_003, 3 * MIB])
def test_sizes(codec: Codec, size: int) -> None:
    """Around the block sizes of each codec and beyond. Incompressible bytes grow by less than one per cent and a header."""
    for data in (words(size), random.Random(size).randbytes(size)):
        packed = compress(codec, data)
        assert decompress(codec, packed) == data
        assert len(packed) <= size + size // 100 + 64


def test_none_is_the_data_itself() -> None:
    """Without a codec there is no framing, but the limit applies."""
    assert compress(Codec.NONE, PAYLOAD) is PAYLOAD
    assert decompress(Codec.NONE, memoryview(PAYLOAD)) == PAYLOAD
    with pytest.raises(CorruptBatch, match="more than 85 bytes"):
        decompress(Codec.NONE, PAYLOAD, limit=len(PAYLOAD) - 1)


# -- levels ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, [1, 4, 9]), (Codec.LZ4, [9, 1, 12]), (Codec.ZSTD, [-131_072, -50, 3, 12, 19])], ids=str
)
def test_levels_are_levels(codec: Codec, levels: list[int]) -> None:
    """A higher level makes text smaller. LZ4's 9, its default, is the fast compressor, and all others compress more, as in Java."""
    data = words(120_000)
    sizes = [len(compress(codec, data, level=level)) for level in levels]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    assert all(decompress(codec, compress(codec, data, level=level)) == data for level in levels)
    assert compress(codec, data) == compress(codec, data, level=LEVELS[codec].default)


@pytest.mark.parametrize("codec", LEVELS)
def test_every_level_of_kafka_and_no_other(codec: Codec) -> None:
    """The lowest and the highest level are accepted. The ones beyond them are refused."""
    levels = LEVELS[codec]
    for level in (levels.low, levels.high, levels.default):
        assert decompress(codec, compress(codec, PAYLOAD, level=level)) == PAYLOAD
    for level in (levels.low - 1, levels.high + 1):
        with pytest.raises(ValueError, match=f"level {level} of {codec.name.lower()}: its levels are {levels}"):
            compress(codec, PAYLOAD, level=level)


def test_levels_are_kafkas() -> None:
    """The numbers of KIP-390."""
    assert {codec: str(levels) for codec, levels in LEVELS.items()} == {
        Codec.GZIP: "1 to 9, or -1 for its own choice",
        Codec.LZ4: "1 to 17",
        Codec.ZSTD: "-131072 to 22",
    }
    assert LEVELS[Codec.GZIP] == Levels(1, 9, -1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_codecs_without_levels(codec: Codec) -> None:
    """They refuse a level, and the error names the codec."""
    with pytest.raises(ValueError, match=f"{codec.name.lower()} has no levels"):
        compress(codec, PAYLOAD, level=1)


# -- damage ----------------------------------------------------------------------------------------------------------------


OVER = {(Codec.ZSTD, 0), *((Codec.SNAPPY, end) for end in range(16, 20))}
"""Where a stream could be over, for Kafka too: that records are missing then tells."""


@EACH
def test_any_cut_is_noticed(codec: Codec) -> None:
    """A batch that ends early, at any byte, is refused, and no part of it is returned."""
    for data in (PAYLOAD, words(3000)):
        packed = compress(codec, data)
        for end in range(len(packed)):
            if (codec, end) in OVER:
                assert decompress(codec, packed[:end]) == b""
                continue
            with pytest.raises(CorruptBatch, match=codec.name.lower()):
                decompress(codec, packed[:end])


@EACH
def test_any_flipped_bit_is_harmless(codec: Codec) -> None:
    """Each flipped bit: refused as damaged, or decompressed to at most the limit, and by gzip to the original."""
    packed = compress(codec, PAYLOAD)
    noticed = 0
    for at in range(len(packed)):
        for bit in range(8):
            damaged = bytearray(packed)
            damaged[at] ^= 1 << bit
            try:
                opened = decompress(codec, damaged, limit=1000)
            except CorruptBatch:
                noticed += 1
            else:
                assert len(opened) <= 1000
                assert codec is not Codec.GZIP or opened == PAYLOAD
    assert noticed > 2 * len(packed)


@given(st.sampled_from(CODECS), st.data())
def test_mutated(codec: Codec, data: st.DataObject) -> None:
    """A mutated frame decompresses to at most the limit, or is refused as corrupt. There is no other exception."""
    packed = bytearray(compress(codec, data.draw(st.sampled_from([PAYLOAD, b"", words(700), PAYLOAD * 900]))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packed) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                packed[at] = data.draw(st.integers(0, 255))
            case 1:
                packed[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
            case 2:
                packed += packed[: data.draw(st.integers(0, len(packed)))]
        if not packed:
            return
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, packed, limit=MIB)) <= MIB


@given(st.sampled_from(CODECS), st.binary(max_size=300))
def test_noise(codec: Codec, noise: bytes) -> None:
    """Random bytes, alone or after the start of a frame, cause no other exception."""
    for data in (noise, bytes.fromhex(VECTORS[codec])[:7] + noise, bytes.fromhex(VECTORS[codec])[:20] + noise):
        with contextlib.suppress(CorruptBatch):
            assert len(decompress(codec, data, limit=MIB)) <= MIB


# -- bombs -----------------------------------------------------------------------------------------------------------------


@EACH
def test_the_limit_stops_a_bomb(codec: Codec) -> None:
    """A small frame with large content is refused at the limit, and takes little more memory than the limit. Up to the limit it is
    decompressed.
    """
    bomb = compress(codec, bytes(64 * MIB))
    assert len(bomb) < 4 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match=f"{codec.name.lower()}: more than 1048576 bytes"):
            decompress(codec, bomb, limit=MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(codec, bomb, limit=64 * MIB - 1)
    assert len(decompress(codec, bomb, limit=64 * MIB)) == 64 * MIB


CLAIMS = {
    "gzip, of many members": compress(Codec.GZIP, bytes(MIB)) * 1000,
    "snappy, four gigabytes in a raw block": b"\xff\xff\xff\xff\x0f" + bytes(1000),
    "snappy, a gigabyte in a block of a stream": bytes.fromhex(VECTORS[Codec.SNAPPY])[:20] + b"\x80\x80\x80\x80\x04" + bytes(100),
    "snappy, of many blocks": bytes.fromhex(VECTORS[Codec.SNAPPY])[:16] + compress(Codec.SNAPPY, bytes(MIB))[16:] * 100,
    "zstd, a content size of an exabyte": bytes.fromhex("28b52ffde000000000000000100100000000"),
    "zstd, a window of 128 MiB": bytes.fromhex("28b52ffd0088010000"),
    "zstd, of many repeated blocks": bytes.fromhex("28b52ffd0058") + bytes.fromhex("0200107a") * 100_000 + bytes.fromhex("010000"),
    "zstd, of many frames": compress(Codec.ZSTD, bytes(MIB)) * 1000,
    "lz4, of many blocks": compress(Codec.LZ4, bytes(64 * MIB)),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_cost_nothing(name: str) -> None:
    """False lengths in a frame, also repeated ones, take no more memory than the limit and the frame itself."""
    data = CLAIMS[name]
    tracemalloc.start()
    try:
        with contextlib.suppress(CorruptBatch):
            assert len(decompress(Codec[name.partition(",")[0].upper()], data, limit=10 * MIB)) <= 10 * MIB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * MIB + len(data)


TINY_MEMBER = compress(Codec.GZIP, b"")
SLOW = {
    "gzip, of nothing but members": TINY_MEMBER * 50_000,
    "gzip, of members with long names": (TINY_MEMBER[:3] + b"\x08" + TINY_MEMBER[4:10] + b"n" * 40 + b"\0" + TINY_MEMBER[10:]) * 17_000,
    "gzip, of one byte at a time": b"".join([TINY_MEMBER[:10], b"\0\1\0\xfe\xffx" * 160_000, zlib.compress(b"", 9, -15), bytes(8)]),
    "snappy, of nothing but blocks": bytes.fromhex(VECTORS[Codec.SNAPPY])[:16] + b"\0\0\0\1\0" * 200_000,
    "snappy, of nothing but headers": bytes.fromhex(VECTORS[Codec.SNAPPY])[:16] * 65_000,
    "zstd, of nothing but blocks": bytes.fromhex("28b52ffd0058") + bytes(3) * 340_000 + b"\1\0\0",
    "zstd, of nothing but frames": bytes.fromhex("28b52ffd2000010000") * 110_000,
    "zstd, of nothing but skippable frames": bytes.fromhex("502a4d1800000000") * 130_000,
    "lz4, of stored bytes": bytes.fromhex("04224d18604082") + bytes.fromhex("0100008078") * 200_000 + bytes(4),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_million_bytes_of_the_smallest_parts(name: str) -> None:
    """A megabyte of the smallest possible parts takes seconds at most."""
    data = SLOW[name]
    assert len(data) > 900_000
    began = time.thread_time()
    with contextlib.suppress(CorruptBatch):
        decompress(Codec[name.partition(",")[0].upper()], data)
    assert time.thread_time() - began < 10


# -- the GIL ---------------------------------------------------------------------------------------------------------------


@pytest.mark.alone
@drawn(2, kind=lambda row: row["opening"])
@EACH
@pytest.mark.parametrize("opening", [False, True], ids=["compress", "decompress"])
def test_other_threads_go_on(codec: Codec, opening: bool) -> None:
    """While a large batch is compressed or decompressed, another thread runs for at least a tenth of the time, in one of ten attempts.

    If the GIL were held, it would not run at all.
    """
    data = words(MIB) * 40
    packed = compress(codec, data, level=LEVELS[codec].low if codec in LEVELS and codec is not Codec.LZ4 else None)
    shares = []
    patience_s, before = 0.0, sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(10):
            span: list[float] = []

            def work(span: list[float] = span) -> None:
                span.append(time.perf_counter())
                decompress(codec, packed) if opening else compress(codec, data[: 8 * MIB])
                span.append(time.perf_counter())

            thread = threading.Thread(target=work)
            thread.start()
            seen = []
            while thread.is_alive():
                seen.append(time.perf_counter())
            thread.join()
            patience_s = (span[1] - span[0]) / 50
            steps = {int((moment - span[0]) / patience_s) for moment in seen if span[0] < moment < span[1]}
            shares.append(len(steps) / 50)
            if shares[-1] > 0.1:
                return
    finally:
        sys.setswitchinterval(before)
    pytest.fail(f"the other thread ran in only {shares} of the time")
