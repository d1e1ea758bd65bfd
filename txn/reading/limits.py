"""The limits of reading: sizes, waiting times, and which records count."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct


class Isolation(Enum):
    """Kafka's isolation.level. The value is the setting's; `code` is the protocol's."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"

    @property
    def code(self) -> int:
        return 1 if self is Isolation.READ_COMMITTED else 0


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of one read. Times are milliseconds, sizes bytes."""

    fetch_bytes: int = 4 << 20
    """The size of one answer: `max.partition.fetch.bytes`. A larger single batch is sent nevertheless. The reader holds two answers at a
    time."""
    fetch_min_bytes: int = 1
    """The size that a broker waits for: `fetch.min.bytes`."""
    fetch_max_wait_ms: int = 500
    """How long a broker waits: `fetch.max.wait.ms`."""
    timeout_ms: float = 120_000.0
    """How long a read may go on without a readable answer."""
    rows: int = 65_536
    """A piece of columns ends when it has so many rows,"""
    piece_bytes: int = 8 << 20
    """or when so many bytes of records were decoded for it."""


EARLIEST: Final = -2
LATEST: Final = -1
"""The values that ListOffsets takes instead of a timestamp."""
