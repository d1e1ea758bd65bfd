"""The log of one partition: appends with validation, deduplication and fencing, and reads up to the offset that a reader may see.

One owner calls it from one thread. It does no I/O except to its directory, and reads the time only through `clock_ms`. A refused append
changes nothing. It does not replicate: code that replicates sets `replicated_at_once` to False and moves the high watermark itself.

Its producers follow from its batches. A truncated or loaded log has them again from a snapshot and the batches after it. Kafka writes a
snapshot when a segment begins; this log keeps a few newer ones besides, so that it reads less.

Its directory has the files of Kafka's layout. Batches are written at once. The index files and the snapshot of a segment follow when the
next one begins, those of the active segment when the log is closed. `load` reads a directory again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from fencepost.broker_stub.log.candidates import candidates
from fencepost.broker_stub.log.checkpoint_text import LEADER_EPOCHS, read_leader_epochs, write_leader_epochs
from fencepost.broker_stub.log.config import LogConfig, TimestampType
from fencepost.broker_stub.log.errors import AppendRefused, CorruptFile, CorruptSnapshot, OffsetOutOfRange
from fencepost.broker_stub.log.kept_snapshots import Snapshots
from fencepost.broker_stub.log.leader_epochs import LeaderEpochs
from fencepost.broker_stub.log.local_log import LocalLog
from fencepost.broker_stub.log.producer_append_info import (
    UNSEEN,
    Accepted,
    BatchRefused,
    Candidate,
    Duplicate,
    Origin,
    ProducerEntry,
    Verified,
)
from fencepost.broker_stub.log.producer_snapshot import read_snapshot, write_snapshot
from fencepost.broker_stub.log.producer_state_manager import ProducerStateManager, is_expired
from fencepost.broker_stub.log.recovery import read_segments
from fencepost.broker_stub.log.results import (
    ActiveProducer,
    AppendResult,
    Batch,
    LastRecord,
    OffsetAt,
    ReadResult,
)
from fencepost.broker_stub.log.retention import deletable
from fencepost.broker_stub.log.segment import LogSegment
from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.broker_stub.log.validation import Terms, validate
from fencepost.broker_stub.log.verification_state import Verifications
from fencepost.broker_stub.storage.directory import Directory
from fencepost.broker_stub.storage.memory import MemoryDirectory
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.messages.list_offsets import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP
from fencepost.producer.wire.records import (
    BatchHeader,
    CorruptBatch,
    check_crc,
    iter_batches,
    read_header,
    read_records,
)

PRODUCE_VERSION: Final = 13
NEVER: Final = 1 << 63
"""Past every offset."""

_log = logging.getLogger(__name__)


class PartitionLog:
    """Segments, and the state derived from their batches. `first_dirty_offset`: where the next compaction begins. `recovery_point`: what is
    before it survives a loss of power. `lowest_truncation`: the smallest offset at which it was truncated since its copy was last told
    (`LogCopy`). `truncated` is called after each truncation."""

    lowest_truncation = NEVER

    def __init__(
        self,
        *,
        clock_ms: Callable[[], int],
        config: LogConfig | None = None,
        directory: Directory | None = None,
    ) -> None:
        """An empty log in an empty directory, by default in memory."""
        self.config = config or LogConfig()
        self.first_dirty_offset = self.recovery_point = 0
        self.replicated_at_once = True
        self.truncated: Callable[[PartitionLog], None] = _nothing
        self._clock_ms = clock_ms
        self._directory: Directory = MemoryDirectory() if directory is None else directory
        self._log_start_offset = self._high_watermark = 0
        self._local = LocalLog(0, self._directory, config=self._config, now_ms=clock_ms())
        self._epochs = LeaderEpochs(save=self._save_epochs)
        self._producers = ProducerStateManager()
        self._snapshots = Snapshots(self._directory)
        self._verifications = Verifications()

    @classmethod
    def load(
        cls,
        directory: Directory,
        *,
        clock_ms: Callable[[], int],
        config: LogConfig,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        first_dirty_offset: int = 0,
        recovery_point: int | None,
    ) -> PartitionLog:
        """The log of that directory. The offsets are those of the checkpoints; where these are older than the files, the files decide.

        `recovery_point`: None after a clean shutdown. Else what comes after it is checked, and the log ends before the first damage.
        """
        now_ms = clock_ms()
        found = read_segments(directory, config, start_offset=log_start_offset, recovery_point=recovery_point, now_ms=now_ms)
        start = max(log_start_offset, found.segments[0].base_offset if found.segments else 0)
        self = cls.__new__(cls)
        self.config = config
        self.replicated_at_once = True
        self.truncated = _nothing
        self._clock_ms = clock_ms
        self._directory = directory
        self._local = LocalLog(found.end_offset, directory, config=self._config, now_ms=now_ms, segments=found.segments)
        if found.end_offset < start:
            self._local.restart_at(start, now_ms=now_ms)
        end = self.log_end_offset
        self._log_start_offset = start
        self._high_watermark = min(max(high_watermark, start), end)
        self.first_dirty_offset = min(max(first_dirty_offset, start), end)
        self.recovery_point = end if recovery_point is None else min(recovery_point, end)
        self._epochs = self._load_epochs(found.epochs)
        self._snapshots = Snapshots(directory)
        self._snapshots.forget_before(self.segments[0].base_offset)
        self._producers = ProducerStateManager(aborted=found.aborted)
        self._verifications = Verifications()
        self._restore_producers(end, replay_from=found.scanned[0].base_offset if found.scanned else None)
        if found.scanned:
            self._save_scanned(found.scanned)
        return self

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._local.end_offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def size(self) -> int:
        """The bytes of its segments."""
        return self._local.size

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """Oldest first; the last one is appended to."""
        return self._local.segments

    @property
    def last_stable_offset(self) -> int:
        stable = self._producers.unstable.last_stable_offset(self._high_watermark)
        if stable >= self._log_start_offset:
            return stable
        # Of a transaction whose first records were deleted.
        return min(self.start_of_batch(self._log_start_offset), self._high_watermark)

    @property
    def leader_epoch(self) -> int:
        """The newest epoch that wrote here or was begun; -1 for none."""
        return self._epochs.latest

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of every leader epoch, oldest first."""
        return self._epochs.entries

    def append(
        self,
        data: bytes | memoryview,
        *,
        origin: Origin,
        leader_epoch: int,
        request_version: int = PRODUCE_VERSION,
        transaction_version: int = 0,
        guard: int | None = None,
    ) -> AppendResult:
        """Writes the batch or raises AppendRefused. `transaction_version` is that of the WriteTxnMarkers request, for markers. `guard` is
        from `begin_verification`; None without verification by the transaction coordinator.

        A client or a coordinator brings one batch, which gets its offset here. Replication brings batches with offsets.
        """
        if origin is Origin.REPLICATION:
            return self._append_replicated(data, leader_epoch)
        terms = Terms(
            base_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            now_ms=self._clock_ms(),
            origin=origin,
            request_version=request_version,
        )
        header, stored = validate(data, terms, self.config)
        known = self._write([(header, stored)], origin, terms.now_ms, transaction_version, guard)
        if known is not None:
            first, last, append_time_ms = known.batch.first_offset, known.batch.last_offset, known.batch.timestamp
        else:
            first, last = header.base_offset, header.last_offset
            append_time_ms = terms.now_ms if self.config.timestamp_type is TimestampType.LOG_APPEND_TIME else -1
        written = ((header, stored),) if known is None else ()
        return AppendResult(first, last, append_time_ms, self._log_start_offset, written, known is not None)

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, *, bumps: bool) -> int | None:
        """A guard for a transactional batch that the transaction coordinator must verify. None if that is not necessary, because the
        producer's transaction is open here or verification is off. Raises AppendRefused for an old epoch. `bumps`: the epoch rises with
        every transaction, so the coordinator must always learn of the partition."""
        if not bumps and not self.config.verifies_transactions:
            return None
        entry = self._producers.entries.get(producer_id, UNSEEN)
        if epoch < entry.epoch:
            raise AppendRefused(ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {epoch} is older than {entry.epoch}", rule="D2")
        if entry.txn_first_offset is not None and entry.epoch == epoch:
            return None
        return self._verifications.begin(producer_id, epoch=epoch, sequence=sequence, bumps=bumps, now_ms=self._clock_ms())

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        read_committed: bool = False,
        min_one_batch: bool = True,
        for_replica: bool = False,
    ) -> ReadResult:
        """The batches from the one with `offset` on, up to the high watermark or the last stable offset; for a replica up to the end.

        Returns at most `max_bytes` and cuts the last batch. The first batch is whole even if it is larger; without `min_one_batch` it is
        then left out. A replica gets a large batch alone, to keep the very bytes that a log in memory has.
        """
        if not self._log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, log_start_offset=self._log_start_offset, log_end_offset=self.log_end_offset)
        stable, replicated = self.last_stable_offset, self._high_watermark
        readable = self.log_end_offset if for_replica else stable if read_committed else replicated
        found = self._local.read(offset, readable, max_bytes, min_one_batch=min_one_batch, large_alone=for_replica)
        aborted = None
        if read_committed and (
            found.records or offset >= readable or max_bytes <= 0
        ):  # Kafka names no aborted transactions for a first batch that fits only in part
            aborted = self._producers.txn_index.aborted_between(offset, found.end_offset) if found.records else []
        return ReadResult(found.records, replicated, stable, self._log_start_offset, aborted, found.base_offset > readable)

    def start_of_batch(self, offset: int) -> int:
        """The base offset of the first batch that ends at or past this offset; without one the end of the log."""
        return self._local.start_of_batch(offset)

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch of the log, also those below its start and beyond the high watermark."""
        return self._local.batches()

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Each batch that ends at or past the offset, also beyond the high watermark."""
        return self._local.batches_from(offset)

    def offset_for_timestamp(self, timestamp: int, *, read_committed: bool = False) -> OffsetAt:
        """The first record at or past `timestamp` that a consumer may read, or the offset that a special timestamp (-1 to -4) stands
        for. That of MAX_TIMESTAMP may be below the log start, as in Kafka."""
        end = self.last_stable_offset if read_committed else self._high_watermark
        if timestamp == LATEST:
            return OffsetAt(end, -1, self._epochs.latest)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return OffsetAt(self._log_start_offset, -1, self._epochs.epoch_at(self._log_start_offset))
        if timestamp == MAX_TIMESTAMP:
            found = self._find_largest_timestamp()
        else:
            found = self._find_timestamp(timestamp) if timestamp >= 0 else OffsetAt()
        return found if found.offset < end else OffsetAt()

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Where `epoch`, or the last one before it, ended: (epoch, end offset); (-1, -1) if unknown."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def lead(self, epoch: int) -> None:
        """Begins this replica's leader epoch. What only a leader knows is new."""
        self._verifications = Verifications()
        self._epochs.begin(epoch, self.log_end_offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Notes that everything before `offset` is replicated. The high watermark never falls and never passes the end."""
        self._high_watermark = max(self._high_watermark, min(offset, self.log_end_offset))
        self._producers.unstable.committed(self._high_watermark)

    def advance_log_start(self, offset: int) -> None:
        """Raises the log's start, as DeleteRecords does. The producers stay, and the bytes until `delete_old_segments`."""
        if offset > self._high_watermark:
            raise OffsetOutOfRange(offset, log_start_offset=self._log_start_offset, log_end_offset=self._high_watermark)
        if offset > self._log_start_offset:
            self._log_start_offset = offset
            self._epochs.truncate_from_start(offset)

    def delete_old_segments(self) -> int:
        """Deletes the segments that the log's configs give up, and returns how many. The caller decides when; Kafka does it every
        log.retention.check.interval.ms."""
        segments, now_ms = self._local.segments, self._clock_ms()
        count = deletable(
            segments,
            config=self.config,
            log_start_offset=self._log_start_offset,
            high_watermark=self._high_watermark,
            end_offset=self.log_end_offset,
            now_ms=now_ms,
        )
        if count:
            if count == len(segments):
                self._roll(self.log_end_offset, now_ms=now_ms)
            self._local.remove_first(count)
            start = self._local.segments[0].base_offset
            self._producers.txn_index.forget_before(start)
            self._snapshots.forget_before(start)
            self.advance_log_start(start)
        return count

    @property
    def aborted_transactions(self) -> tuple[AbortedTxn, ...]:
        """Those that readers must skip, in the order of their markers."""
        return self._producers.txn_index.aborted

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """The producers that the log remembers, by their ids, each with its newest batches."""
        return self._producers.entries

    def last_records(self) -> dict[int, LastRecord]:
        """The newest batch of each producer, which compaction must keep."""
        return {
            pid: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for pid, entry in self._producers.entries.items()
        }

    def new_cleaned_segment(self, base_offset: int) -> LogSegment:
        """An empty segment for `replace_segments`."""
        return self._local.new_cleaned_segment(base_offset, now_ms=self._clock_ms())

    def replace_segments(self, old: Sequence[LogSegment], new: LogSegment, aborted: Iterable[AbortedTxn]) -> bool:
        """Puts a compacted segment in the place of successive ones. `aborted`: the aborted transactions whose markers are in it and that
        still have batches. False: one of the segments is gone, and nothing was changed."""
        after = next((segment.base_offset for segment in self.segments if segment.base_offset > old[-1].base_offset), self.log_end_offset)
        kept = sorted((txn for txn in aborted if new.base_offset <= txn.last_offset < after), key=lambda txn: txn.last_offset)
        if not self._local.replace(old, new, kept):
            return False
        self._producers.txn_index.keep_between(new.base_offset, after, kept)
        return True

    def active_producers(self) -> list[ActiveProducer]:
        """The result for DescribeProducers."""
        return [
            ActiveProducer(
                producer_id=pid,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=-1 if entry.txn_first_offset is None else entry.txn_first_offset,
            )
            for pid, entry in self._producers.entries.items()
        ]

    def expire_producers(self) -> list[int]:
        """Removes idle producers, and verifications that have lasted as long. The caller decides when; Kafka does it every ten minutes."""
        self._verifications.expire(self._clock_ms(), after_ms=self.config.producer_id_expiration_ms)
        return self._producers.expire(self._clock_ms(), after_ms=self.config.producer_id_expiration_ms)

    def truncate(self, offset: int) -> None:
        """Removes every batch that ends at or past that offset, and leader epochs that began there."""
        if offset >= self.log_end_offset:
            self._epochs.truncate_from_end(self.log_end_offset)  # one that was begun here, and in which nothing was written
            return
        self._local.truncate(offset, now_ms=self._clock_ms())
        self.lowest_truncation = min(self.lowest_truncation, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._epochs.truncate_from_end(offset)
        self._high_watermark = min(self._high_watermark, offset)
        self._log_start_offset = min(self._log_start_offset, offset)
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self._restore_producers(offset)
        self.truncated(self)

    def restart_at(self, offset: int) -> None:
        """Removes everything and begins again at that offset, because the leader's log begins only there."""
        self.lowest_truncation = 0
        self._local.restart_at(offset, now_ms=self._clock_ms())
        self._epochs.clear()
        self._snapshots.forget_from(0)
        self._producers = ProducerStateManager()
        self._high_watermark = self._log_start_offset = self.first_dirty_offset = self.recovery_point = offset
        self.truncated(self)

    def take_over(self, log: PartitionLog) -> None:
        """Goes on in the place of another log, whose batches it has. What does not follow from these comes from that log: producers whose
        batches were deleted, what only a leader knows, the end of an epoch without batches, and the offsets. It may start later, if a loss
        of power took from the other one where it started."""
        self.flush()
        self._epochs = LeaderEpochs(save=self._save_epochs)
        self._epochs.set_all(log.epochs)
        self._producers, self._verifications = log._producers, log._verifications
        self._producers.txn_index.forget_before(self.segments[0].base_offset)
        self._local.end_offset = log.log_end_offset
        self._snapshots.add(self.log_end_offset, self.snapshot(), log_bytes=self.size, in_file=True)
        self._log_start_offset = max(self._log_start_offset, log.log_start_offset)
        self._epochs.truncate_from_start(self._log_start_offset)
        self._high_watermark = log.high_watermark
        self.first_dirty_offset, self.replicated_at_once = log.first_dirty_offset, log.replicated_at_once

    def reload(self) -> None:
        """The log of a broker that was down and lost nothing: it knows the newest batch of each producer that has not expired meanwhile."""
        self._producers = ProducerStateManager(self._read_snapshot(self.snapshot()), self._producers.txn_index.aborted)
        self._verifications = Verifications()

    def snapshot(self) -> bytes:
        """The snapshot of the producers at the log's end, as after a clean shutdown."""
        return write_snapshot(self._producers.entries)

    def flush(self) -> None:
        """Makes everything that was written survive a loss of power."""
        if self.recovery_point < self.log_end_offset:
            self._local.active.file.sync()
            self._directory.sync()
            self.recovery_point = self.log_end_offset

    def close(self) -> None:
        """Writes what is only in memory, so that `load` reads few batches. After that the log can be used as before."""
        self._local.active.close()
        self._local.active.flush(self._aborted_in_active)
        if self._producers.entries or self.size:
            self._snapshots.add_once(self.log_end_offset, self.snapshot, log_bytes=self.size)
        if self.recovery_point < self.log_end_offset:
            self._directory.sync()
            self.recovery_point = self.log_end_offset

    def corrupt(self, offset: int) -> bool:
        """Flips a bit in the batch with that offset, so that readers find a wrong checksum. False: there is none."""
        return self._local.corrupt(offset)

    def _save_scanned(self, scanned: list[LogSegment]) -> None:
        """Writes the files that were missing or too old."""
        ends = {segment.base_offset: following.base_offset for segment, following in pairwise(self.segments)}
        for segment in scanned:
            if (end := ends.get(segment.base_offset)) is not None:
                segment.close()
                segment.flush(self._producers.txn_index.ended_between(segment.base_offset, end))
        self._snapshots.add(self.log_end_offset, self.snapshot(), log_bytes=self.size, in_file=False)

    def _config(self) -> LogConfig:
        return self.config

    def _save_epochs(self, entries: list[tuple[int, int]]) -> None:
        self._directory.write(LEADER_EPOCHS, write_leader_epochs(entries).encode())

    def _load_epochs(self, scanned: list[tuple[int, int]]) -> LeaderEpochs:
        """The epochs of the file and of the batches. The file lacks the first ones if the log's start had risen, and its checkpoint was not
        written before the broker was killed. Kafka does not look for those. Without a file all follow from the batches."""
        start, read = self._log_start_offset, self._read_epochs()
        known = LeaderEpochs(read or ())
        for epoch, offset in scanned if read is not None else ():
            if epoch > known.latest:
                known.assign(epoch, offset)
        known.truncate_from_end(self.log_end_offset)
        first, found = next((offset for _, offset in known.entries), self.log_end_offset), LeaderEpochs()
        for header, _ in self._local.batches_from(start) if start < first else ():
            if header.base_offset >= first:
                break
            if header.leader_epoch >= 0:
                found.assign(header.leader_epoch, header.base_offset)
        for epoch, offset in known.entries:
            found.assign(epoch, offset)
        found.truncate_from_start(start)
        epochs = LeaderEpochs(found.entries, save=self._save_epochs)
        if found.entries != [(epoch, offset) for epoch, offset in read or () if offset < self.log_end_offset]:
            epochs.set_all(found.entries)
        return epochs

    def _read_epochs(self) -> list[tuple[int, int]] | None:
        """None: there is no file, or it cannot be read."""
        data = self._directory.read(LEADER_EPOCHS)
        try:
            return None if data is None else read_leader_epochs(data)
        except CorruptFile as error:
            _log.warning("%s; the leader epochs follow from the batches", error)
            return None

    def _read_snapshot(self, data: bytes) -> dict[int, ProducerEntry]:
        """Its producers that have not expired."""
        now_ms, after_ms = self._clock_ms(), self.config.producer_id_expiration_ms
        return {pid: entry for pid, entry in read_snapshot(data).items() if not is_expired(entry, now_ms, after_ms=after_ms)}

    def _restore_producers(self, end_offset: int, *, replay_from: int | None = None) -> None:
        """The producers of a log that ends there: from the newest snapshot that can be read, and the batches after it. `replay_from`: later
        snapshots do not count, and the aborted transactions whose markers are at or past that offset follow from the batches, too."""
        self._snapshots.forget_from((end_offset if replay_from is None else replay_from) + 1)
        at, entries = -1, dict[int, ProducerEntry]()
        for offset, snapshot in self._snapshots.until(end_offset):
            try:
                at, entries = offset, self._read_snapshot(snapshot)
                break
            except CorruptSnapshot as error:
                _log.warning("the snapshot at offset %d cannot be read, an older one is: %s", offset, error)
                self._snapshots.forget(offset)
        known = [txn for txn in self._producers.txn_index.aborted if txn.last_offset < at]
        self._producers = ProducerStateManager(entries, known)
        missing = deque(segment.base_offset for segment in self.segments[1:] if replay_from is not None and segment.base_offset > at)
        for header, batch in self._local.batches_from(at):
            while missing and header.base_offset >= missing[0]:
                self._snapshots.add(missing.popleft(), self.snapshot(), log_bytes=self.size, in_file=True)
            found = candidates([(header, batch)])
            verdict = self._producers.judge(found, origin=Origin.REPLICATION)
            if not isinstance(verdict, list):
                raise CorruptFile("log", header.base_offset, f"the batch does not follow from those before: {verdict}")
            self._producers.apply(found, verdict)
        for base_offset in missing:  # of an active segment without batches: the producers before it must outlive the older segments
            self._snapshots.add(base_offset, self.snapshot(), log_bytes=self.size, in_file=True)
        self._producers.unstable.committed(self._high_watermark)

    def _append_replicated(self, data: bytes | memoryview, leader_epoch: int) -> AppendResult:
        batches: list[Batch] = []
        next_offset = self.log_end_offset
        for header, batch in iter_batches(data):
            if header.leader_epoch > leader_epoch:
                break  # KAFKA-18723: written by a later leader than the fetch asked
            if not check_crc(batch):
                raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, "the checksum does not match", rule="V5")
            if header.base_offset < next_offset:
                raise ValueError(f"replicated offset {header.base_offset}, the log is at {next_offset}")
            batches.append((header, data if isinstance(data, bytes) and len(data) == len(batch) else bytes(batch)))
            next_offset = header.last_offset + 1
        base_offset = self.log_end_offset
        if batches:
            self._write(batches, Origin.REPLICATION, self._clock_ms())
            base_offset = batches[0][0].base_offset
        return AppendResult(base_offset, self.log_end_offset - 1, -1, self._log_start_offset, tuple(batches))

    def _write(
        self, batches: Sequence[Batch], origin: Origin, now_ms: int, transaction_version: int = 0, guard: int | None = None
    ) -> Duplicate | None:
        """Stores valid batches if their producers may write them: all or none."""
        try:
            found = candidates(batches, transaction_version)
        except CorruptBatch as error:
            raise AppendRefused(ErrorCode.INVALID_RECORD, str(error), rule="V9") from error
        if guard is not None or (self._verifications and origin is Origin.CLIENT):
            found = [replace(each, verified=self._verified(each, guard)) for each in found]
        verdict = self._producers.judge(found, origin=origin)
        if isinstance(verdict, Duplicate):
            return verdict
        if isinstance(verdict, BatchRefused):
            raise AppendRefused(verdict.code, verdict.reason, rule=verdict.row)
        self._store(batches, now_ms)
        self._applied(found, verdict)
        return None

    def _store(self, batches: Sequence[Batch], now_ms: int) -> None:
        first, size = batches[0][0], self._local.size
        if self._local.active.must_roll(
            self.config,
            size=sum(len(batch) for _, batch in batches),
            last_offset=batches[-1][0].last_offset,
            max_timestamp=max(header.max_timestamp for header, _ in batches),
            now_ms=now_ms,
        ):
            self._roll(first.base_offset, now_ms=now_ms)
        elif self._snapshots.is_due(size):
            self._snapshots.add(first.base_offset, self.snapshot(), log_bytes=size, in_file=False)
        for header, batch in batches:
            self._epochs.assign(header.leader_epoch, header.base_offset)
            self._local.append(bytes(batch), last_offset=header.last_offset, max_timestamp=header.max_timestamp, now_ms=now_ms)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _roll(self, base_offset: int, *, now_ms: int) -> None:
        self._local.roll(base_offset, self._aborted_in_active, now_ms=now_ms)
        self._snapshots.add(base_offset, self.snapshot(), log_bytes=self._local.size, in_file=True)
        self.recovery_point = base_offset

    @property
    def _aborted_in_active(self) -> list[AbortedTxn]:
        """The entries of the active segment's transaction index."""
        return self._producers.txn_index.ended_between(self._local.active.base_offset, self.log_end_offset)

    def _verified(self, batch: Candidate, guard: int | None) -> Verified | None:
        """The result of the coordinator's verification of this batch. A batch that needed none must still begin with the sequence that the
        verification named."""
        known = self._verifications.get(batch.producer_id)
        if known is None:
            return None if guard is None else Verified(False)
        return Verified(guard is None or known.guard == guard, known.lowest_sequence, known.bumps)

    def _applied(self, written: Sequence[Candidate], accepted: Sequence[Accepted]) -> None:
        self._producers.apply(written, accepted)
        for each in written:
            if each.transactional or each.marker is not None:
                self._verifications.written(each.producer_id, each.epoch, marker=each.marker is not None)
        if self.replicated_at_once:
            self.advance_high_watermark(self.log_end_offset)

    def _find_timestamp(self, timestamp: int) -> OffsetAt:
        for batch in self._local.since(timestamp, self._log_start_offset):
            try:
                records = read_records(batch, verify_crc=False, limit=self.config.decompressed_bytes_max)
            except CorruptBatch:
                continue  # as in Kafka, validation skips through compressed records, so unreadable ones can be in the log
            for record in records:
                if record.timestamp >= timestamp and record.offset >= self._log_start_offset:
                    return OffsetAt(record.offset, record.timestamp, read_header(batch).leader_epoch)
        return OffsetAt()

    def _find_largest_timestamp(self) -> OffsetAt:
        batch = self._local.of_largest_timestamp()
        if batch is None:
            return OffsetAt()
        header = read_header(batch)
        with suppress(CorruptBatch):
            for record in read_records(batch, verify_crc=False, limit=self.config.decompressed_bytes_max):
                if record.timestamp == header.max_timestamp:
                    return OffsetAt(record.offset, record.timestamp, header.leader_epoch)
        return OffsetAt()


def _nothing(_: PartitionLog) -> None:
    """The log has no checkpoints."""
