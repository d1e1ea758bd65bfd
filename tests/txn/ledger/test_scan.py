"""The scan of a ledger's log.

A model that knows how each transaction ended checks the found entries, for every result of compaction. Also: how much memory of the reader
a batch may take.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fencepost.producer.wire.codecs.codec import Codec, compress
from fencepost.producer.wire.records.batch_header import TRANSACTIONAL, pack_batch
from fencepost.producer.wire.records.control_batch import ControlType, encode_marker
from fencepost.producer.wire.records.record_batch import Record, encode_batch
from fencepost.txn.keyed_topic.errors import LedgerDamaged
from fencepost.txn.keyed_topic.reading import Mark, Memory
from fencepost.txn.keyed_topic.scan import OPENED_BYTES_MAX, RECORDS_MAX, Scan
from fencepost.txn.ledger.entry import VALUE_BYTES_MAX
from tests.producer.wire.records.changed_batches import placed

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
        marker = encode_marker(entry.end, producer_id=entry.producer_id, producer_epoch=1, coordinator_epoch=0, timestamp=offset)
        return placed(marker, offset)
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
    """How the transaction ended that the record at `offset` is of: by the next marker of its producer. What is of none was never ended."""
    producer_id = history[offset].producer_id
    if producer_id < 0:
        return None
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
    """This holds for every size of the reads, and for everything that compaction drops: aborted records, older ones of the same key, and
    markers of transactions without records."""
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
    unsure = [entry for offset, entry in enumerate(history) if entry.key is not None and outcome(history, offset) is None]
    assert set(scan.open) == {entry.key for entry in unsure if entry.producer_id >= 0}
    assert set(scan.plain) == {entry.key for entry in unsure if entry.producer_id < 0}


def committed(scan: Scan) -> dict[bytes, int]:
    return {key: stored.offset for key, stored in scan.committed.items()}


def test_commits_that_come_in_another_order_than_their_records() -> None:
    """Two transactions wrote the same key, and the one that wrote first is committed last: the record that stands later counts, as it is
    the one that compaction keeps."""
    scan = Scan("ledger", 0, start=0, end=4)
    scan.feed(bytes_of(0, Entry(1, b"a")) + bytes_of(1, Entry(2, b"a")) + bytes_of(2, Entry(2, end=ControlType.COMMIT)))
    assert committed(scan) == {b"a": 1}
    scan.feed(bytes_of(3, Entry(1, end=ControlType.COMMIT)))
    assert committed(scan) == {b"a": 1}
    other = Scan("ledger", 0, start=0, end=4)
    other.feed(bytes_of(0, Entry(1, b"a")) + bytes_of(1, Entry(2, b"a")) + bytes_of(2, Entry(1, end=ControlType.COMMIT)))
    assert committed(other) == {b"a": 0}
    other.feed(bytes_of(3, Entry(2, end=ControlType.COMMIT)))
    assert committed(other) == {b"a": 1}


def test_a_tombstone_deletes() -> None:
    """It counts like a value, and so hides what was before it."""
    scan = Scan("ledger", 0, start=0, end=3)
    tombstone = bytes_of(1, Entry(1, b"a"), tombstone=True)
    assert scan.feed(bytes_of(0, Entry(1, b"a")) + tombstone + bytes_of(2, Entry(1, end=ControlType.COMMIT)))
    assert scan.done
    assert scan.committed[b"a"].value is None


@pytest.mark.parametrize("tombstone", [False, True])
def test_what_is_of_no_transaction_does_not_count(*, tombstone: bool) -> None:
    """Neither a value nor a tombstone counts, before the entry or after it. The scan keeps it apart, for the warning."""
    scan = Scan("ledger", 0, start=0, end=5)
    plain = [bytes_of(offset, Entry(-1, b"a"), tombstone=tombstone) for offset in (0, 3)]
    idempotent = encode_batch([Record(4, 4, b"b", b"x")], base_offset=4, producer_id=9, producer_epoch=0, base_sequence=0)
    entry = bytes_of(1, Entry(1, b"a")) + bytes_of(2, Entry(1, end=ControlType.COMMIT))
    assert scan.feed(plain[0] + entry + plain[1] + idempotent)
    assert committed(scan) == {b"a": 1}
    assert {key: stored.offset for key, stored in scan.plain.items()} == {b"a": 3, b"b": 4}


def crowded(codec: Codec, payload: bytes, count: int, *, transactional: bool) -> bytes:
    """A batch at offset 0 that says it has so many records in this payload."""
    return pack_batch(
        compress(codec, payload),
        attributes=codec | (TRANSACTIONAL if transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        records_count=count,
    )


MANY = 2_000_000
EMPTY_RECORD = b"\x0c\0\0\0\x01\x01\0"
"""Seven bytes: no key, no value, no headers."""
HEADERS = 4_000_000


def headers_only() -> bytes:
    """One record of millions of headers, which have neither names nor values."""

    def varint(number: int) -> bytes:
        number <<= 1
        out = bytearray()
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*out, number])

    body = b"\0\0\0\x01\x01" + varint(HEADERS) + b"\0\x01" * HEADERS
    return varint(len(body)) + body


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    ("payload", "count", "refused"),
    [
        (EMPTY_RECORD * MANY, MANY, f"{MANY} records, where at most {RECORDS_MAX} are taken"),
        (bytes(OPENED_BYTES_MAX + 1), 1, f"more than {OPENED_BYTES_MAX} bytes of records"),
        (headers_only(), 1, None),
    ],
    ids=["records", "bytes", "headers"],
)
def test_what_a_batch_may_take_of_memory(codec: Codec, payload: bytes, count: int, refused: str | None) -> None:
    """A few kilobytes that claim to be millions of records, or of bytes, or of headers, are not opened further than an entry could be, with
    every codec: an error that names the place where they are of a transaction, and passed over where they cannot count."""
    inside, outside = (crowded(codec, payload, count, transactional=each) for each in (True, False))
    tracemalloc.start()
    try:
        scan = Scan("ledger", 3, start=0, end=count)
        if refused is None:
            assert scan.feed(inside)
        else:
            with pytest.raises(LedgerDamaged, match=rf"ledger-3 has a batch at offset 0 .* cannot be read: .*{refused}"):
                scan.feed(inside)
        again = Scan("ledger", 3, start=0, end=count)
        assert again.feed(outside)
        assert again.done
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * OPENED_BYTES_MAX


def test_the_page_tells_the_limits() -> None:
    """docs/ledger.md names the limits of readers, for planning and for other programs that write entries."""
    mib = 1024 * 1024
    page = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text()
    words = f"at most {VALUE_BYTES_MAX / mib:g} MiB. A reader opens at most {OPENED_BYTES_MAX / mib:g} MiB and {RECORDS_MAX:,} records"
    assert words in page


def test_only_what_is_wanted_is_kept() -> None:
    """Other sinks' values take no memory, and their open transactions none either."""
    scan = Scan("ledger", 0, start=0, end=3, wanted={b"a"})
    scan.feed(bytes_of(0, Entry(-1, b"b")) + bytes_of(1, Entry(1, b"c")) + bytes_of(2, Entry(2, b"a")))
    assert (list(scan.committed), list(scan.open), list(scan.plain)) == ([], [b"a"], [])


def test_from_its_start_to_its_end() -> None:
    """Records before the start, in a batch that still comes whole, and batches from the end on do not count."""
    batch = encode_batch(
        [(0, b"a", b"deleted"), (0, b"b", b"there")], base_offset=4, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    scan = Scan("ledger", 0, start=5, end=7)
    assert scan.feed(batch + bytes_of(6, Entry(1, end=ControlType.COMMIT)) + bytes_of(7, Entry(-1, b"c")))
    assert scan.done
    assert (list(scan.committed), list(scan.plain)) == ([b"b"], [])
    assert not Scan("ledger", 0, start=5, end=9).feed(b"")


@pytest.mark.parametrize("kept", [[0], []], ids=["some", "nothing"])
def test_an_end_that_compaction_has_left_out(kept: list[int]) -> None:
    """What stood right before the end is gone, and the next batch stands behind it: everything was read, and that batch does not count."""
    scan = Scan("ledger", 0, start=0, end=4)
    assert scan.feed(b"".join(bytes_of(offset, Entry(-1, KEYS[0])) for offset in kept) + bytes_of(6, Entry(-1, KEYS[1])))
    assert scan.done
    assert {key: stored.offset for key, stored in scan.plain.items()} == dict.fromkeys(KEYS[: len(kept)], 0)


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


MARK = Mark("ledger", UUID(int=1), frozenset(), leader_epoch=1, start=0)


def reading() -> Scan:
    """A finished reading of a log with one record."""
    scan = Scan("ledger", 0, start=0, end=1)
    assert scan.feed(bytes_of(0, Entry(-1, b"a")))
    return scan


def test_a_process_keeps_64_readings() -> None:
    """The next one replaces the one that was kept longest ago, so that many ledgers do not fill the memory."""
    memory = Memory()
    for partition in (*range(64), 0, 64):
        memory.keep(MARK, partition, {b"a"}, reading())
    assert [each for each in range(65) if memory.recall(MARK, each, {b"a"}, 1)] == [0, *range(2, 65)]


@pytest.mark.parametrize(
    ("kept", "asked", "end", "continued"),
    [
        (MARK, MARK, 1, True),
        (MARK, MARK, 2, True),
        (MARK, MARK, 0, False),
        *((MARK, replace(MARK, **other), 1, False) for other in ({"leader_epoch": 2}, {"start": 1}, {"topic_id": UUID(int=2)})),
        (replace(MARK, topic_id=UUID(int=0)), replace(MARK, topic_id=UUID(int=0)), 1, False),
    ],
)
def test_only_a_reading_of_the_same_log_is_continued(kept: Mark, asked: Mark, end: int, continued: bool) -> None:
    """A reading is continued if topic id, leader epoch and start are unchanged and the log is at least as long. Without topic ids no
    reading is kept."""
    memory = Memory()
    memory.keep(kept, 0, {b"a"}, reading())
    recalled = memory.recall(asked, 0, {b"a"}, end)
    assert (recalled is not None) == continued
    assert recalled is None or (recalled.position, recalled.end) == (1, end)
