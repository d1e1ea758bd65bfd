"""Random histories of a log beside a plain list (`list_model`), which are compared after every step.

A history has appends of all kinds, rolls, retention, DeleteRecords, compaction, truncation, restarts, kills and losses of power. Not in it:
a loss of power in the middle of a step, and lost changes of file names (`random_history` has both), leader epochs (test_leader_epochs),
full indexes (test_segments) and damaged files (test_recovery).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.log import AppendRefused, LogConfig, OffsetOutOfRange, Origin, PartitionLog
from fencepost.broker_stub.log.cleaner.cleaner import clean
from fencepost.broker_stub.log.cleaner.log_to_clean import log_to_clean
from fencepost.broker_stub.log.config import TimestampType
from fencepost.broker_stub.storage.volatile import VolatileDirectory
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.messages.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from fencepost.producer.wire.records import (
    BatchHeader,
    Codec,
    ControlType,
    encode_batch,
    encode_marker,
    iter_batches,
    read_header,
    read_marker,
    read_records,
)
from tests.broker_stub.log.list_model import MARKERS, Batch, Kind, ListModel, Producer, Row
from tests.broker_stub.log.log_tools import SetClock

FOREVER = 1 << 50
WHOLE = 1 << 20
Facts = tuple[Any, ...]


class Checkpoints(NamedTuple):
    """What the checkpoints of a log.dir say, as old as they may be."""

    log_start_offset: int = 0
    high_watermark: int = 0
    first_dirty_offset: int = 0
    recovery_point: int = 0


class ListHistory:
    """One log and its model. `floor`: a truncation goes no further, because Kafka truncates nothing that was compacted or expired."""

    def __init__(self, seed: object) -> None:
        rng = self.rng = random.Random(f"list {seed}")
        policy = rng.choice(["delete", "compact", "compact", "compact,delete"])
        self.config = LogConfig(
            segment_bytes=rng.choice((600, 1500, 5000)),
            segment_ms=rng.choice((FOREVER, 4000)),
            index_interval_bytes=rng.choice((0, 200, 4096)),
            compacted="compact" in policy,
            deletes="delete" in policy,
            retention_bytes=rng.choice((-1, 1000, 2500)),
            retention_ms=rng.choice((-1, 6000)),
            flush_messages=rng.choice((1, 5, FOREVER)),
            min_cleanable_dirty_ratio=rng.choice((0.0, 0.4)),
            delete_retention_ms=rng.choice((0, 1500, FOREVER)),
            min_compaction_lag_ms=rng.choice((0, 0, 1500)),
            max_compaction_lag_ms=rng.choice((FOREVER, 4000)),
            timestamp_type=rng.choice((TimestampType.CREATE_TIME, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)),
            compression=rng.choice((None, None, Codec.GZIP)),
            producer_id_expiration_ms=FOREVER,
        )
        self.clock = SetClock()
        self.directory = VolatileDirectory()
        self.log = PartitionLog(clock_ms=self.clock, config=self.config, directory=self.directory)
        self.log.replicated_at_once = False
        self.model = ListModel(self.config)
        self.epoch = -1
        self.bumps = {pid: rng.random() < 0.5 for pid in range(3)}  # whether each transaction has its own epoch
        self.checkpoints = Checkpoints()
        self.floor = 0
        self.story: list[str] = []
        self.begin_epoch()

    def act(self) -> None:
        """One random step, and the comparison."""
        compacts = self.config.compacted
        steps: list[tuple[int, Callable[[], object]]] = [
            (8, self.append),
            (3, self.append_again),
            (6, self.append_to_transaction),
            (5, self.end_transaction),
            (3, self.follow),
            (6, self.replicate),
            (3, self.retain),
            (2, self.delete_records),
            (4 if compacts else 0, self.compact),
            (1, self.expire),
            (2, self.truncate),
            (1, self.begin_epoch),
            (2, self.checkpoint),
            (1, self.close_and_load),
            (1, self.kill),
            (2, self.lose_power),
        ]
        step = self.rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]
        if self.rng.random() < 0.01:
            step = self.restart
        found = step()
        self.story.append(f"{step.__name__} {'' if found is None else found}")
        self.check()
        self.clock.ms += self.rng.choice((1, 50, 400, 1500))

    # Appends

    def append(self) -> object:
        """Of a producer without an id, or of an idempotent one."""
        pid = self.rng.choice([-1, *(pid for pid in self.bumps if self._known(pid).txn_first_offset < 0)])
        return self._append(pid, self._records(), transactional=False)

    def append_to_transaction(self) -> object:
        return self._append(self.rng.choice([*self.bumps]), self._records(), transactional=True)

    def append_again(self) -> None:
        """A duplicate has the offsets of the first time, a gap is refused, and neither is written."""
        for pid, known in self.model.producers().items():
            if known.last_offset is None:
                continue
            newest = next(batch for batch in reversed(self.model.written) if batch.last == known.last_offset)
            sent = encode_batch(
                [(self.clock.ms, b"k", b"v")] * (newest.last - newest.base + 1),
                producer_id=pid,
                producer_epoch=known.epoch,
                base_sequence=newest.sequence,
                transactional=newest.kind is Kind.IN_TRANSACTION,
            )
            result = self.log.append(sent, origin=Origin.CLIENT, leader_epoch=self.epoch)
            assert (result.duplicate, result.base_offset, result.last_offset) == (True, newest.base, newest.last)
            gap = encode_batch(
                [(self.clock.ms, b"k", b"v")],
                producer_id=pid,
                producer_epoch=known.epoch,
                base_sequence=known.last_sequence + 2,
                transactional=known.txn_first_offset >= 0,
            )
            with pytest.raises(AppendRefused) as refused:
                self.log.append(gap, origin=Origin.CLIENT, leader_epoch=self.epoch)
            assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def end_transaction(self) -> object:
        """Now and then of a producer that wrote nothing in it."""
        open_ones = [pid for pid in self.bumps if self._known(pid).txn_first_offset >= 0]
        pid = self.rng.choice(open_ones if open_ones and self.rng.random() < 0.9 else [*self.bumps])
        known, kind = self._known(pid), self.rng.choice(MARKERS)
        epoch = max(known.epoch, 0) + self.bumps[pid]
        data = encode_marker(
            ControlType.COMMIT if kind is Kind.COMMIT else ControlType.ABORT,
            producer_id=pid,
            producer_epoch=epoch,
            coordinator_epoch=self.epoch,
            timestamp=self.clock.ms,
        )
        result = self.log.append(data, origin=Origin.COORDINATOR, leader_epoch=self.epoch, transaction_version=2 if self.bumps[pid] else 1)
        row = Row(self.model.end, None, None, self.clock.ms, kind)
        self._appended(result.batches, [self._batch([row], pid=pid, epoch=epoch, sequence=-1, coordinator_epoch=self.epoch)])
        return f"{kind.value} of {pid}"

    def follow(self) -> object:
        """A follower gets batches with offsets, with the gaps of a compacted log."""
        if self.config.timestamp_type is TimestampType.LOG_APPEND_TIME or self.config.compression is not None:
            return "not"
        sent: list[Batch] = []
        data, base = b"", self.model.end
        for _ in range(self.rng.randrange(1, 4)):
            base += self.rng.randrange(3) if self.config.compacted else 0
            rows = [Row(base + number, *record, Kind.DATA) for number, record in enumerate(self._records())]
            codec = self.rng.choice((Codec.NONE, Codec.GZIP))
            data += encode_batch(
                [(row.timestamp, row.key, row.value) for row in rows], base_offset=base, leader_epoch=self.epoch, codec=codec
            )
            sent.append(self._batch(rows, pid=-1, epoch=-1, sequence=-1, codec=codec))
            base += len(rows)
        self._appended(self.log.append(data, origin=Origin.REPLICATION, leader_epoch=self.epoch).batches, sent)
        return [(batch.base, batch.last) for batch in sent]

    def _append(self, pid: int, records: list[tuple[bytes | None, bytes | None, int]], *, transactional: bool) -> object:
        known = self._known(pid)
        epoch, sequence = (-1, -1) if pid < 0 else (max(known.epoch, 0), known.last_sequence + 1)
        codec = self.rng.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD))
        data = encode_batch(
            [(timestamp, key, value) for key, value, timestamp in records],
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            codec=codec,
            transactional=transactional,
        )
        kind = Kind.IN_TRANSACTION if transactional else Kind.DATA
        appended = self.config.timestamp_type is TimestampType.LOG_APPEND_TIME
        rows = [
            Row(self.model.end + number, key, value, self.clock.ms if appended else timestamp, kind)
            for number, (key, value, timestamp) in enumerate(records)
        ]
        result = self.log.append(data, origin=Origin.CLIENT, leader_epoch=self.epoch)
        target = codec if self.config.compression is None else self.config.compression
        self._appended(result.batches, [self._batch(rows, pid=pid, epoch=epoch, sequence=sequence, codec=target)])
        return f"{len(rows)} of {pid} at {rows[0].offset}"

    def _batch(self, rows: list[Row], *, pid: int, epoch: int, sequence: int, codec: int = 0, coordinator_epoch: int = -1) -> Batch:
        return Batch(
            base=rows[0].offset,
            last=rows[-1].offset,
            rows=tuple(rows),
            kind=rows[0].kind,
            pid=pid,
            epoch=epoch,
            sequence=sequence,
            coordinator_epoch=coordinator_epoch,
            leader_epoch=self.epoch,
            max_timestamp=max(row.timestamp for row in rows),
            codec=codec,
        )

    def _appended(self, stored: tuple[tuple[BatchHeader, bytes], ...], sent: list[Batch]) -> None:
        assert len(stored) == len(sent)
        self.model.append([_with_data(batch, bytes(data)) for batch, (_, data) in zip(sent, stored, strict=True)])

    def _records(self) -> list[tuple[bytes | None, bytes | None, int]]:
        """Keys, values and timestamps, which come in no order."""
        rng = self.rng
        keys: list[bytes | None] = [b"k%d" % number for number in range(5)]
        if not self.config.compacted:
            keys.append(None)
        values = [None, b"", bytes(rng.randrange(60)), rng.randbytes(rng.randrange(30))]
        return [
            (rng.choice(keys), rng.choice(values), self.clock.ms + rng.choice((0, -rng.randrange(3000), rng.randrange(1000))))
            for _ in range(rng.randrange(1, 5))
        ]

    def _known(self, pid: int) -> Producer:
        return self.model.producers().get(pid, Producer())

    # What else happens

    def replicate(self) -> object:
        """The high watermark moves to the end of a batch, often the last one."""
        ends = [batch.last + 1 for batch in self.model.batches() if batch.last >= self.model.high_watermark]
        to = self.rng.choice([*ends, self.model.end, self.model.end, self.model.end])
        self._replicate(to)
        return to

    def _replicate(self, to: int) -> None:
        self.log.advance_high_watermark(to)
        self.model.high_watermark = max(self.model.high_watermark, to)

    def retain(self) -> object:
        modified = {segment.base_offset: segment.modified_ms for segment in self.log.segments}
        count = self.model.retain(self.clock.ms, modified.__getitem__)
        same("deleted segments", self.log.delete_old_segments(), count)
        return count

    def delete_records(self) -> object:
        """DeleteRecords, also in the middle of a batch; but not past the high watermark."""
        with pytest.raises(OffsetOutOfRange):
            self.log.advance_log_start(self.model.high_watermark + 1)
        to = self.rng.randrange(self.model.start, self.model.high_watermark + 1)
        self.log.advance_log_start(to)
        self.model.delete_records(to)
        return to

    def compact(self) -> object:
        """A pass of the cleaner, if it is due. Afterwards the log is synced, because a start that reads compacted batches again finds older
        times of their producers."""
        now_ms, keys_max = self.clock.ms, self.rng.choice((3, 1000, 1000))
        what = log_to_clean(self.log, now_ms=now_ms)
        expected = self.model.to_clean(now_ms, self.log.last_stable_offset)
        same("what may be compacted", what[1:], tuple(expected))
        share = expected.cleanable_bytes / max(1, expected.clean_bytes + expected.cleanable_bytes)
        is_due = share > self.config.min_cleanable_dirty_ratio or (expected.is_overdue and expected.cleanable_bytes > 0)
        assert what.is_worth_it == is_due
        if not is_due:
            return "not due"
        for _ in clean(what, keys_max=keys_max, now_ms=now_ms):
            pass
        self.model.compact(expected, now_ms, keys_max)
        assert self.log.first_dirty_offset == self.model.dirty
        self.floor = max(self.floor, self.model.rewritten_to)
        self.log.flush()
        self.model.sync()
        self.checkpoint()
        return expected

    def expire(self) -> object:
        """Producers that wrote nothing for some time are forgotten. As in Kafka they are back when their batches are read again. So a new
        segment begins here, from which every later start reads."""
        self._replicate(self.model.end)
        after_ms = self.rng.choice((0, 1000, 5000))
        self.log.config = replace(self.config, producer_id_expiration_ms=after_ms)
        gone = self.model.expire(self.clock.ms, after_ms)
        same("expired producers", {*self.log.expire_producers()}, gone)
        self.log.config = self.config
        self.log._roll(self.model.end, now_ms=self.clock.ms)
        self.model.roll(self.model.end)
        self._close()
        self.floor = self.model.end
        return gone

    def truncate(self) -> object:
        """A follower's log loses its end, which its new leader does not have. It was not replicated, or the election was unclean."""
        model = self.model
        limit = max(self.floor, model.start, model.high_watermark if self.rng.random() < 0.7 else 0)
        to = self.rng.choice([*(batch.base for batch in model.batches() if batch.base >= limit), model.end])
        self.log.truncate(to)
        model.truncate(to)
        self.begin_epoch()
        return to

    def restart(self) -> object:
        """A follower's log begins anew where its leader's begins."""
        to = self.model.end + self.rng.randrange(1, 20)
        self.log.restart_at(to)
        self.model.restart_at(to)
        self.floor = to
        self.begin_epoch()
        return to

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.lead(self.epoch)

    def checkpoint(self) -> None:
        log = self.log
        self.checkpoints = Checkpoints(log.log_start_offset, log.high_watermark, log.first_dirty_offset, log.recovery_point)

    def close_and_load(self) -> None:
        """A clean shutdown."""
        self._close()
        self._load(recovery_point=None)

    def kill(self) -> None:
        """The next process finds everything that was written."""
        self._load(recovery_point=self.checkpoints.recovery_point)

    def lose_power(self) -> object:
        """Bytes that were not synced are lost, torn or kept, each write by itself."""
        self.directory.sync()
        self.directory.lose_power(self.rng)
        promised = self.model.synced
        self._load(recovery_point=self.checkpoints.recovery_point, promised=promised)
        return f"{promised} promised, {self.model.end} there"

    def _close(self) -> None:
        self.log.close()
        self.model.sync()
        self.checkpoint()

    def _load(self, *, recovery_point: int | None, promised: int | None = None) -> None:
        model, known = self.model, self.checkpoints
        self.log = PartitionLog.load(
            self.directory,
            clock_ms=self.clock,
            config=self.config,
            log_start_offset=known.log_start_offset,
            high_watermark=known.high_watermark,
            first_dirty_offset=known.first_dirty_offset,
            recovery_point=recovery_point,
        )
        self.log.replicated_at_once = False
        model.forget_gap()
        end = self.log.log_end_offset
        if promised is not None:
            # The log may end at any batch after what was synced. Where its start was lost as well, it begins anew there.
            # A truncation may end in a gap, which is gone when the log is read from its batches, and what came after it is lost.
            kept = (batch.last + 1 for batch in model.batches() if batch.last < promised)
            promised = min(promised, max([model.segments[-1].base, *kept]))
            had_nothing = model.segments[0].base == end  # Then nothing was lost, and its producers stay.
            begins_anew = promised <= known.log_start_offset == end and not self.log.size and not had_nothing
            ends = {batch.last + 1 for batch in model.written} | {model.segments[-1].base, model.end}
            assert begins_anew or (promised <= end and end in ends), f"{end} is no end of a batch past {promised}"
            if begins_anew:
                model.restart_at(end)
                self.floor = end
            else:
                model.truncate(end)
            model.synced = end
        model.start = max(known.log_start_offset, model.segments[0].base)
        model.high_watermark = min(max(known.high_watermark, model.start), model.end)
        model.dirty = min(max(known.first_dirty_offset, model.start), model.end)
        model.recovery_point = model.end if recovery_point is None else min(recovery_point, model.end)
        model.reloaded_at = model.end
        self.begin_epoch()

    # What must hold

    def check(self) -> None:
        """The log is what its model says, for each kind of reader."""
        self._check_batches()
        self._check_offsets()
        self._check_producers()
        self._check_reads()
        self._check_times()

    def _check_batches(self) -> None:
        """Segment by segment. The model gets the bytes of compacted batches."""
        same("segments", [segment.base_offset for segment in self.log.segments], [segment.base for segment in self.model.segments])
        for ours, theirs in zip(self.log.segments, self.model.segments, strict=True):
            found = [(header, bytes(data)) for header, data in ours.batches()]
            same("batches", [facts(header, data) for header, data in found], [expected_facts(batch) for batch in theirs.batches])
            for batch, (_, data) in zip(theirs.batches, found, strict=True):
                assert batch.data in (None, data), f"other bytes at {batch.base}"
            theirs.batches = [_with_data(batch, data) for batch, (_, data) in zip(theirs.batches, found, strict=True)]
            same("largest timestamp", ours.largest_timestamp, theirs.largest_timestamp)

    def _check_offsets(self) -> None:
        log, model = self.log, self.model
        same("offsets", (log.log_start_offset, log.high_watermark, log.log_end_offset), (model.start, model.high_watermark, model.end))
        lowest, highest = model.last_stable_offsets()
        assert lowest <= log.last_stable_offset <= highest, f"last stable offset {log.last_stable_offset}, not {lowest} to {highest}"
        assert log.offset_for_timestamp(EARLIEST).offset == model.start
        assert log.offset_for_timestamp(LATEST).offset == model.high_watermark
        assert log.offset_for_timestamp(LATEST, read_committed=True).offset == log.last_stable_offset
        assert log.size == sum(segment.size for segment in model.segments)

    def _check_producers(self) -> None:
        found = {
            each.producer_id: (
                *(each.producer_epoch, each.last_sequence, each.last_timestamp),
                *(each.coordinator_epoch, each.current_txn_start_offset),
            )
            for each in self.log.active_producers()
        }
        expected = {
            pid: (each.epoch, each.last_sequence, each.last_timestamp, each.coordinator_epoch, each.txn_first_offset)
            for pid, each in self.model.producers().items()
        }
        same("producers", found, expected)
        aborted = [(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset) for txn in self.log.aborted_transactions]
        same("aborted transactions", aborted, [(txn.pid, txn.first, txn.marker, txn.stable) for txn in self.model.aborted()])

    def _check_reads(self) -> None:
        """From every offset: of consumers of both kinds, and of a replica."""
        log, model = self.log, self.model
        transactions = model.transactions()
        told = {(txn.pid, txn.first, txn.marker) for txn in model.aborted()}
        stable = log.last_stable_offset
        for outside in (model.start - 1, model.end + 1):
            with pytest.raises(OffsetOutOfRange):
                log.read(outside, max_bytes=WHOLE)
        for offset in range(model.start, model.end + 1):
            max_bytes = self.rng.choice((1, 200, 400, WHOLE))
            readers = ((False, False, model.high_watermark), (False, True, model.end), (True, False, stable))
            for committed, for_replica, readable in readers:
                found = log.read(offset, max_bytes=max_bytes, read_committed=committed, for_replica=for_replica)
                same(f"{max_bytes} bytes from {offset} before {readable}", bytes(found.records), model.read(offset, readable, max_bytes))
            assert {(txn.producer_id, txn.first_offset, txn.last_offset) for txn in found.aborted or ()} <= told
            for header, _ in iter_batches(found.records):
                if header.is_transactional and not header.is_control and header.records_count:
                    batch = next(batch for batch in model.batches() if batch.base == header.base_offset)
                    txn = model.txn_of(batch, transactions)
                    assert txn is not None
                    is_skipped = any(each.covers(header) for each in found.aborted or ())
                    assert is_skipped == (txn.kind is Kind.ABORT), f"a reader at {offset} and the batch at {batch.base}"

    def _check_times(self) -> None:
        log, model = self.log, self.model
        modified = {segment.base_offset: segment.modified_ms for segment in log.segments}
        times = sorted({row.timestamp + more for row in model.rows() for more in (0, 1)})
        for timestamp in [0, *self.rng.sample(times, min(12, len(times)))]:
            for committed, end in ((False, model.high_watermark), (True, log.last_stable_offset)):
                found = log.offset_for_timestamp(timestamp, read_committed=committed)
                same(
                    f"time {timestamp}",
                    (found.offset, found.timestamp, found.leader_epoch),
                    model.at_time(timestamp, end, modified.__getitem__),
                )
        found = log.offset_for_timestamp(MAX_TIMESTAMP)
        same("the newest time", (found.offset, found.timestamp, found.leader_epoch), model.at_newest_time(model.high_watermark))


def run(seed: object, steps: int) -> None:
    """One history. A failure names its last steps."""
    history = ListHistory(seed)
    for _ in range(steps):
        try:
            history.act()
        except AssertionError as error:
            last = "\n  ".join(history.story[-6:])
            raise AssertionError(f"seed {seed}, step {len(history.story)}, after\n  {last}\n{error}") from error


def same(what: str, found: object, expected: object) -> None:
    assert found == expected, f"{what}:\n  the log has   {found}\n  the model has {expected}"


def facts(header: BatchHeader, data: bytes) -> Facts:
    """What the log says of a batch."""
    records = read_records(data)
    if header.is_control:
        kind = None
        if records:
            kind = Kind.COMMIT if read_marker(data)[0] == ControlType.COMMIT else Kind.ABORT
        rows: list[Facts] = [(record.offset, None, None, record.timestamp, kind) for record in records]
    else:
        kind = Kind.IN_TRANSACTION if header.is_transactional else Kind.DATA
        rows = [(record.offset, record.key, record.value, record.timestamp, kind) for record in records]
    return (
        *(header.base_offset, header.last_offset, header.is_control, header.is_transactional, rows),
        *(header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch),
        *(header.max_timestamp, header.codec, header.delete_horizon_ms, read_header(data).size == len(data)),
    )


def expected_facts(batch: Batch) -> Facts:
    """What the model says of it."""
    return (
        *(batch.base, batch.last, batch.kind in MARKERS, batch.kind is not Kind.DATA, [tuple(row) for row in batch.rows]),
        *(batch.pid, batch.epoch, batch.sequence, batch.leader_epoch),
        *(batch.max_timestamp, batch.codec, batch.horizon, True),
    )


def _with_data(batch: Batch, data: bytes) -> Batch:
    return batch if batch.data is not None else Batch(**{**batch.__dict__, "data": data})
