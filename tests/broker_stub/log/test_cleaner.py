"""What compaction leaves of a log, and that readers and producers find everything else as before."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.log.cleaner.cleaner import clean
from fencepost.broker_stub.log.cleaner.log_to_clean import log_to_clean
from fencepost.producer.wire.records import Codec, encode_batch, iter_batches, read_records
from tests.broker_stub.log.log_tools import NOW, Again, SetClock, coordinate, marker, produce

DAY_MS = 86_400_000
LARGE = 1 << 30


class Site(NamedTuple):
    """A compacted log, and its clock."""

    log: PartitionLog
    clock: SetClock

    def put(self, *records: tuple[str, str | None], pid: int = -1, sequence: int = -1, epoch: int = 0, **more: Any) -> Any:
        """Appends one batch of records (key, value), with the present time."""
        batch = encode_batch(
            [(self.clock.ms, key.encode(), None if value is None else value.encode()) for key, value in records],
            producer_id=pid,
            producer_epoch=epoch if pid >= 0 else -1,
            base_sequence=sequence,
            **more,
        )
        return produce(self.log, batch)

    def roll(self) -> None:
        """Begins the next segment, so that everything so far may be compacted."""
        self.log._roll(self.log.log_end_offset, now_ms=self.clock.ms)

    def clean(self, keys_max: int = LARGE) -> None:
        for _ in clean(log_to_clean(self.log, now_ms=self.clock.ms), keys_max=keys_max, now_ms=self.clock.ms):
            pass

    def compact(self, keys_max: int = LARGE) -> None:
        self.roll()
        self.clean(keys_max)

    def records(self) -> list[tuple[int, str, str | None]]:
        """(offset, key, value) of each record that is left, markers not."""
        return [
            (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
            for header, batch in self.log.batches()
            if not header.is_control
            for record in read_records(batch)
        ]

    def batches(self) -> list[tuple[int, int, int]]:
        """(base offset, last offset, number of records) of each batch that is left, markers too."""
        return [(header.base_offset, header.last_offset, header.records_count) for header, _ in self.log.batches()]


@pytest.fixture
def site() -> Site:
    return made()


def made(**config: Any) -> Site:
    clock = SetClock()
    return Site(PartitionLog(clock_ms=clock, config=LogConfig(compacted=True, deletes=False, **config)), clock)


def test_the_newest_record_of_each_key_stays(site: Site) -> None:
    """With its offset; the others are gaps. What is in the segment that is appended to stays as it is."""
    site.put(("a", "1"), ("b", "2"), ("a", "3"))
    site.put(("b", "4"), ("c", "5"))
    site.roll()
    site.put(("a", "6"), ("a", "7"))
    site.clean()
    assert site.records() == [(2, "a", "3"), (3, "b", "4"), (4, "c", "5"), (5, "a", "6"), (6, "a", "7")]
    assert site.batches() == [(0, 2, 1), (3, 4, 2), (5, 6, 2)]
    site.compact()
    assert site.records() == [(3, "b", "4"), (4, "c", "5"), (6, "a", "7")]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_keeps_its_codec_and_times(site: Site, codec: Codec) -> None:
    """What is left of it has the offsets, timestamps, headers and the producer it had."""
    records = [(NOW + 5, b"a", b"1", None), (NOW + 9, b"b", b"2", [("h", b"x"), ("h", None)]), (NOW + 7, b"a", b"3", None)]
    produce(site.log, encode_batch(records, producer_id=7, producer_epoch=1, base_sequence=4, codec=codec))
    site.compact()
    ((header, batch),) = site.log.batches()
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (codec, 7, 1, 4, 6)
    assert (header.max_timestamp, header.base_offset, header.last_offset, header.leader_epoch) == (NOW + 9, 0, 2, 0)
    assert [(each.offset, each.timestamp, each.headers) for each in read_records(batch)] == [
        (1, NOW + 9, (("h", b"x"), ("h", None))),
        (2, NOW + 7, ()),
    ]


def test_a_tombstone_goes_a_day_after_the_first_pass_that_met_it(site: Site) -> None:
    """Not a day after it was written. The record that it deletes goes at once."""
    site.put(("a", "1"), ("b", "2"))
    site.put(("a", None))
    site.clock.ms += 5 * DAY_MS
    site.compact()
    assert site.records() == [(1, "b", "2"), (2, "a", None)]
    site.clock.ms += DAY_MS - 1
    site.put(("c", "3"))
    site.compact()
    assert site.records() == [(1, "b", "2"), (2, "a", None), (3, "c", "3")]
    site.clock.ms += 1
    site.put(("d", "4"))
    site.compact()
    assert site.records() == [(1, "b", "2"), (3, "c", "3"), (4, "d", "4")]


def test_delete_retention_is_the_topics() -> None:
    """With 0 a tombstone goes in the second pass."""
    site = made(delete_retention_ms=0)
    site.put(("a", None))
    site.put(("b", "1"))
    site.compact()
    site.put(("c", "2"))
    site.compact()
    assert site.records() == [(1, "b", "1"), (2, "c", "2")]


def test_an_aborted_transaction_replaces_nothing(site: Site) -> None:
    """Its records go, and older ones of their keys stay. Its marker goes a day after a pass that met none of its records, and with it what
    readers are told."""
    site.put(("a", "1"))
    site.put(("a", "2"), ("b", "3"), pid=7, sequence=0, transactional=True)
    coordinate(site.log, marker(7, 0, commit=False))
    site.put(("x", "5"), pid=7, epoch=1, sequence=0)  # so that the producer's newest batch is another one
    site.compact()
    assert site.records() == [(0, "a", "1"), (4, "x", "5")]
    assert [txn.last_offset for txn in site.log.aborted_transactions] == [3]
    site.put(("y", "6"))
    site.compact()  # meets the marker, and none of its records
    assert site.log.aborted_transactions == ()
    assert (3, 3, 1) in site.batches()
    site.clock.ms += DAY_MS
    site.put(("z", "7"))
    site.compact()
    assert site.batches() == [(0, 0, 1), (4, 4, 1), (5, 5, 1), (6, 6, 1)]


def test_a_committed_transactions_marker_stays_as_long_as_its_records(site: Site) -> None:
    """However old it is."""
    site.put(("a", "1"), pid=7, sequence=0, transactional=True)
    coordinate(site.log, marker(7, 0))
    site.put(("x", "2"), pid=7, epoch=1, sequence=0)
    for _ in range(3):
        site.clock.ms += 2 * DAY_MS
        site.put(("filler", "f"))
        site.compact()
    assert {(0, 0, 1), (1, 1, 1)} <= {*site.batches()}
    site.put(("a", "3"))
    site.compact()
    for _ in range(2):  # the first pass that meets none of its records gives the marker its horizon
        assert (1, 1, 1) in site.batches()
        site.clock.ms += 2 * DAY_MS
        site.put(("filler", "f"))
        site.compact()
    assert not {(0, 0, 1), (1, 1, 1)} & {*site.batches()}


def test_an_aborted_transaction_before_the_dirty_part(site: Site) -> None:
    """It says nothing of its producer's later transactions, whose records replace older ones."""
    site.put(("a", "1"))
    site.put(("b", "2"), pid=7, sequence=0, transactional=True)
    coordinate(site.log, marker(7, 0, commit=False))
    site.compact()
    site.put(("a", "3"), pid=7, sequence=1, transactional=True)
    coordinate(site.log, marker(7, 0))
    site.compact()
    assert site.records() == [(3, "a", "3")]


def test_nothing_of_an_open_transaction_is_compacted(site: Site) -> None:
    """Nor anything after its first record."""
    site.put(("a", "1"))
    site.put(("a", "2"))
    site.roll()
    site.put(("a", "3"), pid=7, sequence=0, transactional=True)
    site.put(("a", "4"))
    site.compact()
    assert site.records() == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]
    coordinate(site.log, marker(7, 0))
    site.compact()
    assert site.records() == [(3, "a", "4")]


def test_a_producer_goes_on_after_its_newest_batch_was_compacted_away(site: Site) -> None:
    """The batch stays as a header with its sequences: a repeat is known, and the next batch fits."""
    site.put(("a", "1"), pid=7, sequence=0)
    site.put(("a", "2"), ("a", "3"), pid=7, sequence=1)
    site.put(("a", "4"))
    site.compact()
    assert site.batches() == [(1, 2, 0), (3, 3, 1)]
    ((header, batch), _) = site.log.batches()
    assert (header.producer_id, header.base_sequence, header.last_sequence, header.base_timestamp) == (7, 1, 2, -1)
    assert read_records(batch) == []
    assert site.put(("a", "2"), ("a", "3"), pid=7, sequence=1) == Again(1)
    assert site.put(("b", "5"), pid=7, sequence=3) == 4
    restored = PartitionLog(clock_ms=site.clock, config=site.log.config)
    for header, batch in site.log.batches():
        restored._append_replicated(bytes(batch), 0) if header.base_offset else None
    assert produce(restored, encode_batch([(NOW, b"c", b"6")], producer_id=7, producer_epoch=0, base_sequence=4)) == 5


def test_the_last_batch_before_the_high_watermark_stays_as_a_header(site: Site) -> None:
    """Without it, a replica that reads the log would not know where it ends."""
    site.put(("a", "1"), pid=7, sequence=0, transactional=True)
    coordinate(site.log, marker(7, 0, commit=False))
    site.log.expire_producers()
    site.clock.ms += 2 * DAY_MS
    site.log.expire_producers()
    site.compact()
    site.clock.ms += 2 * DAY_MS
    site.log.first_dirty_offset = 0
    site.clean()
    site.clock.ms += 2 * DAY_MS
    site.log.first_dirty_offset = 0
    site.clean()
    assert site.batches() == [(1, 1, 0)]


def test_the_last_batch_of_a_pass_stays_as_a_header(site: Site) -> None:
    """Also if the log goes on after it. The next pass drops it."""
    site.put(("a", "1"), pid=7, sequence=0, transactional=True)
    site.roll()
    coordinate(site.log, marker(7, 1, commit=False), transaction_version=2)  # with its epoch the producer has no newest batch
    site.clean()
    assert site.batches() == [(0, 0, 0), (1, 1, 1)]
    site.put(("b", "2"))
    site.compact()
    assert site.batches() == [(1, 1, 1), (2, 2, 1)]


def test_a_pass_with_a_small_map_ends_where_the_map_was_full(site: Site) -> None:
    """The rest is left as it is, and the next pass begins there."""
    for number in range(6):
        site.put((f"k{number % 3}", str(number)))
    site.roll()
    site.clean(keys_max=2)
    assert site.log.first_dirty_offset == 2
    assert [offset for offset, _, _ in site.records()] == [0, 1, 2, 3, 4, 5]
    site.clean(keys_max=3)
    assert site.log.first_dirty_offset == 5
    assert [offset for offset, _, _ in site.records()] == [2, 3, 4, 5]
    site.clean()
    assert [offset for offset, _, _ in site.records()] == [3, 4, 5]


def test_small_segments_become_one(site: Site) -> None:
    """As long as they fit into one; the names of the others are gone, and readers find every offset."""
    for number in range(40):
        site.put((f"k{number % 10}", "v" * 50))
        if number % 4 == 3:
            site.roll()
    site.clean()
    assert [segment.base_offset for segment in site.log.segments] == [0, 40]
    assert [offset for offset, _, _ in site.records()] == [*range(30, 40)]
    assert site.log.read(0, max_bytes=1).records[:8] == (30).to_bytes(8, "big")
    large = made(segment_bytes=400)
    for number in range(40):
        large.put((f"k{number}", "v" * 50))
    large.compact()
    assert max(segment.size for segment in large.log.segments) <= 400
    assert [offset for offset, _, _ in large.records()] == [*range(40)]


@pytest.mark.parametrize(
    ("config", "passed_ms", "worth"),
    [
        ({"min_cleanable_dirty_ratio": 0.6}, 0, False),
        ({"min_cleanable_dirty_ratio": 0.4}, 0, True),
        ({"min_cleanable_dirty_ratio": 0.6, "max_compaction_lag_ms": 1000}, 1000, False),
        ({"min_cleanable_dirty_ratio": 0.6, "max_compaction_lag_ms": 1000}, 1001, True),
        ({"min_cleanable_dirty_ratio": 0.4, "min_compaction_lag_ms": 1000}, 999, False),
        ({"min_cleanable_dirty_ratio": 0.4, "min_compaction_lag_ms": 1000}, 1000, True),
    ],
)
def test_when_a_log_is_worth_it(config: dict[str, Any], passed_ms: int, worth: bool) -> None:
    """Half of it is dirty. The dirty share and the age of its records decide."""
    site = made(**config)
    site.put(("a", "1"))
    site.roll()
    site.log.first_dirty_offset = 1
    site.put(("b", "1"))
    site.roll()
    site.clock.ms += passed_ms
    found = log_to_clean(site.log, now_ms=site.clock.ms)
    assert (found.is_worth_it, found.first_dirty_offset) == (worth, 1)


def test_young_segments_are_not_compacted() -> None:
    """min.compaction.lag.ms, by the largest timestamp of a segment."""
    site = made(min_compaction_lag_ms=1000)
    for value in "1234":
        site.put(("a", value))
        site.roll()
        site.clock.ms += 500
    site.clean()
    assert site.records() == [(2, "a", "3"), (3, "a", "4")]


def test_young_segments_without_timestamps_are_not_compacted() -> None:
    """Then the time of the last append counts."""
    site = made(min_compaction_lag_ms=1000)
    for value in "1234":
        produce(site.log, encode_batch([(-1, b"a", value.encode())]))
        site.roll()
        site.clock.ms += 500
    site.clean()
    assert [offset for offset, *_ in site.records()] == [2, 3]


def test_a_compacted_log_closes_a_segment_in_time_for_max_compaction_lag() -> None:
    """Although segment.ms is longer."""
    site = made(max_compaction_lag_ms=1000, segment_ms=5000)
    site.put(("a", "1"))
    site.clock.ms += 1001
    site.put(("a", "2"))
    assert [segment.base_offset for segment in site.log.segments] == [0, 1]


@pytest.mark.parametrize("how", ["deleted", "truncated"])
def test_a_segment_that_goes_during_a_pass(site: Site, how: str) -> None:
    """The pass ends without a result, and the next one begins where it began."""
    for number in range(6):
        site.put(("a", str(number)))
        site.roll()
    steps = clean(log_to_clean(site.log, now_ms=site.clock.ms), keys_max=LARGE, now_ms=site.clock.ms)
    for _ in range(8):
        next(steps)
    if how == "deleted":
        site.log.advance_log_start(1)
        assert site.log.delete_old_segments() == 1
    else:
        site.log.truncate(4)
    left = site.records()
    assert sum(steps) > 0
    assert site.records() == left
    site.compact()
    assert [offset for offset, _, _ in site.records()] == [left[-1][0]]


@pytest.mark.parametrize("seed", range(40))
def test_random_histories(seed: int) -> None:
    """Beside a plain list of what was written: what a read_committed reader sees of each key at the end is the same before and after any
    number of passes, tombstones may go, and nothing comes back. Reads from every offset agree with each other."""
    chance = random.Random(seed)
    site = made(
        segment_bytes=chance.choice([300, 1000, LARGE]), delete_retention_ms=chance.choice([0, 1000, DAY_MS]), index_interval_bytes=100
    )
    written: list[tuple[int, str, str | None]] = []
    sequences = dict.fromkeys(range(3), 0)
    pending: dict[int, list[tuple[int, str, str | None]]] = {}
    for step in range(120):
        site.clock.ms += chance.choice([1, 100, 2000])
        match chance.randrange(8):
            case 0 | 1 | 2:
                records = [(f"k{chance.randrange(8)}", chance.choice([None, f"{step}.{n}"])) for n in range(chance.randint(1, 4))]
                pid = chance.choice([-1, 0])
                base = site.put(*records, pid=pid, sequence=sequences.get(pid, -1))
                sequences[0] += len(records) if pid == 0 else 0
                written += [(base + n, *record) for n, record in enumerate(records)]
            case 3 | 4:
                pid = chance.choice([1, 2])
                records = [(f"k{chance.randrange(8)}", chance.choice([None, f"{step}.{n}"])) for n in range(chance.randint(1, 4))]
                base = site.put(*records, pid=pid, sequence=sequences[pid], transactional=True)
                sequences[pid] += len(records)
                pending.setdefault(pid, []).extend((base + n, *record) for n, record in enumerate(records))
            case 5 if pending:
                pid = chance.choice([*pending])
                commits = chance.random() < 0.5
                coordinate(site.log, marker(pid, 0, commit=commits, timestamp=site.clock.ms))
                if commits:
                    written += pending[pid]
                del pending[pid]
            case 6:
                site.roll()
            case _:
                site.clean(chance.choice([2, 5, LARGE]))
    for pid in pending:
        coordinate(site.log, marker(pid, 0, commit=False, timestamp=site.clock.ms))
    expected: dict[str, tuple[int, str | None]] = {}
    for offset, key, value in sorted(written):
        expected[key] = offset, value
    for _ in range(3):
        site.clock.ms += 2 * DAY_MS
        site.compact()
        seen = committed(site)
        newest = {key: (offset, value) for offset, key, value in seen}
        gone = {key for key, (_, value) in expected.items() if value is None} - newest.keys()
        assert newest == {key: found for key, found in expected.items() if key not in gone}
        assert {*seen} <= {*written}
    assert len(seen) == len(newest)
    assert site.log.log_end_offset > max(expected.values(), default=(0, None))[0]
    starts = [header.base_offset for header, _ in site.log.batches()]
    for offset in range(site.log.log_start_offset, site.log.high_watermark):
        found = site.log.read(offset, max_bytes=1)
        following = next((start for start, last, _ in site.batches() if last >= offset), None)
        assert (int.from_bytes(bytes(found.records[:8]), "big") if found.records else None) == following
    assert starts == sorted(starts)


def committed(site: Site) -> list[tuple[int, str, str | None]]:
    """What a read_committed reader sees from the beginning, read as a consumer reads."""
    seen, at = [], site.log.log_start_offset
    while at < site.log.last_stable_offset:
        found = site.log.read(at, max_bytes=200, read_committed=True)
        if not found.records:
            break
        for header, batch in iter_batches(found.records):
            at = header.last_offset + 1
            if header.is_control or any(txn.covers(header) for txn in found.aborted or ()):
                continue
            seen += [
                (each.offset, (each.key or b"").decode(), None if each.value is None else each.value.decode())
                for each in read_records(batch)
            ]
    return seen
