"""Reads the segments of a directory again: after a clean shutdown by their index files, else by their batches (Kafka's `LogLoader`).

After an unclean shutdown the segments from the recovery point on are scanned, and the active one always. (This log flushes a segment before
it begins the next one; Kafka does so later.) The log ends before the first batch that is torn or damaged, or that does not follow; later
segments are deleted. A segment whose index files are missing or damaged is
scanned as well. Files of an interrupted deletion or compaction are tidied up first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from fencepost.broker_stub.log.config import LogConfig
from fencepost.broker_stub.log.errors import CorruptFile
from fencepost.broker_stub.log.index_entries import read_offset_index, read_time_index, read_txn_index
from fencepost.broker_stub.log.local_log import CLEANED, SWAP
from fencepost.broker_stub.log.segment import (
    DIGITS,
    INDEX,
    LOG,
    RELATIVE_OFFSET_MAX,
    SUFFIXES,
    TIME_INDEX,
    TXN_INDEX,
    LogSegment,
    Place,
    file_name,
)
from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.broker_stub.storage.directory import DELETED, TEMPORARY, Directory
from fencepost.producer.wire.records import CorruptBatch, check_crc

OFFSET_MAX: Final = 2**63 - 1

log = logging.getLogger(__name__)


class Found(Struct):
    """What a directory has. `aborted`: of the transaction indexes of the segments that were not scanned. `scanned`: those that were.
    `epochs`: (leader epoch, base offset) of the first batch of each epoch in these."""

    segments: list[LogSegment] = []
    end_offset: int = 0
    aborted: list[AbortedTxn] = []
    scanned: list[LogSegment] = []
    epochs: list[tuple[int, int]] = []


def read_segments(directory: Directory, config: LogConfig, *, start_offset: int, recovery_point: int | None, now_ms: int) -> Found:
    """The segments in the order of their offsets. `recovery_point`: None after a clean shutdown. `start_offset`: where the log starts,
    which is its end if there is no segment."""
    _tidy_up(directory, config, now_ms=now_ms)
    bases = sorted(_bases(directory.names(), LOG))
    found = Found(end_offset=start_offset)
    for base, beyond in zip(bases, [*bases[1:], None], strict=False):
        segment = LogSegment(base, directory, config, now_ms=now_ms)
        segment.modified_ms = segment.file.modified_ms
        must_scan = recovery_point is not None and (beyond is None or beyond > recovery_point)
        found.segments.append(segment)
        if not must_scan and _from_files(segment, directory, found) and (beyond is not None or _ends_well(segment)):
            continue
        segment.forget_indexes()
        cut = _scan(segment, found)
        if cut and must_scan:
            _delete_from(base + 1, directory, bases)
            break
    if found.segments:
        found.end_offset = _end_of(found.segments[-1])
    return found


def _end_of(active: LogSegment) -> int:
    """The end of the log, whose last entries have no index entry."""
    end = active.base_offset
    for place in active.places(active.offset_index.last_position):
        active.note_timestamp(place)
        end = place.last_offset + 1
    return end


def _ends_well(active: LogSegment) -> bool:
    """Whether the headers after the last index entry are those of batches that follow one another, up to the end of the file."""
    position, next_offset = active.offset_index.last_position, active.base_offset
    last_offset_max = active.base_offset + RELATIVE_OFFSET_MAX
    for place in active.places(position):
        if place.base_offset < next_offset or not place.base_offset <= place.last_offset <= last_offset_max:
            break
        position, next_offset = place.position + place.size, place.last_offset + 1
    if position == active.size:
        return True
    log.warning("the segment at offset %d does not end with a batch, though the shutdown was clean; it is scanned", active.base_offset)
    return False


def _from_files(segment: LogSegment, directory: Directory, found: Found) -> bool:
    """Takes over the index files. False: they must be made anew."""
    base = segment.base_offset
    offsets, times, txns = (directory.read(file_name(base, kind)) for kind in (INDEX, TIME_INDEX, TXN_INDEX))
    try:
        if offsets is None or times is None:
            raise CorruptFile("offset index" if offsets is None else "time index", 0, "there is none")
        aborted = read_txn_index(txns or b"")
        entries = read_offset_index(base, offsets)
        if entries and entries[-1][1] >= segment.size:
            raise CorruptFile("offset index", len(offsets), f"position {entries[-1][1]}, and the log has {segment.size} bytes")
        segment.restore(entries, read_time_index(base, times))
    except CorruptFile as error:
        log.warning("%s of the segment at offset %d; the segment is scanned", error, base)
        return False
    found.aborted += aborted
    return True


def _scan(segment: LogSegment, found: Found) -> bool:
    """Indexes the segment's batches, and removes what follows the last valid one. Returns whether there was something."""
    found.scanned.append(segment)
    position, next_offset, epoch = 0, segment.base_offset, -1
    last_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX  # the checksum does not cover a batch's offset
    try:
        for header, batch in segment.batches():
            if header.base_offset < next_offset or header.last_offset > last_offset_max:
                break
            if header.leader_epoch < epoch or not check_crc(batch):
                break
            if header.leader_epoch > epoch:
                epoch = header.leader_epoch
                found.epochs.append((epoch, header.base_offset))
            segment.note(Place(position, header.size, header.base_offset, header.last_offset, header.max_timestamp))
            position, next_offset = position + header.size, header.last_offset + 1
    except CorruptBatch:
        pass  # what was read before it is valid
    if position == segment.size:
        return False
    log.warning("the segment at offset %d ends with %d bytes that are no valid batch", segment.base_offset, segment.size - position)
    segment.file.truncate(position)
    segment.file.sync()
    return True


def _delete_from(offset: int, directory: Directory, bases: list[int]) -> None:
    for base in bases:
        if base >= offset:
            for kind in SUFFIXES:
                directory.remove(file_name(base, kind))


def _tidy_up(directory: Directory, config: LogConfig, *, now_ms: int) -> None:
    """Ends what was interrupted: a deletion, a compaction before it was finished, or the replacement after that."""
    names = directory.names()
    for name in names:
        if name.endswith((DELETED, CLEANED, TEMPORARY)):
            directory.remove(name)
    swaps = [name for name in names if name.endswith(SWAP)]
    for base in _bases(swaps, LOG + SWAP):
        swapped = LogSegment(base, directory, config, now_ms=now_ms, suffix=SWAP)
        last = max((place.last_offset for place in swapped.places(0)), default=base)
        _delete_from(base, directory, [base, *(each for each in _bases(names, LOG) if base < each <= last)])
    for name in swaps:
        directory.rename(name, name.removesuffix(SWAP))
    names = directory.names()
    there = {*_bases(names, LOG)}
    for kind in SUFFIXES:
        for base in _bases(names, kind):
            if base not in there:
                directory.remove(file_name(base, kind))


def _bases(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets of the files that a segment names so. Others are left alone. Raises CorruptFile for a name beyond the last offset."""
    found = []
    for name in names:
        if name[DIGITS:] == suffix and name[:DIGITS].isdecimal() and name.isascii():
            if int(name[:DIGITS]) > OFFSET_MAX:
                raise CorruptFile("name", 0, f"{name!r} does not start with an offset: {OFFSET_MAX} is the largest")
            found.append(int(name[:DIGITS]))
    return found
