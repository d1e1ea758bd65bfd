"""How much is asked for at once, how long it is waited for, and which records count."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct


class Isolation(Enum):
    """Kafka's isolation.level. The value is what a reader's settings say; `code` is what the wire says."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"

    @property
    def code(self) -> int:
        return 1 if self is Isolation.READ_COMMITTED else 0


class Limits(Struct, frozen=True, kw_only=True):
    """What one read may take. Times are milliseconds, sizes bytes."""

    fetch_bytes: int = 4 << 20
    """What one answer may hold: `max.partition.fetch.bytes`. A single batch that is larger comes nevertheless. Two answers are held at a
    time."""
    fetch_min_bytes: int = 1
    """What a broker waits for: `fetch.min.bytes`."""
    fetch_max_wait_ms: int = 500
    """How long it waits: `fetch.max.wait.ms`."""
    timeout_ms: float = 120_000.0
    """How long may pass without anything that can be read."""
    rows: int = 65_536
    """A piece of columns is handed out when it has so many rows,"""
    piece_bytes: int = 8 << 20
    """or when so many bytes of records have been opened for it."""


EARLIEST: Final = -2
LATEST: Final = -1
"""What ListOffsets takes in the place of a timestamp."""
