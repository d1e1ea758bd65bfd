"""What the parts of a share partition have in common: the states of records, ranges of them, limits, and refusals.

It decides nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from fencepost.producer.wire import ErrorCode

NO_MEMBER: Final = ""
NO_OFFSET: Final = -1
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GAP: Final = 0


class RecordState(IntEnum):
    """The values are the numbers that the share coordinator keeps. It never keeps ACQUIRED."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


STATE_AFTER: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
"""By the type of an acknowledgement. RENEW changes no state."""


class StateBatch(NamedTuple):
    """Records with the same state and delivery count, as the share coordinator keeps them."""

    first: int
    last: int
    state: int
    deliveries: int


class Acquired(NamedTuple):
    """Records that a member has got."""

    first: int
    last: int
    deliveries: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Acknowledgement(NamedTuple):
    """What a member says about a range: one type for all offsets, or one for each."""

    first: int
    last: int
    types: tuple[int, ...]

    def type_of(self, offset: int) -> int:
        return self.types[offset - self.first] if len(self.types) > 1 else self.types[0]


class Limits(NamedTuple):
    """The configs of the group: how long a lock lasts, how often a record is delivered, how many may be in flight, and whether a member
    may renew its locks."""

    lock_ms: int = 30_000
    deliveries_max: int = 5
    locks_max: int = 2000
    renews: bool = True

    @property
    def throttled_from(self) -> int:
        """From so many deliveries on a record is delivered in smaller batches, because one record may fail all others."""
        return max(2, -(-self.deliveries_max // 2))


class ShareRefused(Exception):
    """A request about a share partition is refused, and has changed nothing."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
