"""Failed deliveries that the program did not read: they are logged once, and the next `flush` or `close` raises them.

The program reads a failure with `result`, `exception` or a delivery callback. At least the newest `KEPT` batches are kept, less
than twice as many, and at most `TOLD` of their errors are raised. Failures beyond that are only counted.
"""

from __future__ import annotations

import logging
from typing import Final

from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.errors import DeliveryError, UndeliveredRecords
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.rlock import RLock

log = logging.getLogger("fencepost.producer")

KEPT: Final = 10_000
TOLD: Final = 100


class Failures:
    """The sender thread adds failures. The thread that calls `flush` or `close` takes them."""

    def __init__(self) -> None:
        self._lock = RLock()  # A finalizer or a signal handler may call `flush` while this thread holds it.
        self._batches: list[Batch] = []
        self._unlogged: list[Batch] = []
        self._dropped = 0

    def add(self, batch: Batch) -> None:
        """A batch failed."""
        if batch.unseen <= 0:
            return
        with self._lock:
            self._unlogged.append(batch)
            self._batches.append(batch)
            if len(self._batches) >= 2 * KEPT:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Rarely, because it takes about a millisecond, on the sender thread."""
        unread = [kept for kept in self._batches if kept.unseen > 0]
        self._dropped += sum(int(oldest.unseen) for oldest in unread[:-KEPT])
        self._batches = unread[-KEPT:]

    @property
    def kept(self) -> bool:
        """Whether `take` may find failures."""
        return bool(self._batches) or self._dropped > 0

    @property
    def unlogged(self) -> bool:
        """Whether there are failures that were not logged yet."""
        return bool(self._unlogged)

    def say(self) -> None:
        """Log the new failures that the program did not read, in one line."""
        with self._lock:
            batches, self._unlogged = self._unlogged, []
        unseen = [batch for batch in batches if batch.unseen > 0]
        if unseen:
            count = sum(int(batch.unseen) for batch in unseen)
            in_batches = f"in {counted(len(unseen), 'batch', 'batches')} {'was' if count == 1 else 'were'}"
            log.error("%s %s not delivered; first: %s", counted(count, "record"), in_batches, unseen[0].failure)

    def take(self) -> UndeliveredRecords | None:
        """The failures that the program did not read, as the error to raise. From now on they count as read."""
        self.say()
        with self._lock:
            batches, self._batches = self._batches, []
            dropped, self._dropped = self._dropped, 0
        unseen = [batch for batch in batches if batch.unseen > 0]
        count = dropped + sum(int(batch.unseen) for batch in unseen)
        errors: list[DeliveryError] = [batch.failure for batch in unseen[:TOLD] if batch.failure is not None]
        for batch in unseen:
            batch.unseen = 0
        return UndeliveredRecords(count, errors) if count else None
