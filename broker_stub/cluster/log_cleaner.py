"""Compacts the logs of compacted topics, the dirtiest first (Kafka's `LogCleaner`).

It is housekeeping in slices: every log.cleaner.backoff.ms it looks for logs that are worth it, and then each look at the timers reads a
little more, until none is left. As in Kafka, it deletes the old segments of these logs, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from fencepost.broker_stub.log import PartitionLog
from fencepost.broker_stub.log.cleaner.cleaner import clean
from fencepost.broker_stub.log.cleaner.log_to_clean import LogToClean, log_to_clean
from fencepost.broker_stub.replication.partition import Partition
from fencepost.producer.wire.records import CorruptBatch

SLICE_BYTES: Final = 256 << 10
"""What is read between two looks at the timers: a few milliseconds' work."""
KEY_BYTES: Final = 24
"""What one key takes in Kafka's map."""

log = logging.getLogger(__name__)


class LogCleaner:
    """See the module. `partitions`: those of all topics. `cleaned`: segments of leaders that were replaced or deleted so far. It notes
    keys after `resize`."""

    def __init__(self, partitions: Callable[[], Iterable[Partition]], *, now_ms: Callable[[], int]) -> None:
        self.cleaned = 0
        self._partitions = partitions
        self._keys_max = 0
        self._now_ms = now_ms
        self._work: Iterator[int] | None = None
        self._cleaning: PartitionLog | None = None
        self._uncleanable: set[PartitionLog] = set()

    def resize(self, buffer_bytes: int, load_factor: float) -> None:
        """Sets how many keys a pass notes, as in Kafka, from the next pass on."""
        self._keys_max = int(buffer_bytes // KEY_BYTES * load_factor)

    def begin(self) -> None:
        """Looks for work, unless there is some already."""
        if self._work is None:
            self._work = self._clean_all()

    def proceed(self) -> bool:
        """Does the next slice of the work. Returns whether there was something to do, so that more may be left."""
        read, cleaned = 0, self.cleaned
        if self._cleaning is not None and not any(self._cleaning in partition.cleanable for partition in self._partitions()):
            self._work, self._cleaning = self._clean_all(), None  # that log was deleted, or moves
        while self._work is not None and read < SLICE_BYTES:
            step = next(self._work, None)
            if step is None:
                self._work = None
            else:
                read += step
        return read > 0 or self.cleaned > cleaned

    def _clean_all(self) -> Iterator[int]:
        done: set[PartitionLog] = set()
        self._uncleanable &= {log for partition in self._partitions() for log in partition.logs.values()}
        while (dirtiest := self._dirtiest(done)) is not None:
            partition, what = dirtiest
            self._cleaning = found = what.log
            before, dirty = found.segments, found.first_dirty_offset
            try:
                yield from clean(what, keys_max=self._keys_max, now_ms=self._now_ms())
            except CorruptBatch as error:
                self._uncleanable.add(found)
                log.warning("%s cannot be compacted: %s", partition, error)
            if found is partition.log:
                self.cleaned += len({*before} - {*found.segments})
            if found.first_dirty_offset == dirty:
                done.add(found)
        self._cleaning = None
        for partition in self._partitions():
            if partition.log.config.compacted:
                self.cleaned += partition.delete_old_segments()

    def _dirtiest(self, done: set[PartitionLog]) -> tuple[Partition, LogToClean] | None:
        """The log that is most worth it, of any replica. `done`: those with which no pass gets any further in this round."""
        now_ms = self._now_ms()
        found = [
            (partition, log_to_clean(each, now_ms=now_ms))
            for partition in self._partitions()
            for each in partition.cleanable
            if each.config.compacted and each not in done and each not in self._uncleanable
        ]
        return max((each for each in found if each[1].is_worth_it), key=lambda each: each[1].dirty_ratio, default=None)
