"""Which segments retention deletes, and what readers see then."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker_stub.log import LogConfig, OffsetOutOfRange, PartitionLog
from fencepost.broker_stub.storage.memory import MemoryDirectory
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.messages.list_offsets import EARLIEST
from tests.broker_stub.log.log_tools import NOW, Again, SetClock, coordinate, data, marker, open_log, plain, produce

BATCH_BYTES = len(plain())
ALL = 1 << 20


def log_of(batches: int, *, per_segment: int = 2, clock: SetClock | None = None, step_ms: int = 0, **config: Any) -> PartitionLog:
    """A log with a batch of one record for each offset."""
    log = open_log(LogConfig(segment_bytes=per_segment * BATCH_BYTES, **config), clock=clock)
    for number in range(batches):
        produce(log, plain(NOW + number * step_ms))
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(
    ("limit", "left"), [(0, [8]), (1, [6]), (2, [6]), (3, [4, 6]), (6, [2, 4, 6]), (7, [0, 2, 4, 6]), (-1, [0, 2, 4, 6])]
)
def test_a_log_stays_at_least_as_large_as_retention_bytes(limit: int, left: list[int]) -> None:
    """A segment is deleted only if the log without it is not smaller than the limit."""
    size = limit if limit < 0 else limit * BATCH_BYTES
    log = log_of(8, retention_bytes=size)
    log.delete_old_segments()
    assert bases(log) == left
    assert log.log_start_offset == bases(log)[0]
    assert log.log_end_offset == 8
    assert size < 0 or log.size >= min(size, 8 * BATCH_BYTES)


def test_segments_whose_newest_record_is_too_old_go() -> None:
    """The largest timestamp of a segment decides; the last segment goes too, and an empty one begins."""
    clock = SetClock(NOW)
    log = log_of(6, clock=clock, step_ms=100, retention_ms=1000)
    deleted = []
    for passed in (1100, 1101, 1301, 1500, 1501):
        clock.ms = NOW + passed
        deleted.append((log.delete_old_segments(), bases(log)))
    assert deleted == [(0, [0, 2, 4]), (1, [2, 4]), (1, [4]), (0, [4]), (1, [6])]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (6, 6, 0)
    clock.ms += 100_000
    assert log.delete_old_segments() == 0
    assert produce(log, plain()) == 6


def test_a_record_of_the_future_keeps_the_segments_after_it() -> None:
    """Only the oldest segments are deleted, so one that is kept keeps all later ones."""
    clock = SetClock(NOW)
    log = open_log(LogConfig(segment_bytes=BATCH_BYTES, retention_ms=1000), clock=clock)
    for timestamp in (NOW, NOW + 900_000, NOW):
        produce(log, plain(timestamp))
    clock.ms = NOW + 5000
    assert log.delete_old_segments() == 1
    assert bases(log) == [1, 2]


def test_without_timestamps_the_last_append_counts() -> None:
    """As the time of the file's last change in Kafka."""
    clock = SetClock(NOW)
    log = open_log(LogConfig(segment_bytes=BATCH_BYTES, retention_ms=1000), clock=clock)
    for _ in range(2):
        produce(log, plain(-1))
        clock.ms += 800
    assert (log.delete_old_segments(), bases(log)) == (1, [1])


def test_nothing_beyond_the_high_watermark_is_deleted() -> None:
    """A segment goes only if every in-sync replica has all of it."""
    clock = SetClock(NOW)
    log = log_of(0, clock=clock, retention_ms=1000)
    log.replicated_at_once = False
    for _ in range(6):
        produce(log, plain())
    clock.ms += 10_000
    log.advance_high_watermark(3)
    assert (log.delete_old_segments(), bases(log)) == (1, [2, 4])
    log.advance_high_watermark(6)
    assert (log.delete_old_segments(), bases(log)) == (2, [6])


@pytest.mark.parametrize(("policies", "left"), [("delete", [8]), ("compact,delete", [8]), ("compact", [4, 6])])
def test_only_a_log_that_deletes_obeys_age_and_size(policies: str, left: list[int]) -> None:
    """A log that is only compacted gives up what lies below its start, and nothing else."""
    clock = SetClock(NOW)
    policy = LogConfig.from_properties({"cleanup.policy": policies})
    log = log_of(8, clock=clock, retention_ms=1000, retention_bytes=0, compacted=policy.compacted, deletes=policy.deletes)
    log.advance_log_start(5)
    clock.ms += 10_000
    log.delete_old_segments()
    assert bases(log) == left
    assert log.log_start_offset == max(5, left[0])


def test_deleted_records_give_their_memory_back() -> None:
    """DeleteRecords inside a segment deletes the segments before it."""
    log = log_of(9)
    log.advance_log_start(5)
    assert log.size == 9 * BATCH_BYTES
    assert (log.delete_old_segments(), bases(log), log.size) == (2, [4, 6, 8], 5 * BATCH_BYTES)
    assert log.log_start_offset == 5


def test_deleted_records_leave_the_active_segment() -> None:
    """Only a segment that another one follows is deleted for the log start, as in Kafka."""
    log = log_of(4)
    log.advance_log_start(4)
    assert (log.delete_old_segments(), bases(log), log.size) == (1, [2], 2 * BATCH_BYTES)
    assert produce(log, plain()) == 4
    assert (log.delete_old_segments(), bases(log)) == (1, [4])


def test_readers_of_deleted_segments() -> None:
    """Offsets before the first segment are out of range, and the earliest offset is the first one that is left. Epochs follow."""
    clock = SetClock(NOW)
    log = log_of(6, clock=clock, step_ms=100, retention_ms=1000)
    log.lead(1)
    produce(log, plain(NOW + 600), leader_epoch=1)
    clock.ms = NOW + 1301
    log.delete_old_segments()
    with pytest.raises(OffsetOutOfRange):
        log.read(3, max_bytes=ALL)
    assert log.offset_for_timestamp(EARLIEST).offset == 4
    assert log.offset_for_timestamp(NOW).offset == 4
    assert log.epochs == [(0, 4), (1, 6)]


def test_aborted_transactions_go_with_their_markers() -> None:
    """A reader is told of those whose markers are still there; an open transaction holds the last stable offset back, though its first
    records are gone."""
    log = open_log(LogConfig(segment_bytes=2 * len(data(7, 0, 0)) + len(marker(7, 0))))
    produce(log, data(7, 0, 0, transactional=True))  # 0
    produce(log, data(9, 0, 0, transactional=True))  # 1, stays open
    coordinate(log, marker(7, 0, commit=False))  # 2
    produce(log, data(7, 0, 1, transactional=True))  # 3
    coordinate(log, marker(7, 0, commit=False))
    assert bases(log)[1] == 3
    log.advance_log_start(3)
    log.delete_old_segments()
    assert log.last_stable_offset == 3
    coordinate(log, marker(9, 0))
    found = log.read(3, max_bytes=ALL, read_committed=True)
    assert [(txn.producer_id, txn.first_offset) for txn in found.aborted or ()] == [(7, 3)]
    assert log.last_stable_offset == log.high_watermark


def test_producers_are_known_after_everything_was_deleted() -> None:
    """Also by the next process, if this one is killed: the empty segment begins with a snapshot, as in Kafka."""
    clock, directory = SetClock(NOW), MemoryDirectory()
    config = LogConfig(retention_ms=1000)
    log = PartitionLog(clock_ms=clock, config=config, directory=directory)
    assert [produce(log, data(7, 0, sequence)) for sequence in range(2)] == [0, 1]
    clock.ms += 1001
    assert log.delete_old_segments() == 1
    killed = PartitionLog.load(directory, clock_ms=clock, config=config, log_start_offset=2, high_watermark=2, recovery_point=0)
    assert produce(killed, data(7, 0, 1)) == Again(1)
    assert produce(killed, data(7, 0, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(killed, data(7, 0, 2)) == 2
