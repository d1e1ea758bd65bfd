"""A partition's log as a plain list: of batches in segments, each with its records (offset, key, value, timestamp, kind).

It follows Kafka's description of rolls, retention, compaction and truncation, and searches its lists each time: it has no index, no offset
map, no snapshot, and no state that is updated besides the lists and offsets. It encodes nothing, so it takes the bytes of a compacted batch
from the log, after it has decided by itself which records these have. The time of an empty segment's last change comes from the log, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import takewhile
from typing import NamedTuple

from fencepost.broker_stub.log import LogConfig
from fencepost.broker_stub.log.config import TimestampType


class Kind(Enum):
    """What a record is."""

    DATA = "data"
    IN_TRANSACTION = "data in a transaction"
    COMMIT = "commit"
    ABORT = "abort"


MARKERS = (Kind.COMMIT, Kind.ABORT)


class Row(NamedTuple):
    """One record. A marker's key and value are left out."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Batch:
    """`rows`: those that are left. `data`: None until the log has encoded it."""

    base: int
    last: int
    rows: tuple[Row, ...]
    kind: Kind
    pid: int
    epoch: int
    sequence: int
    coordinator_epoch: int = -1
    leader_epoch: int
    max_timestamp: int
    codec: int
    horizon: int | None = None
    data: bytes | None = None

    @property
    def size(self) -> int:
        assert self.data is not None
        return len(self.data)

    @property
    def last_sequence(self) -> int:
        return self.sequence + self.last - self.base


@dataclass
class Segment:
    base: int
    batches: list[Batch] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.batches)

    @property
    def largest_timestamp(self) -> int:
        return max((batch.max_timestamp for batch in self.batches), default=-1)

    @property
    def first_timestamp(self) -> int:
        return self.batches[0].max_timestamp if self.batches else -1


@dataclass
class Producer:
    """A producer after all its batches. `last_offset`: of its newest data in its epoch."""

    epoch: int = -1
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    txn_first_offset: int = -1
    last_offset: int | None = None


class Txn(NamedTuple):
    """A transaction. `marker`: the offset of its end; None while it is open. `stable`: the last stable offset when it ended."""

    pid: int
    first: int
    marker: int | None
    kind: Kind | None
    stable: int


class ToClean(NamedTuple):
    """What of the log may be compacted, as LogToClean has it."""

    dirty: int
    end: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool


class ListModel:
    """See the module. `written`: every batch that was appended and not truncated, as it was. `segments`: what is left of them.

    `forgotten`: a producer's batches before that offset do not count, because it has expired. `indexed`: the markers of the aborted
    transactions of which readers are told. `reloaded_at`: the end of the log when its producers were last restored from a snapshot, which
    does not name transactions whose markers are not replicated. `synced`: what is before it survives a loss of power; `recovery_point`: the
    same as the log knows it, which is older after a kill. `rewritten_to`: the end of the segments that were compacted.
    """

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.written: list[Batch] = []
        self.segments = [Segment(0)]
        self.start = self.end = self.high_watermark = self.dirty = self.rewritten_to = self.reloaded_at = 0
        self.synced = self.recovery_point = 0
        self.forgotten: dict[int, int] = {}
        self.indexed: set[int] = set()

    # What there is

    def batches(self) -> Iterator[Batch]:
        for segment in self.segments:
            yield from segment.batches

    def rows(self) -> list[Row]:
        """The records that a reader from the log's start finds."""
        return [row for batch in self.batches() for row in batch.rows if row.offset >= self.start]

    def producers(self) -> dict[int, Producer]:
        found: dict[int, Producer] = {}
        for batch in self.written:
            if batch.pid < 0 or batch.base < self.forgotten.get(batch.pid, 0):
                continue
            known = found.setdefault(batch.pid, Producer())
            if batch.epoch != known.epoch:
                known.last_sequence, known.last_offset = -1, None
            known.epoch, known.last_timestamp = batch.epoch, batch.max_timestamp
            if batch.kind in MARKERS:
                known.coordinator_epoch, known.txn_first_offset = batch.coordinator_epoch, -1
                continue
            known.last_sequence, known.last_offset = batch.last_sequence, batch.last
            if batch.kind is Kind.IN_TRANSACTION and known.txn_first_offset < 0:
                known.txn_first_offset = batch.base
        return found

    def transactions(self) -> list[Txn]:
        """Those that ended, in the order of their markers, then the open ones."""
        found: list[Txn] = []
        opened: dict[int, int] = {}
        for batch in self.written:
            if batch.kind is Kind.IN_TRANSACTION:
                opened.setdefault(batch.pid, batch.base)
            elif batch.kind in MARKERS and batch.pid in opened:
                first = opened.pop(batch.pid)
                found.append(Txn(batch.pid, first, batch.base, batch.kind, min(opened.values(), default=batch.base + 1)))
        return [*found, *(Txn(pid, first, None, None, -1) for pid, first in opened.items())]

    def txn_of(self, batch: Batch, transactions: list[Txn]) -> Txn | None:
        """The transaction of a data batch or marker."""
        for txn in transactions:
            if txn.pid == batch.pid and txn.first <= batch.base and (txn.marker is None or batch.base <= txn.marker):
                return txn
        return None

    def aborted(self) -> list[Txn]:
        return [txn for txn in self.transactions() if txn.kind is Kind.ABORT and txn.marker in self.indexed]

    def last_stable_offsets(self) -> tuple[int, int]:
        """The lowest and the highest that it may be. They differ only after the producers were restored from a snapshot."""
        unstable = [txn for txn in self.transactions() if txn.marker is None or txn.marker >= self.high_watermark]
        sure = [txn for txn in unstable if txn.marker is None or txn.marker >= self.reloaded_at]
        return self._stable(unstable), self._stable(sure)

    def _stable(self, unstable: list[Txn]) -> int:
        stable = min([self.high_watermark, *(txn.first for txn in unstable)])
        if stable >= self.start:
            return stable
        return min(self.high_watermark, next((batch.base for batch in self.batches() if batch.last >= self.start), self.end))

    # What readers find

    def read(self, offset: int, readable: int, max_bytes: int) -> bytes:
        """The bytes that a reader gets: from the batch with the offset on, in its segment."""
        for segment in self.segments:
            batches = [batch for batch in segment.batches if batch.last >= offset]
            if batches:
                found = [batch.data or b"" for batch in takewhile(lambda batch: batch.last < readable, batches)]
                return b"".join(found)[: max(max_bytes, batches[0].size)]
        return b""

    def at_time(self, timestamp: int, end: int, modified_ms: Callable[[int], int]) -> tuple[int, int, int]:
        """(offset, timestamp, leader epoch) of the first record at or past the timestamp; -1 without one before `end`. Kafka looks into the
        first segment with such a record alone, though that may be below the log start. For a segment that compaction has emptied, the time
        of its last change counts."""
        newest = [each.largest_timestamp if each.batches else modified_ms(each.base) for each in self.segments]
        segment = next((each for each, newest_ms in zip(self.segments, newest, strict=True) if newest_ms >= timestamp), None)
        for batch in segment.batches if segment is not None else ():
            for row in batch.rows:
                if row.timestamp >= timestamp and row.offset >= self.start:
                    return (row.offset, row.timestamp, batch.leader_epoch) if row.offset < end else (-1, -1, -1)
        return -1, -1, -1

    def at_newest_time(self, end: int) -> tuple[int, int, int]:
        """The same of the first record with the largest timestamp, which may be below the log start."""
        newest = max((batch.max_timestamp for batch in self.batches()), default=-1)
        batch = next((each for each in self.batches() if each.max_timestamp == newest), None)
        for row in batch.rows if batch is not None else ():
            if row.timestamp == newest:
                return (row.offset, row.timestamp, batch.leader_epoch) if batch is not None and row.offset < end else (-1, -1, -1)
        return -1, -1, -1

    # What happens

    def append(self, batches: list[Batch]) -> None:
        """One append, which is not split over segments."""
        active, config = self.segments[-1], self.config
        waited_ms = max(batch.max_timestamp for batch in batches) - active.first_timestamp
        if active.size + sum(batch.size for batch in batches) > config.segment_bytes or (
            active.batches and waited_ms > (min(config.segment_ms, config.max_compaction_lag_ms) if config.compacted else config.segment_ms)
        ):
            self.roll(batches[0].base)
        self.segments[-1].batches += batches
        self.written += batches
        self.end = batches[-1].last + 1
        self.indexed |= {batch.base for batch in batches if batch.kind is Kind.ABORT}
        if self.end - self.recovery_point >= config.flush_messages:
            self.sync()

    def roll(self, base: int) -> None:
        if not self.segments[-1].batches and self.segments[-1].base == base:
            self.segments.pop()
        self.segments.append(Segment(base))
        self.synced = self.recovery_point = base

    def sync(self) -> None:
        self.synced = self.recovery_point = self.end

    def delete_records(self, offset: int) -> None:
        self.start = max(self.start, offset)

    def retain(self, now_ms: int, modified_ms: Callable[[int], int]) -> int:
        """Retention: the number of segments that go."""
        count = 0
        rules: list[Callable[[Segment, int], bool]] = [lambda segment, beyond: beyond <= self.start and segment is not self.segments[-1]]
        if self.config.deletes and self.config.retention_bytes >= 0:
            rules.append(lambda segment, _: sum(each.size for each in self.segments[count:]) - segment.size >= self.config.retention_bytes)
        if self.config.deletes and self.config.retention_ms >= 0:
            rules.append(
                lambda segment, _: (
                    now_ms - (segment.largest_timestamp if segment.batches else modified_ms(segment.base)) > self.config.retention_ms
                )
            )
        for rule in rules:
            while count < len(self.segments):
                segment, is_last = self.segments[count], count + 1 == len(self.segments)
                beyond = self.end if is_last else self.segments[count + 1].base
                if self.high_watermark < beyond or (is_last and not segment.batches) or not rule(segment, beyond):
                    break
                count += 1
        if count == len(self.segments):
            self.roll(self.end)
        if count:
            del self.segments[:count]
            self.delete_records(self.segments[0].base)
            self.indexed = {marker for marker in self.indexed if marker >= self.segments[0].base}
        return count

    def expire(self, now_ms: int, after_ms: int) -> set[int]:
        gone = {pid for pid, each in self.producers().items() if each.txn_first_offset < 0 and now_ms - each.last_timestamp >= after_ms}
        self.forgotten.update(dict.fromkeys(gone, self.end))
        return gone

    def truncate(self, offset: int) -> None:
        """The log loses its end."""
        if offset >= self.end:
            return
        self.segments = [segment for segment in self.segments if segment.base <= offset]
        self.segments[-1].batches = [batch for batch in self.segments[-1].batches if batch.last < offset]
        self.written = [batch for batch in self.written if batch.last < offset]
        self.indexed = {marker for marker in self.indexed if marker < offset}
        self.end = self.reloaded_at = offset
        self.start, self.dirty = min(self.start, offset), min(self.dirty, offset)
        self.high_watermark, self.synced = min(self.high_watermark, offset), min(self.synced, offset)
        self.recovery_point = min(self.recovery_point, offset)

    def forget_gap(self) -> None:
        """A log that is read again ends where its last batch ends."""
        active = self.segments[-1]
        self.end = active.batches[-1].last + 1 if active.batches else active.base

    def restart_at(self, offset: int) -> None:
        """The log loses everything."""
        self.__init__(self.config)  # type: ignore[misc]
        self.segments = [Segment(offset)]
        self.start = self.end = self.high_watermark = self.dirty = self.reloaded_at = offset
        self.sync()

    # Compaction

    def to_clean(self, now_ms: int, stable: int) -> ToClean:
        config, active = self.config, self.segments[-1].base
        dirty = self.dirty if self.start <= self.dirty <= self.end else self.start
        dirty_ones = [segment for segment, end in self._with_ends() if end > dirty and segment.base < active]
        young = [
            each.base
            for each in dirty_ones
            if config.min_compaction_lag_ms > 0 and each.largest_timestamp > now_ms - config.min_compaction_lag_ms
        ]
        beyond = max(dirty, min([stable, active, *young]))
        end = max(segment.base for segment in self.segments if segment.base <= beyond)  # it cleans whole segments
        first = min((each.first_timestamp for each in dirty_ones if each.first_timestamp > 0), default=now_ms)
        return ToClean(
            dirty,
            end,
            sum(segment.size for segment in self.segments if segment.base < dirty),
            sum(segment.size for segment in dirty_ones if segment.base < end) if dirty < end else 0,
            first < now_ms - config.max_compaction_lag_ms,
        )

    def compact(self, what: ToClean, now_ms: int, keys_max: int) -> None:
        """One pass: what survives, by Kafka's rules."""
        transactions = self.transactions()
        newest, noted_to = self._newest(what, transactions, keys_max)
        active_producers = self.producers()
        met: set[Txn] = set()
        groups: list[list[Segment]] = []
        for segment in self.segments:
            if segment.base >= noted_to:
                break
            if groups and sum(each.size for each in [*groups[-1], segment]) <= self.config.segment_bytes:
                groups[-1].append(segment)
            else:
                groups.append([segment])
        rest = self.segments[sum(map(len, groups)) :]
        self.segments = []
        for group in groups:
            compacted = Segment(group[0].base)
            for batch in (batch for segment in group for batch in segment.batches):
                txn = self.txn_of(batch, transactions)
                if batch.kind is Kind.IN_TRANSACTION and txn is not None:
                    met.add(txn)
                is_orphan = batch.kind in MARKERS and (not batch.rows or txn not in met)
                left = [row for row in batch.rows if self._stays(row, batch, txn, is_orphan, newest, noted_to, now_ms)]
                if batch.kind is Kind.ABORT and batch.rows and txn not in met:
                    self.indexed.discard(batch.base)
                if left:
                    compacted.batches.append(self._with(batch, left, is_orphan, now_ms))
                elif self._is_newest_of(active_producers.get(batch.pid), batch) or batch.last + 1 == what.end:
                    compacted.batches.append(replace(batch, rows=(), horizon=None, codec=0, data=None) if batch.rows else batch)
            self.segments.append(compacted)
        self.segments += rest
        self.dirty = noted_to
        self.rewritten_to = max(self.rewritten_to, rest[0].base)

    def _newest(self, what: ToClean, transactions: list[Txn], keys_max: int) -> tuple[dict[bytes, int], int]:
        """The newest offset of each key in the dirty part, and where the part ends that could be noted."""
        newest: dict[bytes, int] = {}
        noted_to = what.dirty
        for segment, end in self._with_ends():
            if end <= what.dirty or segment.base >= what.end:
                continue
            for batch in segment.batches:
                txn = self.txn_of(batch, transactions)
                if batch.kind not in MARKERS and (txn is None or txn.kind is not Kind.ABORT):
                    for row in batch.rows:
                        if row.offset < what.dirty:
                            continue
                        if len(newest) >= keys_max:
                            return newest, noted_to
                        assert row.key is not None
                        newest[row.key] = row.offset
                        noted_to = row.offset + 1
                noted_to = max(noted_to, batch.last + 1)
            noted_to = max(noted_to, end)
        return newest, noted_to

    def _stays(
        self, row: Row, batch: Batch, txn: Txn | None, is_orphan: bool, newest: dict[bytes, int], noted_to: int, now_ms: int
    ) -> bool:
        is_due = batch.horizon is not None and batch.horizon <= now_ms
        if batch.kind in MARKERS:
            return not (is_orphan and is_due)
        if txn is not None and txn.kind is Kind.ABORT:
            return False
        if row.offset >= noted_to:
            return True
        assert row.key is not None
        return row.offset >= newest.get(row.key, -1) and not (row.value is None and is_due)

    def _with(self, batch: Batch, left: list[Row], is_orphan: bool, now_ms: int) -> Batch:
        horizon = batch.horizon
        if horizon is None and (is_orphan or (batch.kind not in MARKERS and any(row.value is None for row in left))):
            horizon = now_ms + self.config.delete_retention_ms
        if len(left) == len(batch.rows) and horizon == batch.horizon:
            return batch
        appended = self.config.timestamp_type is TimestampType.LOG_APPEND_TIME
        newest = batch.max_timestamp if appended else max(row.timestamp for row in left)
        return replace(batch, rows=tuple(left), horizon=horizon, max_timestamp=newest, data=None)

    def _is_newest_of(self, producer: Producer | None, batch: Batch) -> bool:
        """Whether a producer that is known would lose its sequence or its epoch with the batch."""
        if producer is None:
            return False
        if producer.last_offset is not None:
            return batch.last == producer.last_offset
        return batch.kind in MARKERS and batch.epoch == producer.epoch

    def _with_ends(self) -> list[tuple[Segment, int]]:
        return list(zip(self.segments, [*(segment.base for segment in self.segments[1:]), self.end], strict=True))
