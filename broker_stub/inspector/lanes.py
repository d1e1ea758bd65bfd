"""The newest batches of a partition as a lane along its offsets, and its transactions as bars.

Pure functions of batch headers, except `newest_batches`, which reads a log. The bounds keep a snapshot small, not a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from fencepost.broker_stub.log import PartitionLog
from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.producer.wire.records import BatchHeader, CorruptBatch, read_marker
from fencepost.producer.wire.records.control_batch import ControlType

BATCHES_MAX: Final = 200
READ_BATCHES_MAX: Final = 4 * BATCHES_MAX
READ_BYTES_MAX: Final = 4 * 1024 * 1024
FIRST_SPAN: Final = 256
BARS_MAX: Final = 200

TXN, CONTROL, COMMIT, ABORT = 1, 2, 4, 8
"""The flags of a batch."""

END_OF: Final[dict[int, int]] = {ControlType.COMMIT: COMMIT, ControlType.ABORT: ABORT}
"""The flag for each type of marker."""

Batch = list[int]
"""Base offset, last offset, records, producer id, epoch, base sequence, flags, largest timestamp, leader epoch, bytes."""


def newest_batches(log: PartitionLog) -> list[Batch]:
    """The newest batches of the log, also those beyond the high watermark, oldest first."""
    span, end = FIRST_SPAN, log.log_end_offset
    while True:
        start = max(log.log_start_offset, end - span)
        found = batches_of(islice(log.batches_from(start), READ_BATCHES_MAX))
        if start == log.log_start_offset or len(found) >= BATCHES_MAX or sum(each[9] for each in found) >= READ_BYTES_MAX:
            return found[-BATCHES_MAX:]
        span *= 4


def batches_of(batches: Iterable[tuple[BatchHeader, bytes | memoryview]]) -> list[Batch]:
    """The batches up to a damaged one, or one of another format."""
    found = []
    with suppress(CorruptBatch):
        for header, data in batches:
            found.append(_batch(header, data))
    return found


def _batch(header: BatchHeader, data: bytes | memoryview) -> Batch:
    flags = TXN * header.is_transactional | CONTROL * header.is_control
    if header.is_control:
        kind, _, _ = read_marker(data)
        flags |= END_OF.get(kind, 0)
    return [
        header.base_offset,
        header.last_offset,
        header.records_count,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        flags,
        header.max_timestamp,
        header.leader_epoch,
        header.size,
    ]


def bars(batches: Iterable[Batch], *, open_since: dict[int, int], aborted: Iterable[AbortedTxn] = ()) -> list[dict[str, Any]]:
    """The transactions with batches here, by their first offset. `open_since`: the first offset of each producer's open transaction.

    A bar has `pid`, `epoch`, `first`, `last` (its marker, or its newest batch), `records` and `state`: open, committed or aborted.
    The start of a transaction that began before the first batch is only known for aborted ones.
    """
    running: dict[int, dict[str, Any]] = {}
    found = []
    ends = {txn.last_offset: txn for txn in aborted}
    for base, last, count, pid, epoch, _, flags, *_ in batches:
        if flags & CONTROL:
            bar = running.pop(pid, None)
            if bar is None:
                known = ends.get(base)
                bar = {"pid": pid, "epoch": epoch, "first": known.first_offset if known is not None else base, "records": 0}
                found.append(bar)
            bar |= {"last": base, "state": "committed" if flags & COMMIT else "aborted"}
        elif flags & TXN:
            bar = running.get(pid)
            if bar is None:
                bar = running[pid] = {"pid": pid, "epoch": epoch, "first": base, "last": last, "records": 0, "state": "open"}
                found.append(bar)
            bar["last"] = last
            bar["epoch"] = epoch
            bar["records"] += count
    for pid, first in open_since.items():
        bar = running.get(pid)
        if bar is not None:
            bar["first"] = first
        else:
            found.append({"pid": pid, "epoch": -1, "first": first, "last": first, "records": 0, "state": "open"})
    return sorted(found, key=lambda each: each["first"])[-BARS_MAX:]


class LaneCache:
    """The lanes of logs that have not changed since the last snapshot."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[tuple[object, ...], list[Batch]]] = {}

    def batches(self, key: tuple[str, int], log: PartitionLog) -> list[Batch]:
        """The newest batches of that partition's log."""
        state = (id(log), log.log_start_offset, log.log_end_offset, log.size, log.leader_epoch)
        known = self._known.get(key)
        if known is None or known[0] != state:
            known = self._known[key] = (state, newest_batches(log))
        return known[1]

    def forget_others(self, keys: Iterable[tuple[str, int]]) -> None:
        """Forgets partitions that are gone."""
        there = set(keys)
        self._known = {key: value for key, value in self._known.items() if key in there}
