"""The `concurrent.futures.Future` of a record or a bulk: reading its outcome counts as reading that of the record.

It cannot be cancelled, because a record that was accepted is on its way. Not compiled, because its base class is not.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ConcurrentFuture(concurrent.futures.Future[T]):
    """See the module. `note_read`: notes that the program has read the outcome."""

    def __init__(self, note_read: Callable[[], object]) -> None:
        super().__init__()
        self._note_read = note_read
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> T:
        """The outcome, as `concurrent.futures.Future.result`."""
        self.exception(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The failure, or None, as `concurrent.futures.Future.exception`."""
        failure = super().exception(timeout)
        self._note_read()
        return failure
