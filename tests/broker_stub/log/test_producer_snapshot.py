"""Kafka's producer snapshot, against reference bytes."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.log import CorruptSnapshot
from fencepost.broker_stub.log.producer_append_info import ProducerEntry, RememberedBatch
from fencepost.broker_stub.log.producer_snapshot import read_snapshot, write_snapshot

EMPTY = bytes.fromhex("000148674bc700000000")
ONE = bytes.fromhex("0001e3e8ae60000000010000000000000fa0000200000000000000000000000800000001" + "00000000000003ed" + "00000005" + "f" * 16)
TWO = bytes.fromhex(
    "00011dc3e59a00000002"
    + ONE.hex()[20:]
    + "0000000000000fa1"
    + "0000"
    + "f" * 8
    + "f" * 16
    + "00000000"
    + "00000000000007d0"
    + "f" * 8
    + "0000000000000014"
)
NEWEST = RememberedBatch(last_sequence=0, last_offset=8, offset_delta=1, timestamp=1005)
ENTRY = ProducerEntry(epoch=2, coordinator_epoch=5, last_timestamp=1005, batches=(NEWEST,))
OPEN = ProducerEntry(epoch=0, last_timestamp=2000, txn_first_offset=20)


@pytest.mark.parametrize(
    ("data", "entries"), [(EMPTY, {}), (ONE, {4000: ENTRY}), (TWO, {4000: ENTRY, 4001: OPEN})], ids=["empty", "one", "two"]
)
def test_the_bytes_are_kafkas(data: bytes, entries: dict[int, ProducerEntry]) -> None:
    """Written and read, every vector is exactly what Kafka writes."""
    assert write_snapshot(entries).hex() == data.hex()
    assert read_snapshot(data) == entries


def test_only_the_newest_batch_is_written() -> None:
    """Four of five remembered batches do not survive a restart."""
    older = tuple(RememberedBatch(2**31 - 10 + n, n, 0, 1000) for n in range(4))
    entry = ProducerEntry(epoch=2, coordinator_epoch=5, last_timestamp=1005, batches=(*older, NEWEST))
    assert write_snapshot({4000: entry}) == ONE


def test_damage_is_noticed_wherever_it_is() -> None:
    """Any changed byte, any missing or added one: no entries are made up."""
    for at in range(len(TWO)):
        with pytest.raises(CorruptSnapshot):
            read_snapshot(TWO[:at] + bytes([TWO[at] ^ 0x10]) + TWO[at + 1 :])
        with pytest.raises(CorruptSnapshot):
            read_snapshot(TWO[:at])
    with pytest.raises(CorruptSnapshot):
        read_snapshot(TWO + b"\x00")
