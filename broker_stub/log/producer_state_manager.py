"""The producers of one partition: their entries, their transactions, and their expiry.

Only this file changes the state, and the state follows from the log: a leader's appends and a replica's both call `judge`
and `apply`. `producers.admit` decides about a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from fencepost.broker_stub.log.producer_append_info import (
    BATCHES_REMEMBERED,
    UNSEEN,
    Accepted,
    Candidate,
    Duplicate,
    Origin,
    ProducerEntry,
    Refused,
    RememberedBatch,
    admit,
)
from fencepost.broker_stub.log.txn_index import Transactions


class ProducerStateManager:
    """Entries by producer id. `_whole` has the full entries of producers of which a snapshot kept less."""

    __slots__ = ("_entries", "_whole", "transactions")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._whole: dict[int, ProducerEntry] = {}
        self.transactions = Transactions()

    def copy(self) -> Self:
        """A copy, to return to later."""
        other = type(self)()
        other._entries, other._whole, other.transactions = dict(self._entries), dict(self._whole), self.transactions.copy()
        return other

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        return self._entries

    def restore(self, snapshot: Mapping[int, ProducerEntry]) -> None:
        """Starts with the entries of a snapshot. Transactions that were open then are open again."""
        self._entries.update(snapshot)
        for first_offset in sorted(each.txn_first_offset for each in snapshot.values() if each.txn_first_offset is not None):
            self.transactions.begin(first_offset)

    def judge(self, batches: Sequence[Candidate], *, origin: Origin) -> list[Accepted] | Duplicate | Refused:
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
                self.transactions.begin(batch.base_offset)
            if verdict.completed is not None:
                self.transactions.complete(verdict.completed)

    def hand_over(self, snapshot: Mapping[int, ProducerEntry] | None, offset: int, is_over: Callable[[ProducerEntry], bool]) -> None:
        """Continues as another replica of this log. One that was down has of each producer the newest batch of its snapshot, made at that
        offset, and the later ones. It has no producers that `is_over`.
        """
        for pid, whole in self._whole.items():
            entry = self._entries[pid]
            if entry.epoch == whole.epoch:
                self._entries[pid] = replace(entry, batches=_joined(whole.batches, entry.batches))
        self._whole.clear()
        if snapshot is None:
            return
        for pid, entry in tuple(self._entries.items()):
            kept = snapshot.get(pid)
            before = kept.batches if kept is not None and kept.epoch == entry.epoch else ()
            batches = _joined(before, [batch for batch in entry.batches if batch.first_offset >= offset])
            if kept is None and not batches and is_over(entry):
                del self._entries[pid]
            elif batches != entry.batches:
                self._entries[pid], self._whole[pid] = replace(entry, batches=batches), entry

    def expire(self, now_ms: int, *, after_ms: int) -> list[int]:
        """Removes the producers without an open transaction whose newest batch has expired, by that batch's own timestamp. Returns their
        ids.
        """
        gone = [pid for pid, entry in self._entries.items() if is_expired(entry, now_ms, after_ms=after_ms)]
        for pid in gone:
            del self._entries[pid]
            self._whole.pop(pid, None)
        return gone


def _joined(before: Sequence[RememberedBatch], after: Sequence[RememberedBatch]) -> tuple[RememberedBatch, ...]:
    """The newest of the batches, where both lists may have the same ones."""
    known = before[-1].last_offset if before else -1
    return (*before, *(batch for batch in after if batch.last_offset > known))[-BATCHES_REMEMBERED:]


def is_expired(entry: ProducerEntry, now_ms: int, *, after_ms: int) -> bool:
    return entry.txn_first_offset is None and now_ms - entry.last_timestamp >= after_ms
