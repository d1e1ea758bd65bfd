"""What counts of a ledger's log: against a model that knows how each transaction ended, whatever compaction took away."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.wire.markers import ControlType, encode_marker
from producer.wire.record_batch import Record, encode_batch
from txn.ledger_errors import LedgerDamaged
from txn.ledger_scan import Scan

KEYS = (b"a", b"b", b"c")


class Entry(NamedTuple):
    """A step of a log's history: a record of a producer (-1: outside of transactions), or the end of its transaction."""

    producer_id: int
    key: bytes | None = None
    end: ControlType | None = None


writes = st.builds(Entry, st.sampled_from([-1, 1, 2, 3]), key=st.sampled_from(KEYS), end=st.none())
ends = st.builds(Entry, st.sampled_from([1, 2, 3]), key=st.none(), end=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]))
histories = st.lists(writes | ends, max_size=40)


def bytes_of(offset: int, entry: Entry, *, tombstone: bool = False) -> bytes:
    if entry.end is not None:
        return encode_marker(
            entry.end, producer_id=entry.producer_id, producer_epoch=1, coordinator_epoch=0, timestamp=offset, base_offset=offset
        )
    record = Record(offset, offset, entry.key, None if tombstone else b"%d" % offset)
    return encode_batch(
        [record],
        base_offset=offset,
        producer_id=entry.producer_id,
        producer_epoch=0 if entry.producer_id >= 0 else -1,
        base_sequence=0 if entry.producer_id >= 0 else -1,
        transactional=entry.producer_id >= 0,
    )


def outcome(history: list[Entry], offset: int) -> ControlType | None:
    """How the transaction ended that the record at `offset` is of: by the next marker of its producer."""
    producer_id = history[offset].producer_id
    if producer_id < 0:
        return ControlType.COMMIT
    return next((entry.end for entry in history[offset:] if entry.producer_id == producer_id and entry.end is not None), None)


def expected(history: list[Entry]) -> dict[bytes, int]:
    """By key the offset of the newest record that was committed."""
    return {
        entry.key: offset
        for offset, entry in enumerate(history)
        if entry.key is not None and outcome(history, offset) is ControlType.COMMIT
    }


@given(history=histories, data=st.data())
def test_the_newest_committed_of_each_key(history: list[Entry], data: st.DataObject) -> None:
    """Whatever is read at once, and whatever compaction dropped: aborted records, older ones of the same key, and markers of transactions
    of which no record is left."""
    newest = expected(history)
    kept: list[int] = []
    for offset, entry in enumerate(history):
        older = entry.key is not None and outcome(history, offset) is ControlType.COMMIT and newest[entry.key] != offset
        aborted = entry.key is not None and outcome(history, offset) is ControlType.ABORT
        if not ((older or aborted) and data.draw(st.booleans())):
            kept.append(offset)
    for offset in [each for each in kept if history[each].end is not None]:
        before = [each for each in kept if each < offset and history[each].producer_id == history[offset].producer_id]
        alone = not before or history[before[-1]].end is not None
        if alone and data.draw(st.booleans()):
            kept.remove(offset)
    scan = Scan("ledger", 0, start=0, end=len(history))
    batches = [bytes_of(offset, history[offset]) for offset in kept]
    while batches:
        many = data.draw(st.integers(min_value=1, max_value=len(batches)))
        assert scan.feed(b"".join(batches[:many]) + (batches[many][:30] if many < len(batches) else b""))
        del batches[:many]
    assert {key: stored.offset for key, stored in scan.committed.items()} == newest
    assert set(scan.open) == {
        entry.key for offset, entry in enumerate(history) if entry.key is not None and outcome(history, offset) is None
    }


def test_a_tombstone_deletes() -> None:
    """It counts like a value, and so hides what was before it."""
    scan = Scan("ledger", 0, start=0, end=2)
    assert scan.feed(bytes_of(0, Entry(-1, b"a")) + bytes_of(1, Entry(-1, b"a"), tombstone=True))
    assert scan.done
    assert scan.committed[b"a"].value is None


def test_only_what_is_wanted_is_kept() -> None:
    """Other sinks' values take no memory, and their open transactions none either."""
    scan = Scan("ledger", 0, start=0, end=3, wanted={b"a"})
    scan.feed(bytes_of(0, Entry(-1, b"b")) + bytes_of(1, Entry(1, b"c")) + bytes_of(2, Entry(2, b"a")))
    assert (list(scan.committed), list(scan.open)) == ([], [b"a"])


def test_from_its_start_to_its_end() -> None:
    """Records before the start, in a batch that still comes whole, and batches from the end on do not count."""
    batch = encode_batch([(0, b"a", b"deleted"), (0, b"b", b"there")], base_offset=4)
    scan = Scan("ledger", 0, start=5, end=6)
    assert scan.feed(batch + bytes_of(6, Entry(-1, b"c")))
    assert scan.done
    assert list(scan.committed) == [b"b"]
    assert not Scan("ledger", 0, start=5, end=9).feed(b"")


def test_other_control_records_and_emptied_batches() -> None:
    """A control batch of a kind that ends nothing, and one that compaction emptied, leave transactions as they are."""
    emptied = encode_batch([], base_offset=1, producer_id=1, producer_epoch=1, transactional=True, control=True)
    other = encode_batch([(0, b"\0\0\0\2", b"\0\0")], base_offset=2, control=True)
    commit = bytes_of(3, Entry(1, end=ControlType.COMMIT))
    scan = Scan("ledger", 0, start=0, end=4)
    scan.feed(bytes_of(0, Entry(1, b"a")) + emptied + other)
    assert list(scan.open) == [b"a"]
    scan.feed(commit)
    assert list(scan.committed) == [b"a"]


def test_a_batch_that_was_damaged() -> None:
    """Its partition and offset are named, and nothing is taken for the end of the log."""
    damaged = bytearray(bytes_of(7, Entry(-1, b"a")))
    damaged[-2] ^= 1
    scan = Scan("ledger", 3, start=5, end=9)
    with pytest.raises(LedgerDamaged, match=r"ledger-3 has a batch at offset 5 \(or after it\) that cannot be read: the checksum"):
        scan.feed(bytes(damaged))
