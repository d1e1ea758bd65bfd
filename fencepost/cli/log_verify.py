"""Checks the files of a partition against each other: the log, its indexes, snapshots and leader epochs.

It reads every batch once. The log decides: the other files are compared with what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from fencepost.broker_stub.cluster.log_dir import CLEAN_SHUTDOWN
from fencepost.broker_stub.log.checkpoint_text import LEADER_EPOCHS, PARTITION_METADATA, read_leader_epochs, read_partition_metadata
from fencepost.broker_stub.log.errors import CorruptFile, CorruptSnapshot
from fencepost.broker_stub.log.index_entries import read_offset_index, read_time_index, read_txn_index
from fencepost.broker_stub.log.local_log import SWAP
from fencepost.broker_stub.log.producer_append_info import ProducerEntry
from fencepost.broker_stub.log.producer_snapshot import read_snapshot
from fencepost.broker_stub.log.segment import RELATIVE_OFFSET_MAX
from fencepost.cli.error_lines import CommandError
from fencepost.cli.log_batches import StoredBatch, base_offset_of, batches_in
from fencepost.cli.log_producers import Producers
from fencepost.cli.output import say, say_json
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.records import CorruptBatch, read_records

EXPIRATION_MS: Final = 86_400_000
"""The default of producer.id.expiration.ms: a snapshot may lack a producer that was idle for longer."""

TRUNCATES: Final = "after an unclean shutdown Kafka truncates the log here; otherwise reads fail here"
REBUILDS: Final = "Kafka rebuilds the index only after an unclean shutdown, or if its own check fails; until then lookups may be wrong"
ORPHANED: Final = "Kafka deletes the file; the records of that segment are lost"
REPLAYS: Final = "if Kafka needs it, it replays the log from an older snapshot"


SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
"""Of the files that are checked."""


class Finding(Struct, frozen=True):
    """`position`: of the byte in the file, or of the line in a text file."""

    file: str
    position: int
    problem: str
    kafka: str


class Batch(Struct, frozen=True):
    """What the checks of other files need of a batch."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int


def verify_directory(directory: Path, *, json: bool) -> bool:
    """Prints the findings and a summary. Returns whether there is none."""
    if not directory.is_dir():
        raise CommandError(f"{directory}: no such directory")
    partitions = [each for each in (directory, *sorted(directory.iterdir())) if each.is_dir() and any(each.glob("*.log"))]
    if not partitions:
        raise CommandError(f"{directory}: neither it nor a directory in it has .log files")
    found = 0
    notes: list[str] = []
    for partition in partitions:
        for finding in Partition(partition, notes).findings():
            found += 1
            if json:
                say_json(asdict(finding))
            else:
                say(f"{finding.file}, position {finding.position}: {finding.problem}. {finding.kafka[0].upper()}{finding.kafka[1:]}.")
    if json:
        say_json({"partitions": len(partitions), "findings": found, "notes": notes})
    else:
        say(*notes, f"{counted(len(partitions), 'partition')}, {counted(found, 'finding')}")
    return not found


class Partition:
    """The checks of one partition's directory. It adds to `notes` what it cannot check."""

    def __init__(self, directory: Path, notes: list[str]) -> None:
        self._directory = directory
        self._notes = notes
        self._producers = Producers()
        self._next_offset = 0
        self._epochs: list[tuple[int, int]] | None = None
        self._epoch_reported = False
        self._is_clean = (directory.parent / CLEAN_SHUTDOWN).exists()

    def findings(self) -> Iterator[Finding]:
        there = sorted(self._directory.iterdir())
        special = [
            path for path in there if (path.suffix in SUFFIXES or path.name in (LEADER_EPOCHS, PARTITION_METADATA)) and not path.is_file()
        ]
        if special:
            yield from (Finding(str(path), 0, "it is no regular file", "the broker cannot use it") for path in special)
            return
        if any(path.suffix == SWAP for path in there):
            self._notes.append(f"{self._directory}: a compaction was interrupted, and the next start ends it, so nothing is checked")
            return
        try:
            segments = sorted((base_offset_of(path), path) for path in self._directory.glob("*.log"))
        except CorruptFile as error:
            raise CommandError(f"{self._directory}: {error.reason}") from None
        checkpoint = self._directory / LEADER_EPOCHS
        if checkpoint.exists():
            try:
                self._epochs = read_leader_epochs(checkpoint.read_bytes())
            except CorruptFile as error:
                yield _damage(checkpoint, error, "Kafka cannot read the leader epochs")
        metadata = self._directory / PARTITION_METADATA
        if metadata.exists():
            try:
                read_partition_metadata(metadata.read_bytes())
            except CorruptFile as error:
                yield _damage(metadata, error, "Kafka cannot read the topic's id, and takes the log directory offline")
        for path in sorted(self._directory.glob("*index")):
            if not path.with_suffix(".log").exists():
                yield Finding(str(path), 0, f"there is no {path.with_suffix('.log').name} for it", ORPHANED)
        first = segments[0][0]
        self._next_offset = first
        if first > 0:
            yield from self._start_from_snapshot(first)
        for number, (base_offset, path) in enumerate(segments):
            if number:
                if base_offset > self._next_offset:
                    self._give_up("compaction removed records")
                yield from self._check_snapshot(base_offset)
            is_active = number == len(segments) - 1
            yield from self._check_segment(base_offset, path, is_active=is_active, may_lag=is_active and not self._is_clean)
        newest = self._directory / f"{self._next_offset:020}.snapshot"
        if newest.exists() and self._next_offset > segments[-1][0]:
            yield from self._check_snapshot(self._next_offset)

    def _start_from_snapshot(self, base_offset: int) -> Iterator[Finding]:
        path = self._directory / f"{base_offset:020}.snapshot"
        if not path.exists():
            self._give_up(f"the log's start was deleted, and {path.name} is not there")
            return
        try:
            self._producers.start_from(read_snapshot(path.read_bytes()))
        except CorruptSnapshot as error:
            self._give_up(f"the log's start was deleted, and {path.name} is damaged")
            yield Finding(str(path), 0, str(error), REPLAYS)

    def _give_up(self, why: str) -> None:
        if self._producers.known:
            self._producers.known = False
            self._notes.append(f"{self._directory}: {why}, so producer snapshots and the LSOs of aborted transactions are not compared")

    def _check_segment(self, base_offset: int, path: Path, *, is_active: bool, may_lag: bool) -> Iterator[Finding]:
        """`may_lag`: of the active segment after a kill, whose index files may lack entries or be missing."""
        if base_offset < self._next_offset:
            self._give_up("segments overlap")
            problem = f"the segment begins at offset {base_offset}, and the one before it ends at {self._next_offset - 1}"
            yield Finding(str(path), 0, problem, "reads may return an offset twice")
        aborted_before = len(self._producers.aborted)
        batches: list[Batch] = []
        last = base_offset - 1
        try:
            for stored in batches_in(path):
                header = stored.header
                if header.base_offset <= last:
                    self._give_up("offsets do not rise")
                    problem = f"offset {header.base_offset} follows offset {last}"
                    yield Finding(str(path), stored.position, problem, "offsets must rise: readers may miss records or get them twice")
                elif (
                    header.base_offset != last + 1
                    or header.records_count != header.last_offset_delta + 1
                    or header.delete_horizon_ms is not None
                ):
                    self._give_up("compaction removed records")
                if header.last_offset > base_offset + RELATIVE_OFFSET_MAX:
                    problem = f"offset {header.last_offset} is more than {RELATIVE_OFFSET_MAX} above the segment's first offset"
                    yield Finding(str(path), stored.position, problem, "no index can have it: a start of the stub may end the log there")
                last = max(last, header.last_offset)
                yield from self._check_batch(path, stored)
                batches.append(Batch(stored.position, header.base_offset, header.last_offset, header.max_timestamp, header.leader_epoch))
        except CorruptFile as error:
            self._give_up("a batch cannot be read")
            yield _damage(path, error, TRUNCATES)
        self._next_offset = max(self._next_offset, last + 1)
        index, time_index = path.with_suffix(".index"), path.with_suffix(".timeindex")
        missing = [each for each in (index, time_index) if not each.exists()]
        if missing and may_lag:
            self._notes.append(f"{path}: the active segment has no index files, as after a kill; the next start makes them")
        else:
            yield from (Finding(str(each), 0, "the file is missing", "Kafka rebuilds it when it starts") for each in missing)
        if index not in missing:
            yield from self._check_offset_index(base_offset, index, batches)
        if time_index not in missing:
            yield from self._check_time_index(base_offset, time_index, batches, is_active=is_active)
        yield from self._check_txn_index(path.with_suffix(".txnindex"), aborted_before, may_lag=may_lag)

    def _check_batch(self, path: Path, stored: StoredBatch) -> Iterator[Finding]:
        header = stored.header
        file, position = str(path), stored.position
        if not stored.is_valid:
            self._give_up("a batch has a wrong checksum")
            problem = f"the checksum of the batch at offset {header.base_offset} does not match"
            yield Finding(file, position, problem, TRUNCATES)
            return
        try:
            offsets = [record.offset for record in read_records(stored.data)]
            self._producers.add(stored)
        except CorruptBatch as error:
            self._give_up("a batch cannot be read")
            yield Finding(file, position, f"the records at offset {header.base_offset} cannot be read: {error}", "consumers fail here")
            return
        before = header.base_offset - 1
        for offset in offsets:
            if not before < offset <= header.last_offset:
                problem = f"record offset {offset} after {before} in the batch of {header.base_offset} to {header.last_offset}"
                yield Finding(file, position, problem, "consumers may read records out of order")
                break
            before = offset
        if self._epochs is not None and header.leader_epoch >= 0 and not self._epoch_reported:
            known = next((epoch for epoch, start in reversed(self._epochs) if start <= header.base_offset), -1)
            # DeleteRecords forgets the epochs of what it deletes: all of them if it deletes everything.
            is_deleted = not self._epochs or header.base_offset < self._epochs[0][1]
            if known != header.leader_epoch and not is_deleted:
                self._epoch_reported = True  # the later ones most likely follow from the same mistake
                problem = f"the batch at offset {header.base_offset} has leader epoch {header.leader_epoch}, {LEADER_EPOCHS} says {known}"
                yield Finding(file, position, problem, "a follower may truncate its log at a wrong offset")

    def _check_offset_index(self, base_offset: int, path: Path, batches: list[Batch]) -> Iterator[Finding]:
        try:
            entries = read_offset_index(base_offset, path.read_bytes())
        except CorruptFile as error:
            yield _damage(path, error, REBUILDS)
            return
        starts = {batch.position: batch.last_offset for batch in batches}
        for number, (offset, position) in enumerate(entries):
            if starts.get(position) != offset:
                there = f"the batch there ends at {starts[position]}" if position in starts else "no batch starts there"
                yield Finding(
                    str(path), number * 8, f"the entry says that the batch at {position} ends at offset {offset}: {there}", REBUILDS
                )

    def _check_time_index(self, base_offset: int, path: Path, batches: list[Batch], *, is_active: bool) -> Iterator[Finding]:
        try:
            entries = read_time_index(base_offset, path.read_bytes())
        except CorruptFile as error:
            yield _damage(path, error, REBUILDS)
            return
        at, largest = 0, -1
        for number, (timestamp, offset) in enumerate(entries):
            while at < len(batches) and batches[at].last_offset <= offset:
                largest = max(largest, batches[at].max_timestamp)
                at += 1
            if timestamp != largest:
                problem = f"the entry says that {timestamp} is the largest timestamp up to offset {offset}: it is {largest}"
                yield Finding(str(path), number * 12, problem, REBUILDS)
        largest = max((batch.max_timestamp for batch in batches), default=-1)
        says = entries[-1][0] if entries else -1
        if not is_active and says < largest:  # a broker adds the last entry when it begins the next segment
            problem = (
                f"the last entry says {says}, and the largest timestamp of the segment is {largest}"
                if entries
                else (f"there is no entry, and the largest timestamp of the segment is {largest}")
            )
            yield Finding(str(path), len(entries) * 12, problem, REBUILDS)

    def _check_txn_index(self, path: Path, aborted_before: int, *, may_lag: bool) -> Iterator[Finding]:
        try:
            entries = read_txn_index(path.read_bytes()) if path.exists() else []
        except CorruptFile as error:
            yield _damage(path, error, "consumers may read aborted records")
            return
        if not self._producers.known:
            markers = self._producers.abort_markers
            for number, txn in enumerate(entries):
                if markers.get(txn.last_offset) != txn.producer_id:
                    problem = f"offset {txn.last_offset} is no ABORT marker of producer {txn.producer_id}"
                    yield Finding(str(path), number * 34, problem, "consumers may skip committed records")
            return
        wanted = self._producers.aborted[aborted_before:]
        if may_lag:
            wanted = wanted[: len(entries)]
        for number in range(max(len(entries), len(wanted))):
            says = entries[number] if number < len(entries) else None
            log = wanted[number] if number < len(wanted) else None
            if says != log:
                problem = f"entry {number} is {says}, the log says {log}"
                yield Finding(str(path), number * 34, problem, "consumers may read aborted records, or skip committed ones")
                return

    def _check_snapshot(self, offset: int) -> Iterator[Finding]:
        path = self._directory / f"{offset:020}.snapshot"
        if not path.exists():
            yield Finding(str(path), 0, "the file is missing", REPLAYS)
            return
        try:
            entries = read_snapshot(path.read_bytes())
        except CorruptSnapshot as error:
            yield Finding(str(path), 0, str(error), REPLAYS)
            return
        if not self._producers.known:
            return
        expired_before = int(path.stat().st_mtime * 1000) - EXPIRATION_MS
        wanted = self._producers.newest()
        for producer_id in sorted(entries.keys() | wanted.keys()):
            says, log = entries.get(producer_id), wanted.get(producer_id)
            if says != log and not (says is None and log is not None and _may_be_expired(log, expired_before)):
                problem = f"producer {producer_id} is {says}, the log says {log}"
                kafka = "Kafka trusts the file: it may refuse this producer, or accept a record twice"
                yield Finding(str(path), 0, problem, kafka)


def _may_be_expired(entry: ProducerEntry, before_ms: int) -> bool:
    return entry.txn_first_offset is None and entry.last_timestamp <= before_ms


def _damage(path: Path, error: CorruptFile, kafka: str) -> Finding:
    return Finding(str(path), error.position, error.reason, kafka)
