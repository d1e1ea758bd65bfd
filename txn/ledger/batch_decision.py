"""Whether a batch is written, given the ledger's entry: a table and pure functions.

The batch that the ledger has is skipped. Any other batch that does not follow it is refused. If batches were skipped by number alone, rows
of a replaced or restored checkpoint would be lost. If they were written, rows would be doubled. This module reads no ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from msgspec import Struct

from fencepost.producer.errors import ConfigError
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.printable import printable
from fencepost.txn.ledger.entry import LedgerEntry, ledger_key
from fencepost.txn.ledger.errors import (
    CheckpointReplaced,
    CheckpointRolledBack,
    FingerprintMissing,
    LedgerBehind,
    LedgerMissing,
    LedgerRefusal,
    OlderVersion,
)

__all__ = ["POLICIES", "Decision", "Seen", "decide", "decide_once", "see", "see_once"]

log = logging.getLogger("fencepost.ledger")

POLICIES: Final = {"on_new_checkpoint": ("error", "reset"), "on_missing_ledger": ("error", "start"), "on_gap": ("error", "write")}
"""The settings with which a user accepts what is otherwise refused, and their values, the default first."""


class Decision(Enum):
    """What happens to a batch."""

    GO = "go"
    SKIP = "skip"


class Seen(Enum):
    """The relation of a batch to the ledger's entry."""

    FIRST = "the first batch of a sink without an entry"
    MISSING = "a later batch of a sink without an entry"
    UNCHECKED = "a batch without a fingerprint, where the entry has one"
    OTHER_QUERY = "a batch of another query"
    OLDER = "a batch before the newest"
    SAME = "the newest batch"
    OTHER_CONTENT = "a batch with the newest one's number and another fingerprint"
    NEXT = "the batch after the newest"
    GAP = "a batch further on"
    GAP_WITH_ROWS = "a batch further on, where one between has read something"
    ONCE_FIRST = "a job without an entry"
    ONCE_OLDER = "a version before the newest"
    ONCE_SAME = "the newest version"
    ONCE_NEWER = "a version after the newest"


class Row(Struct, frozen=True):
    """The consequence of a relation: a decision, or a refusal of this `kind` unless the user has set `accepted`. `words`: the reason and
    the ways out, or a decision's warning."""

    decision: Decision | None = None
    kind: type[LedgerRefusal] = LedgerRefusal
    words: str = ""
    accepted: tuple[str, str] | None = None


NEW_SINK: Final = "give the new query a sink id of its own"
RESET_CHECKPOINT: Final = 'on_new_checkpoint="reset" writes the batch nevertheless, and may double rows that the sink has'

TABLE: Final = {
    Seen.FIRST: Row(Decision.GO),
    Seen.MISSING: Row(
        None,
        LedgerMissing,
        "the query has written batches before, so the ledger's topic was deleted, the sink was reset there or has another name now, or "
        "these batches were written without a ledger. Ways out: the previous sink id and ledger topic; or, if it is certain that the sink "
        'does not have this batch, on_missing_ledger="start"',
        ("on_missing_ledger", "start"),
    ),
    Seen.UNCHECKED: Row(
        None,
        FingerprintMissing,
        "without a fingerprint the ledger cannot tell a repeated batch from a batch of another checkpoint. Way out: give the batch's"
        " fingerprint, as for the previous batch",
    ),
    Seen.OTHER_QUERY: Row(
        None,
        CheckpointReplaced,
        "the query began again with another checkpoint (if it sets no checkpointLocation, Spark makes a new one at each start), or two "
        "queries have the same sink id; the ledger cannot tell which of its rows the sink has. "
        f"Ways out: the old checkpoint; {NEW_SINK}; or {RESET_CHECKPOINT}",
        ("on_new_checkpoint", "reset"),
    ),
    Seen.OLDER: Row(
        None,
        CheckpointRolledBack,
        "the checkpoint is an older copy of itself. Ways out: the newer checkpoint; or begin again from this one, which doubles the rows "
        'that the sink has since: `fencepost ledger reset SINK --yes`, and on_missing_ledger="start" for one start',
    ),
    Seen.SAME: Row(Decision.SKIP),
    Seen.OTHER_CONTENT: Row(
        None,
        CheckpointReplaced,
        "the batch was planned again over other source offsets (its file in the checkpoint's offsets was deleted, or restored from a "
        f"backup). Ways out: the previous checkpoint; or {RESET_CHECKPOINT}",
        ("on_new_checkpoint", "reset"),
    ),
    Seen.NEXT: Row(Decision.GO),
    Seen.GAP: Row(
        Decision.GO,
        words="the batches between were empty, or written elsewhere; they are not in this ledger",
    ),
    Seen.GAP_WITH_ROWS: Row(
        None,
        LedgerBehind,
        "the checkpoint's offsets show that batches between have read something, but they are not in this ledger: it lost its end (an "
        "unclean election, a restored backup), or is a mirror that lags, or the query itself leaves batches out. The sink may have this "
        "batch. Ways out: the previous ledger; or, if it is certain that the sink does not have this batch, or the query leaves batches "
        'out, on_gap="write"',
        ("on_gap", "write"),
    ),
    Seen.ONCE_FIRST: Row(Decision.GO),
    Seen.ONCE_OLDER: Row(
        None,
        OlderVersion,
        "a newer version is written already, and versions only rise. Ways out: a version above the ledger's; or another job id",
    ),
    Seen.ONCE_SAME: Row(Decision.SKIP),
    Seen.ONCE_NEWER: Row(Decision.GO),
}
assert TABLE.keys() == set(Seen)


def nothing_known(batch: int) -> bool:
    """For a batch whose checkpoint cannot be read."""
    return False


def decide(
    entry: LedgerEntry | None,
    sink: str,
    *,
    query: str,
    batch: int,
    fingerprint: str | None,
    on_new_checkpoint: str = "error",
    on_missing_ledger: str = "error",
    on_gap: str = "error",
    read_since: Callable[[int], bool] = nothing_known,
) -> Decision:
    """Whether this batch of a streaming query is written or skipped. Raises LedgerRefusal. `entry`: the ledger's entry of the sink.
    `read_since`: whether the checkpoint proves that a batch after that entry, and before this one, has read something."""
    key = ledger_key(sink)
    policies = _checked(on_new_checkpoint=on_new_checkpoint, on_missing_ledger=on_missing_ledger, on_gap=on_gap)
    _same_key(entry, key)
    seen = see(entry, query, batch, fingerprint)
    if seen is Seen.GAP and entry is not None and read_since(entry.batch):
        seen = Seen.GAP_WITH_ROWS
    return _apply(seen, entry, key, query, batch, fingerprint, policies)


def decide_once(entry: LedgerEntry | None, sink: str, *, job: str, version: int) -> Decision:
    """Whether this version of a job (`write_once`) is written or skipped. Raises LedgerRefusal. `entry`: the ledger's entry of the job."""
    key = ledger_key(sink, job)
    _same_key(entry, key)
    return _apply(see_once(entry, version), entry, key, None, version, None, {})


def see(entry: LedgerEntry | None, query: str, batch: int, fingerprint: str | None) -> Seen:
    """The relation of a query's batch to the entry."""
    if entry is None:
        return Seen.MISSING if batch > 0 else Seen.FIRST
    if entry.fingerprint is not None and fingerprint is None:
        return Seen.UNCHECKED
    if entry.query != query:
        return Seen.OTHER_QUERY
    same = Seen.SAME if entry.fingerprint in (None, fingerprint) else Seen.OTHER_CONTENT
    return {-1: Seen.OLDER, 0: same, 1: Seen.NEXT, 2: Seen.GAP}[max(-1, min(2, batch - entry.batch))]


def see_once(entry: LedgerEntry | None, version: int) -> Seen:
    """The relation of a job's version to the entry."""
    if entry is None:
        return Seen.ONCE_FIRST
    return {-1: Seen.ONCE_OLDER, 0: Seen.ONCE_SAME, 1: Seen.ONCE_NEWER}[max(-1, min(1, version - entry.batch))]


def _apply(
    seen: Seen,
    entry: LedgerEntry | None,
    key: str,
    query: str | None,
    batch: int,
    fingerprint: str | None,
    policies: dict[str, str],
) -> Decision:
    row = TABLE[seen]
    if row.decision is not None and not row.words:
        return row.decision
    ours = f"version {batch}" if seen.name.startswith("ONCE") else f"batch {batch} of query {query!r} (fingerprint {fingerprint or 'none'})"
    words = f"sink {key!r}: to be written is {ours}, and the ledger has {describe(entry)}: {row.words}"
    if row.decision is None:
        if row.accepted is None or policies[row.accepted[0]] != row.accepted[1]:
            raise row.kind(words, sink=key, query=query, batch=batch, entry=entry)
        name, value = row.accepted
        words = f"sink {key!r}: {ours} is written because of {name}={value!r}, and the ledger has {describe(entry)}"
    log.warning("%s", printable(words))
    return Decision.GO


def describe(entry: LedgerEntry | None) -> str:
    """A description of an entry."""
    if entry is None:
        return "no entry"
    when = datetime.fromtimestamp(entry.at_ms / 1000.0, UTC).isoformat(timespec="seconds")
    rows = counted(entry.rows, "row")
    if entry.job is not None:
        return f"version {entry.batch} ({rows}, written {when})"
    return f"batch {entry.batch} of query {entry.query!r} (fingerprint {entry.fingerprint or 'none'}, {rows}, written {when})"


def _checked(**given: str) -> dict[str, str]:
    for name, value in given.items():
        if value not in POLICIES[name]:
            raise ConfigError(f"{name}={value!r}: one of {', '.join(map(repr, POLICIES[name]))}")
    return given


def _same_key(entry: LedgerEntry | None, key: str) -> None:
    assert entry is None or entry.key == key, f"the entry of {entry.key!r} for {key!r}"
