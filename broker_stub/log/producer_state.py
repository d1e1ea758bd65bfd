"""The producers of one partition: their entries, their transactions, and when they are forgotten.

It is the only owner of this state, and the state is a function of the log: a leader's appends, a replica's and a recovery's scan all come
through `judge` and `apply`. The decision about a batch is `producers.admit`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_stub.log.producers import UNSEEN, Accepted, Candidate, Duplicate, Origin, ProducerEntry, Refused, admit
from broker_stub.log.stable import Transactions


class ProducerState:
    """Entries by producer id."""

    __slots__ = ("_entries", "transactions")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.transactions = Transactions()

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        return self._entries

    def judge(self, batches: Sequence[Candidate], *, origin: Origin) -> list[Accepted] | Duplicate | Refused:
        """What `admit` says of the batches of one append, one after the other. Nothing is changed yet: one batch refused, or known, is
        the answer.
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
        """The judged batches are written."""
        for batch, verdict in zip(batches, accepted, strict=True):
            self._entries[batch.producer_id] = verdict.entry
            if verdict.entry.txn_first_offset == batch.base_offset:
                self.transactions.begin(batch.base_offset)
            if verdict.completed is not None:
                self.transactions.complete(verdict.completed)

    def restore(self, entries: Mapping[int, ProducerEntry]) -> None:
        """Takes a snapshot's entries in place of those it has. The transactions stay: they were read from the same log."""
        self._entries = dict(entries)

    def expire(self, now_ms: int, *, after_ms: int) -> list[int]:
        """Forgets the producers whose newest batch is so old, by that batch's own timestamp, and that have no transaction open; returns
        their ids.
        """
        gone = [pid for pid, entry in self._entries.items() if is_expired(entry, now_ms, after_ms=after_ms)]
        for pid in gone:
            del self._entries[pid]
        return gone


def is_expired(entry: ProducerEntry, now_ms: int, *, after_ms: int) -> bool:
    return entry.txn_first_offset is None and now_ms - entry.last_timestamp >= after_ms
