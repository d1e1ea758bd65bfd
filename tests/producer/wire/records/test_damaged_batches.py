"""Damaged batches are refused as corrupt, quickly and without a large allocation. They are never misread, and raise no other exception."""

from __future__ import annotations

import random
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.producer.wire.records import (
    Codec,
    ControlType,
    CorruptBatch,
    check_crc,
    encode_batch,
    encode_marker,
    iter_batches,
    read_header,
    read_marker,
    read_records,
)
from fencepost.producer.wire.records.batch_header import compute_crc
from tests.drawn import drawn
from tests.producer.wire.records.changed_batches import compacted

ENTRIES: list[Any] = [
    (1_700_000_000_000, b"key", b"value" * 4, [("trace", b"0123456789"), ("nothing", None)]),
    (1_700_000_000_900, None, b"w" * 70, []),
    (1_699_999_999_000, b"", None, [("é", b"")]),
]
SEEDS = {
    "plain": encode_batch(ENTRIES, base_offset=5, leader_epoch=2, producer_id=9, producer_epoch=1, base_sequence=2**31 - 2),
    **{
        codec.name.lower(): encode_batch(ENTRIES * 3, codec=codec, producer_id=9, producer_epoch=1, base_sequence=0, transactional=True)
        for codec in Codec
        if codec is not Codec.NONE
    },
    "marker": encode_marker(ControlType.ABORT, producer_id=9, producer_epoch=1, coordinator_epoch=3, timestamp=7),
    "empty": compacted(encode_batch([]), last_offset_delta=3),
}
UNCHECKED = {*range(8), *range(12, 16)}
"""Base offset and leader epoch, which a broker changes without touching the checksum."""


def reseal(batch: bytearray) -> bytes:
    """Give a damaged batch a matching length and checksum, so that the reader looks inside."""
    if len(batch) >= 61:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[16] = 2
        batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    return bytes(batch)


def read_everything(data: bytes) -> None:
    """Call every function that reads a batch from outside. Only the announced exception may be raised."""
    for read in (read_records, read_marker, read_header, check_crc, lambda data: list(iter_batches(data))):
        try:
            read(data)
        except CorruptBatch:
            continue


@pytest.mark.parametrize("name", SEEDS)
def test_any_changed_byte_is_noticed(name: str) -> None:
    """Each byte of a batch changed to each other value is refused, except bytes outside the checksum."""
    batch = SEEDS[name]
    good = read_records(batch)
    for at in range(len(batch)):
        values = range(256) if at < 61 else (batch[at] ^ (1 << bit) for bit in range(8))
        for value in values:
            if value == batch[at]:
                continue
            damaged = batch[:at] + bytes([value]) + batch[at + 1 :]
            if at in UNCHECKED:
                assert len(read_records(damaged)) == len(good)
                continue
            with pytest.raises(CorruptBatch):
                read_records(damaged)


@pytest.mark.parametrize("name", SEEDS)
def test_any_cut_is_noticed(name: str) -> None:
    """A batch cut short at any byte, or with bytes after it, is refused."""
    batch = SEEDS[name]
    for end in range(len(batch)):
        with pytest.raises(CorruptBatch):
            read_records(batch[:end])
    with pytest.raises(CorruptBatch):
        read_records(batch + b"\0")


@drawn(4)
@pytest.mark.parametrize("name", SEEDS)
def test_every_byte_under_a_valid_checksum(name: str) -> None:
    """Each byte changed to each value, with a matching checksum: the batch is read, or refused as announced."""
    batch = SEEDS[name]
    for at in range(21, len(batch)):
        for value in range(256):
            damaged = bytearray(batch)
            damaged[at] = value
            read_everything(reseal(damaged))


@given(st.sampled_from(sorted(SEEDS)), st.data())
def test_heavier_damage_under_a_valid_checksum(name: str, data: st.DataObject) -> None:
    """Several changes, cuts, insertions and copies at once, with a checksum made to match."""
    batch = bytearray(SEEDS[name])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(21, len(batch)))
        match data.draw(st.integers(0, 3)):
            case 0:
                batch[at:at] = data.draw(st.binary(max_size=12))
            case 1:
                batch[at : at + data.draw(st.integers(0, 12))] = b""
            case 2:
                batch[at : at + 1] = b"\xff" * data.draw(st.integers(1, 12))
            case 3:
                batch[at:at] = batch[data.draw(st.integers(21, len(batch))) :][:40]
    read_everything(bytes(batch))
    read_everything(reseal(batch))


@given(st.binary(max_size=200))
def test_noise(data: bytes) -> None:
    """Random bytes are refused like any other damage."""
    read_everything(data)
    read_everything(reseal(bytearray(SEEDS["plain"][:61]) + data))


@pytest.mark.parametrize("codec", Codec)
def test_claims_cost_nothing(codec: Codec) -> None:
    """Counts and lengths of billions in a small batch are refused at once, without the claimed memory."""
    batch = encode_batch(ENTRIES, codec=codec)
    claims = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"]
    started = time.perf_counter()
    tracemalloc.start()
    try:
        for at in (57, 23, 8, *range(61, len(batch) - 5)):
            for claim in claims:
                damaged = bytearray(batch)
                damaged[at : at + len(claim)] = claim
                read_everything(bytes(damaged))
                read_everything(reseal(damaged))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize("codec", Codec)
def test_limit_on_opened_records(codec: Codec) -> None:
    """A batch that decompresses to more than the limit is refused, for every length in its header."""
    bomb = encode_batch([(0, None, bytes(50 << 20))], codec=codec)
    assert codec is Codec.NONE or len(bomb) < 3 << 20
    with pytest.raises(CorruptBatch, match="more than"):
        read_records(bomb, limit=10 << 20)
    assert len(read_records(bomb)) == 1


def test_damage_in_large_batches() -> None:
    """In batches of hundreds of records a changed byte under a valid checksum has the same two results, quickly."""
    dice = random.Random(20)
    entries: list[Any] = [(index, dice.randbytes(index % 80), dice.randbytes(index * 7 % 900), None) for index in range(300)]
    for codec in Codec:
        batch = encode_batch(entries, codec=codec)
        for _ in range(300):
            damaged = bytearray(batch)
            for _ in range(dice.randint(1, 3)):
                damaged[dice.randrange(57, len(damaged))] = dice.randrange(256)
            read_everything(reseal(damaged))
