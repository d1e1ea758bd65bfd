"""The producers of one partition: their entries, their transactions, and their expiry.

Only this file changes the state, and the state follows from the log: a leader's appends and a replica's both call `judge`
and `apply`. `producer_append_info.admit` decides about a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fencepost.broker_stub.log.last_stable_offset import UnstableTransactions
from fencepost.broker_stub.log.producer_append_info import (
    UNSEEN,
    Accepted,
    BatchRefused,
    Candidate,
    Duplicate,
    Origin,
    ProducerEntry,
    admit,
)
from fencepost.broker_stub.log.txn_index import AbortedTxn, TransactionIndex


class ProducerStateManager:
    """Entries by producer id. `entries`: those of a snapshot. `aborted`: the transactions that were aborted before it."""

    __slots__ = ("_entries", "txn_index", "unstable")

    def __init__(self, entries: Mapping[int, ProducerEntry] | None = None, aborted: Iterable[AbortedTxn] = ()) -> None:
        self._entries = dict(entries or {})
        first_offsets = sorted(entry.txn_first_offset for entry in self._entries.values() if entry.txn_first_offset is not None)
        self.txn_index = TransactionIndex(aborted)
        self.unstable = UnstableTransactions(self.txn_index, first_offsets)

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        return self._entries

    def judge(self, batches: Sequence[Candidate], *, origin: Origin) -> list[Accepted] | Duplicate | BatchRefused:
        """The decision of `admit` about the batches of one append, in order. It changes nothing. The first refused or duplicate batch
        decides the whole append.
        """
        after: dict[int, ProducerEntry] = {}
        accepted = []
        for batch in batches:
            entry = after.get(batch.producer_id) or self._entries.get(batch.producer_id, UNSEEN)
            verdict = admit(entry, batch, origin=origin)
            if not isinstance(verdict, Accepted):
                return verdict
            after[batch.producer_id] = verdict.entry
            accepted.append(verdict)
        return accepted

    def apply(self, batches: Sequence[Candidate], accepted: Sequence[Accepted]) -> None:
        """Applies the judged batches, which are written."""
        for batch, verdict in zip(batches, accepted, strict=True):
            self._entries[batch.producer_id] = verdict.entry
            if verdict.entry.txn_first_offset == batch.base_offset:
                self.unstable.begin(batch.base_offset)
            if verdict.completed is not None:
                self.unstable.complete(verdict.completed)

    def expire(self, now_ms: int, *, after_ms: int) -> list[int]:
        """Removes the producers without an open transaction whose newest batch has expired, by that batch's own timestamp. Returns their
        ids.
        """
        gone = [pid for pid, entry in self._entries.items() if is_expired(entry, now_ms, after_ms=after_ms)]
        for pid in gone:
            del self._entries[pid]
        return gone


def is_expired(entry: ProducerEntry, now_ms: int, *, after_ms: int) -> bool:
    return entry.txn_first_offset is None and now_ms - entry.last_timestamp >= after_ms
