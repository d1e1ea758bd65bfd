"""What a pool has done so far, and what it does now."""

from __future__ import annotations

from msgspec import Struct

from fencepost.producer.observe.prometheus import describe


class PoolStats(Struct, frozen=True, kw_only=True):
    """A copy of a pool's counters. `prefix`: of its transactional ids. Of its `size` slots, `in_use` have an open transaction, `free` have
    a producer that waits for one, and `settling` have one whose end is under way without a caller. The others are opened when they are
    needed. `waiting`: calls that wait for a slot. `longest_s`: the age of the oldest open transaction.

    Since the pool was made: transactions `opened`, `committed` and `aborted`; `prepared` for other processes; `unknown`: raised
    CommitOutcomeUnknown, and the pool has not heard the outcome; `replaced`: producers that ended and got a successor in their slot;
    `timeouts`: calls that got no slot in time."""

    prefix: str
    size: int
    in_use: int
    free: int
    settling: int
    waiting: int
    longest_s: float
    opened: int
    committed: int
    aborted: int
    prepared: int
    unknown: int
    replaced: int
    timeouts: int


describe(
    PoolStats,
    "fencepost_pool_",
    {"prefix": "prefix"},
    {
        "size": ("size", "Transactions that can be open at once."),
        "in_use": ("in_use", "Slots with an open transaction."),
        "free": ("free", "Open slots that wait for a transaction."),
        "settling": ("settling", "Slots whose transaction ends without a caller."),
        "waiting": ("waiting", "Calls that wait for a slot."),
        "longest_s": ("longest_seconds", "Age of the oldest open transaction, in seconds."),
        "opened": ("transactions_opened_total", "Transactions that began."),
        "committed": ("transactions_committed_total", "Transactions that were committed."),
        "aborted": ("transactions_aborted_total", "Transactions that were aborted."),
        "prepared": ("transactions_prepared_total", "Transactions that were prepared for another process."),
        "unknown": ("transactions_unknown_total", "Transactions whose outcome the pool has not heard."),
        "replaced": ("producers_replaced_total", "Producers that ended and got a successor."),
        "timeouts": ("timeouts_total", "Calls that got no slot in time."),
    },
)


class Counters(Struct):
    """The counters of PoolStats. Changed under the pool's lock."""

    opened: int = 0
    committed: int = 0
    aborted: int = 0
    prepared: int = 0
    unknown: int = 0
    replaced: int = 0
    timeouts: int = 0
