"""Segments of a log: when the next one begins, what their sparse indexes hold, and that reads find everything through them."""

from __future__ import annotations

import random

import pytest

from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.log.local_log import LocalLog
from fencepost.broker_stub.log.segment import LogSegment
from fencepost.broker_stub.storage.memory import MemoryDirectory
from fencepost.producer.wire.records import encode_batch, iter_batches, read_header, read_records
from tests.broker_stub.log.log_tools import NOW, SetClock, open_log, plain, produce

BATCH_BYTES = len(plain())


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def sized(size: int) -> bytes:
    """A batch with one record, of that size."""
    empty = len(encode_batch([(NOW, None, bytes(4000))])) - 4000
    return encode_batch([(NOW, None, bytes(size - empty))])


def test_the_index_entries_of_the_worked_example() -> None:
    """One-record batches of 2,000 bytes: an entry for the first batch after more than 4,096 bytes without one, with the batch's last offset
    and its own position."""
    log = open_log()
    for _ in range(11):
        produce(log, sized(2000))
    (segment,) = log.segments
    assert segment.offset_index.entries == [(3, 6000), (6, 12000), (9, 18000)]
    assert [segment.offset_index.lookup(offset) for offset in (0, 2, 3, 5, 6, 8, 9, 50)] == [0, 0, 6000, 6000, 12000, 12000, 18000, 18000]
    assert [segment.offset_index.offset_past(position) for position in (0, 6000, 6001, 18000, 18001)] == [3, 3, 6, 9, None]


def test_time_index_entries_hold_the_largest_timestamp_so_far() -> None:
    """An entry has the largest timestamp before it and the last offset of the batch that has it. A closed segment has a final one."""
    log = open_log(LogConfig(index_interval_bytes=0, segment_bytes=4 * BATCH_BYTES))
    for timestamp in (NOW, NOW + 5, NOW + 3, NOW + 9, NOW + 20):
        produce(log, plain(timestamp))
    closed, active = log.segments
    assert closed.time_index.entries == [(NOW + 5, 1), (NOW + 9, 3)]
    assert active.time_index.entries == []
    assert [segment.largest_timestamp for segment in log.segments] == [NOW + 9, NOW + 20]


def test_a_segment_is_closed_before_it_grows_too_large() -> None:
    """The next segment is named by the first offset of the batch that does not fit."""
    log = open_log(LogConfig(segment_bytes=3 * BATCH_BYTES))
    for _ in range(7):
        produce(log, plain())
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * BATCH_BYTES, 3 * BATCH_BYTES, BATCH_BYTES]
    assert log.size == 7 * BATCH_BYTES


def test_a_segment_is_closed_once_its_records_span_the_time() -> None:
    """Timestamps decide, not the clock: a record that is far enough after the segment's first one begins the next segment."""
    clock = SetClock()
    log = open_log(LogConfig(segment_ms=1000), clock=clock)
    for timestamp in (NOW, NOW + 1000, NOW + 1001, NOW + 500, NOW + 2002):
        clock.ms += 5000
        produce(log, plain(timestamp))
    assert bases(log) == [0, 2, 4]


def test_without_timestamps_the_clock_decides() -> None:
    """A segment whose first batch has no timestamp is closed by its age."""
    clock = SetClock()
    log = open_log(LogConfig(segment_ms=1000), clock=clock)
    produce(log, plain(-1))
    clock.ms += 1000
    produce(log, plain(-1))
    clock.ms += 1
    produce(log, plain(-1))
    assert bases(log) == [0, 2]


def test_jitter_closes_a_segment_earlier() -> None:
    """By less than the jitter, and than segment.ms; by how much differs from segment to segment and not from run to run."""
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    jitters = {LogSegment(base, MemoryDirectory(), config, now_ms=NOW).jitter_ms for base in range(50)}
    assert jitters <= set(range(400))
    assert len(jitters) > 10
    base = next(base for base in range(50) if LogSegment(base, MemoryDirectory(), config, now_ms=NOW).jitter_ms > 0)
    segment = LogSegment(base, MemoryDirectory(), config, now_ms=NOW)
    segment.append(plain(), last_offset=base, max_timestamp=NOW, now_ms=NOW)

    def rolls(timestamp: int) -> bool:
        return segment.must_roll(config, size=1, last_offset=base + 1, max_timestamp=timestamp, now_ms=NOW)

    assert [rolls(NOW + 1000 - segment.jitter_ms), rolls(NOW + 1001 - segment.jitter_ms)] == [False, True]


@pytest.mark.parametrize(("index_bytes", "segments"), [(16, [*range(8)]), (24, [0, 2, 4, 6]), (36, [0, 3, 6]), (120, [0])])
def test_a_segment_with_a_full_index_is_closed(index_bytes: int, segments: list[int]) -> None:
    """The offset index takes 8 bytes an entry, the time index 12, and keeps room for its last entry."""
    log = open_log(LogConfig(index_interval_bytes=0, segment_index_bytes=index_bytes))
    for number in range(8):
        produce(log, plain(NOW + number))
    assert bases(log) == segments


def test_a_batch_too_far_from_the_base_begins_a_segment() -> None:
    """An index entry has 31 bits for an offset."""
    segment = LogSegment(10, MemoryDirectory(), LogConfig(), now_ms=NOW)
    rolls = [segment.must_roll(LogConfig(), size=1, last_offset=10 + 2**31 - 1 + more, max_timestamp=NOW, now_ms=NOW) for more in (0, 1)]
    assert rolls == [False, True]


def test_a_read_ends_with_its_segment() -> None:
    """As in Kafka, one read gives batches of one segment."""
    log = open_log(LogConfig(segment_bytes=3 * BATCH_BYTES))
    for _ in range(7):
        produce(log, plain())
    sizes = [len(log.read(offset, max_bytes=1 << 20).records) // BATCH_BYTES for offset in range(8)]
    assert sizes == [3, 2, 1, 3, 2, 1, 1, 0]


class Model:
    """A log as a plain list of (base offset, last offset, timestamp, bytes)."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = SetClock()
        self.config = LogConfig(
            segment_bytes=rng.choice((900, 3000, 1 << 20)),
            segment_ms=rng.choice((40, 10_000)),
            segment_index_bytes=rng.choice((60, 4096)),
            index_interval_bytes=rng.choice((0, 200, 4096)),
        )
        self.log = PartitionLog(clock_ms=self.clock, config=self.config)
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.marks: list[int] = []

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0

    def append(self) -> None:
        rng = self.rng
        timestamp = NOW + rng.randrange(-50, 200)
        data = encode_batch([(timestamp, b"k", bytes(rng.randrange(120)))] * rng.randrange(1, 6))
        first, last = self.end, self.end + read_header(data).last_offset_delta
        assert produce(self.log, data) == first
        self.batches.append((first, last, timestamp, data))

    def truncate(self) -> None:
        if self.marks:
            to = self.rng.choice(self.marks)
            self.log.truncate(to)
            self.batches = [each for each in self.batches if each[1] < to]
            self.marks = [each for each in self.marks if each <= to]

    def check(self) -> None:
        log, rng = self.log, self.rng
        assert log.log_end_offset == self.end
        assert [header.base_offset for header, _ in log.batches()] == [each[0] for each in self.batches]
        assert log.size == sum(len(each[3]) for each in self.batches)
        offset = rng.randrange(self.end + 1)
        max_bytes = rng.choice((1, 300, 5000, 1 << 20))
        self.check_read(offset, max_bytes)
        timestamp = NOW + rng.randrange(-60, 220)
        first = next((base for base, _, at, _ in self.batches if at >= timestamp), -1)
        assert log.offset_for_timestamp(timestamp).offset == first

    def check_read(self, offset: int, max_bytes: int) -> None:
        found = bytes(self.log.read(offset, max_bytes=max_bytes).records)
        wanted = [each for each in self.batches if each[1] >= offset]
        if not wanted:
            assert found == b""
            return
        bounds = [segment.base_offset for segment in self.log.segments if segment.base_offset > wanted[0][0]]
        sizes = [len(data) for base, _, _, data in wanted if not bounds or base < bounds[0]]
        assert len(found) == min(sum(sizes), max(max_bytes, sizes[0]))
        got = [(header.base_offset, [record.timestamp for record in read_records(batch)]) for header, batch in iter_batches(found)]
        assert got == [(base, [at] * (last - base + 1)) for base, last, at, _ in wanted][: len(got)]


@pytest.mark.parametrize("seed", range(40))
def test_a_log_of_segments_is_the_list_of_its_batches(seed: int) -> None:
    """Appends and truncations, with small segments and small indexes: every offset, every time and the whole log are found as in a list."""
    rng = random.Random(f"segments {seed}")
    model = Model(rng)
    for _ in range(120):
        act = rng.choices((model.append, model.truncate, lambda: model.marks.append(model.log.log_end_offset)), (10, 1, 2))[0]
        act()
        model.clock.ms += rng.randrange(20)
        model.check()


def test_a_truncation_below_the_first_segment_empties_the_log() -> None:
    """It begins anew at that offset, as a follower's log that lacks everything that its leader has."""
    local = LocalLog(5, MemoryDirectory(), config=LogConfig, now_ms=NOW)
    local.append(plain(), last_offset=5, max_timestamp=NOW, now_ms=NOW)
    local.truncate(2, now_ms=NOW)
    assert (local.end_offset, [segment.base_offset for segment in local.segments], local.size) == (2, [2], 0)
