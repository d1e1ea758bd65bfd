"""Random histories of a log whose process ends again and again, with and without a loss of power.

The reference is every record that was ever written, by its offset. After each start of the log it has what it must have of these, and no
byte of anything else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from fencepost.broker_stub.log import LogConfig, Origin, PartitionLog
from fencepost.broker_stub.log.cleaner.cleaner import clean
from fencepost.broker_stub.log.cleaner.log_to_clean import log_to_clean
from fencepost.broker_stub.storage.directory import Directory
from fencepost.producer.wire.records import ControlType, encode_batch, encode_marker, read_records
from tests.broker_stub.log.log_tools import SetClock


@dataclass
class Producer:
    """A transactional producer."""

    pid: int
    sequence: int = 0
    open: bool = False


@dataclass
class Checkpoints:
    """What the checkpoints of a log.dir say, as old as they may be."""

    log_start_offset: int = 0
    high_watermark: int = 0
    first_dirty_offset: int = 0
    recovery_point: int = 0


@dataclass
class History:
    """One log in a directory. `reopened`: the directory as the next process finds it."""

    rng: random.Random
    directory: Directory
    compacted: bool = False
    flush_messages: int = 1
    clock: SetClock = field(default_factory=SetClock)
    written: dict[int, bytes | None] = field(default_factory=dict)  # value by offset; None for a marker
    keys: dict[int, bytes] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    decided: dict[int, bool] = field(default_factory=dict)  # whether its transaction commits, by the record's offset
    finished: int = 0  # the end of the log after the last append that returned
    truncating_to: int | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    epoch: int = 0

    def __post_init__(self) -> None:
        rng = self.rng
        self.config = LogConfig(
            segment_bytes=rng.choice((700, 2000, 8000)),
            segment_index_bytes=rng.choice((60, 4096)),
            index_interval_bytes=rng.choice((0, 200, 4096)),
            flush_messages=self.flush_messages,
            compacted=self.compacted,
            deletes=not self.compacted,
            retention_bytes=rng.choice((3000, -1)),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=1 << 40,
        )
        self.producers = [Producer(pid) for pid in range(3)]
        self.log = PartitionLog(clock_ms=self.clock, config=self.config, directory=self.directory)
        self.log.lead(0)

    # What happens

    def act(self) -> None:
        """One random step."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (12, self.append),
            (5, self.transact),
            (1, self.truncate),
            (1, self.retain),
            (2, self.checkpoint),
            (1, self.begin_epoch),
            (2 if self.compacted else 0, self.compact),
        ]
        self.rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()
        self.clock.ms += self.rng.randrange(100)

    def append(self) -> None:
        self._append(self.rng.choice(self.producers))

    def transact(self) -> None:
        """Begins a transaction or ends it."""
        producer = self.rng.choice(self.producers)
        if not producer.open:
            producer.open = True
            self._append(producer)
            return
        start = self.log.log_end_offset
        first = next(each.current_txn_start_offset for each in self.log.active_producers() if each.producer_id == producer.pid)
        offsets = self._offsets_of(producer.pid, first, start)
        # A coordinator writes a lost marker again.
        commit = next((self.decided[offset] for offset in offsets if offset in self.decided), self.rng.random() < 0.5)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        self.decided.update(dict.fromkeys(offsets, commit))
        self.written[start] = None
        if not commit:
            self.aborted.update(offsets)
        producer.open = False
        data = encode_marker(kind, producer_id=producer.pid, producer_epoch=0, coordinator_epoch=0, timestamp=self.clock.ms)
        self.log.append(data, origin=Origin.COORDINATOR, leader_epoch=self.epoch, transaction_version=1)
        self.finished = self.log.log_end_offset

    def truncate(self) -> None:
        """A follower's log loses its end, where the leader's log differs."""
        if self.compacted:
            return
        to = self.rng.randrange(max(self.log.log_start_offset, self.finished - 8), self.finished + 1)
        starts = {self.log.log_end_offset, *(header.base_offset for header, _ in self.log.batches())}
        self.truncating_to = to = max((start for start in starts if start <= to), default=self.log.log_start_offset)
        self.log.truncate(to)
        self.truncated(to)

    def truncated(self, to: int) -> None:
        self._forget_from(to)
        self.finished, self.truncating_to = to, None
        self.resume_producers()
        self.begin_epoch()

    def retain(self) -> None:
        self.log.delete_old_segments()

    def compact(self) -> None:
        for _ in clean(log_to_clean(self.log, now_ms=self.clock.ms), keys_max=1000, now_ms=self.clock.ms):
            pass

    def checkpoint(self) -> None:
        log = self.log
        self.checkpoints = Checkpoints(log.log_start_offset, log.high_watermark, log.first_dirty_offset, log.recovery_point)

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.lead(self.epoch)

    def load(self, *, clean_shutdown: bool) -> None:
        """The log of the next process."""
        if clean_shutdown:
            self.log.close()
            self.checkpoint()
        known = self.checkpoints
        self.log = PartitionLog.load(
            self.directory,
            clock_ms=self.clock,
            config=self.config,
            log_start_offset=known.log_start_offset,
            high_watermark=known.high_watermark,
            first_dirty_offset=known.first_dirty_offset,
            recovery_point=None if clean_shutdown else known.recovery_point,
        )

    def go_on(self) -> None:
        """After `check`: what a power failure took does not count any more."""
        end = self.log.log_end_offset
        self.log.advance_high_watermark(end)
        self._forget_from(end)
        self.finished, self.truncating_to = end, None
        self.resume_producers()
        self.begin_epoch()

    def resume_producers(self) -> None:
        """Producers go on as the log knows them."""
        known = {each.producer_id: each for each in self.log.active_producers()}
        for producer in self.producers:
            state = known.get(producer.pid)
            producer.sequence = 0 if state is None else state.last_sequence + 1
            producer.open = state is not None and state.current_txn_start_offset >= 0

    # What must hold

    def check(self) -> None:
        """The records are those that were written, from the log's start to its end, and nothing that was promised is missing."""
        log = self.log
        promised = min(self.finished, self.truncating_to) if self.truncating_to is not None else self.finished
        if self.flush_messages == 1:
            assert log.log_end_offset >= promised, f"the log ends at {log.log_end_offset}, and {promised} was promised"
        there: dict[int, bytes | None] = {}
        last = -1
        for header, batch in log.batches():
            assert header.base_offset > last
            last = header.last_offset
            for record in read_records(batch):
                there[record.offset] = None if header.is_control else record.value
        assert not [offset for offset in there if offset not in self.written], "records that were never written"
        assert not [offset for offset, value in there.items() if self.written[offset] != value], "records that are changed"
        readable = range(log.log_start_offset, log.log_end_offset)
        if not self.compacted:
            assert [offset for offset in there if offset in readable] == [*readable], "records are missing"
        else:
            newest: dict[bytes, int] = {}
            for offset in readable:
                if offset in self.keys and offset not in self.aborted and self.written.get(offset) is not None:
                    newest[self.keys[offset]] = offset
            assert not [offset for offset in newest.values() if offset not in there], "the newest record of a key is missing"
        self._check_lookups(there)
        self._check_aborted()
        self._check_files()

    def _check_lookups(self, there: dict[int, bytes | None]) -> None:
        log = self.log
        for offset in self.rng.sample(sorted(there), min(4, len(there))):
            if offset >= log.log_start_offset:
                batch = next(log._local.batches_from(offset))[0]
                assert batch.base_offset <= offset <= batch.last_offset
        times = [(record.timestamp, record.offset) for _, batch in log.batches() for record in read_records(batch)]
        log.advance_high_watermark(log.log_end_offset)
        for timestamp, _ in self.rng.sample(times, min(3, len(times))):
            base = next(segment.base_offset for segment in log.segments if segment.newest_ms >= timestamp)
            beyond = next((segment.base_offset for segment in log.segments if segment.base_offset > base), log.log_end_offset)
            first = next((offset for at, offset in times if at >= timestamp and max(base, log.log_start_offset) <= offset < beyond), -1)
            assert log.offset_for_timestamp(timestamp).offset == first

    def _check_aborted(self) -> None:
        """Readers are told of each aborted transaction that still has records, and of no other."""
        stable = self.log.last_stable_offset
        ended = [
            (offset, any(txn.covers(header) for txn in self.log.aborted_transactions))
            for header, _ in self.log.batches()
            if header.is_transactional and not header.is_control and header.records_count
            for offset in range(header.base_offset, header.last_offset + 1)
            if offset < stable
        ]
        assert not [offset for offset, is_aborted in ended if is_aborted != (offset in self.aborted)]

    def _check_files(self) -> None:
        """Nothing is left of what was interrupted, and epochs and offsets rise."""
        names = self.directory.names()
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".tmp"))]
        assert [name for name in names if name.endswith(".log")] == [f"{segment.base_offset:020}.log" for segment in self.log.segments]
        assert all(earlier[0] < later[0] and earlier[1] <= later[1] for earlier, later in pairwise(self.log.epochs))

    def _forget_from(self, end: int) -> None:
        self.written = {offset: value for offset, value in self.written.items() if offset < end}
        self.aborted = {offset for offset in self.aborted if offset < end}
        self.decided = {offset: commit for offset, commit in self.decided.items() if offset < end}

    def _append(self, producer: Producer) -> None:
        rng, start = self.rng, self.log.log_end_offset
        count = rng.randrange(1, 4)
        records = [(self.clock.ms - rng.randrange(50), b"k%d" % rng.randrange(6), rng.randbytes(rng.randrange(60))) for _ in range(count)]
        for offset, (_, key, value) in enumerate(records, start):
            self.written[offset], self.keys[offset] = value, key
        data = encode_batch(
            records, producer_id=producer.pid, producer_epoch=0, base_sequence=producer.sequence, transactional=producer.open
        )
        self.log.append(data, origin=Origin.CLIENT, leader_epoch=self.epoch)
        producer.sequence += count
        self.finished = self.log.log_end_offset

    def _offsets_of(self, pid: int, first: int, end: int) -> set[int]:
        return {
            offset
            for header, _ in self.log._local.batches_from(first)
            if header.producer_id == pid and header.is_transactional and first <= header.base_offset < end
            for offset in range(header.base_offset, header.last_offset + 1)
        }
