"""One open transaction of a job: what it has read and written, and the position that it commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NO_POSITION = object()


class Batch:
    """See the module. `position`: tells the position after what was read. `written_to`: tells the position
    after the record that was sent last, which may not be noted as read. `ends_at`: when it is committed, full or not. `first`: the place
    of the first record, for errors."""

    def __init__(self, transaction: Any, began: float, ends_at: float, first: str) -> None:
        self.transaction = transaction
        self.began = began
        self.ends_at = ends_at
        self.first = first
        self.position: Callable[[], Any] = lambda: NO_POSITION
        self.written_to: Callable[[], Any] = lambda: NO_POSITION
        self.read = 0
        self.written = 0
        self.dead = 0

    def note(self, read: int, position: Callable[[], Any]) -> None:
        """So many more records are done with, whether or not they made records."""
        self.read += read
        self.position = position
