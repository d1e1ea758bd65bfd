"""The partitions of the open transaction that its owner shares, each with one writer at a time.

Two writers of one partition have the same identity and no common sequence. The broker would take the records of one for repeats of the
other's, and acknowledge them. So the next writer of a partition continues with the sequence at which the previous one stopped. This module
sends no request, and knows only the records that the transaction manager reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fencepost.producer.core.idempotence.sequence import advance, distance
from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.counted import counted
from fencepost.txn.errors import MustAbort
from fencepost.txn.shared.participation import TP, BadParticipation, Participation, Written, name

NAMED: Final = 3
"""An error message names at most so many partitions."""


class NotShareable(Misuse):
    """The partition has a writer already: it is shared and not yet returned, or the transaction's owner has written to it."""


class NotReturned(Misuse):
    """A commit while shared partitions are not returned: a participant may still write to them. The producer sent no request, and the
    transaction is still open."""


class ShareRequest:
    """The partitions that a caller shares (`partitions`) or returns (`written`). `participation`: the result of sharing."""

    def __init__(self, partitions: tuple[TP, ...] = (), written: tuple[Written, ...] = ()) -> None:
        self.partitions = partitions
        self.written = written
        self.participation: Participation | None = None


class SharedPartitions:
    """See the module. `used`: a partition was shared in this transaction. `filled`: a returned partition has records. `contested`: a shared
    partition that the owner tried to write."""

    def __init__(self, transactional_id: str) -> None:
        self.used = False
        self.filled = False
        self.contested: TP | None = None
        self._id = transactional_id
        self._own: set[TP] = set()
        self._out: dict[TP, int] = {}
        self._back: dict[TP, int] = {}
        self._participations: list[tuple[TP, ...]] = []
        self._reached: dict[TP, int] = {}

    def begin(self) -> None:
        """A new transaction begins."""
        self.used = self.filled = False
        self.contested = None
        self._own.clear()
        self._out.clear()
        self._back.clear()
        self._participations.clear()

    @property
    def nothing_came(self) -> bool:
        """Whether every shared partition was returned without a record."""
        return self.used and not self._out and not self.filled

    def admits(self, tp: TP) -> bool:
        """Whether the owner may write to the partition. If not, the transaction must be aborted (`conflict`)."""
        if tp not in self._out and tp not in self._back:
            return True
        self.contested = tp
        return False

    def wrote(self, tp: TP) -> None:
        """The owner writes to the partition."""
        self._own.add(tp)

    def acknowledged(self, tp: TP, records: int) -> None:
        """The broker acknowledged records of the owner; a participation continues after their sequences. With transaction version 1,
        earlier transactions may have had the same epoch, and the broker would take records from sequence 0 on for repeats of theirs."""
        self._reached[tp] = advance(self._reached.get(tp, 0), records)

    def renewed(self) -> None:
        """The producer has a new identity: sequences begin at 0."""
        self._reached.clear()

    def conflict(self) -> MustAbort | None:
        """Why the transaction cannot be committed, if the owner tried to write to a shared partition."""
        if self.contested is None:
            return None
        return MustAbort(
            f"{name(self.contested)} was shared, so its owner cannot write to it in the same transaction: two writers of one partition "
            "have no common sequence, and records would be lost"
        )

    def refusal(self, partitions: Iterable[TP]) -> NotShareable | None:
        """Why one of these partitions cannot be shared, if so."""
        for tp in partitions:
            if tp in self._own:
                return NotShareable(
                    f"{name(tp)} cannot be shared: its owner has written to it in this transaction, and two writers have no common sequence"
                )
            if tp in self._out:
                return NotShareable(
                    f"{name(tp)} was shared in this transaction and not returned: a participant may still write to it, and the broker "
                    "would take a second writer's records for repeats of the first one's."
                    " Pass what the participant wrote to returned(), or abort"
                )
        return None

    def missing(self) -> NotReturned | None:
        """Why the transaction cannot be committed yet, if a shared partition was not returned."""
        if not self._out:
            return None
        left, parts = set(self._out), []
        # A partition that was shared again belongs to the newer participation.
        for number, participation in reversed([*enumerate(self._participations, 1)]):
            of_it = [tp for tp in participation if tp in left]
            left.difference_update(of_it)
            if of_it:
                named = ", ".join(map(name, of_it[:NAMED])) + (", ..." if len(of_it) > NAMED else "")
                parts.append(f"{len(of_it)} of the {counted(len(participation), 'partition')} of participation {number} ({named})")
        return NotReturned(
            f"transactional id {self._id!r}: {' and '.join(reversed(parts))} not returned: a participant may still write to"
            " them. Pass to returned() what Participant.finish returned, and participation.unused(written) for the others; or abort"
        )

    def share(self, share_request: ShareRequest, identity: tuple[int, int], *, version2: bool) -> None:
        """Share the partitions."""
        self.used = True
        self._participations.append(share_request.partitions)
        sequences = []
        for tp in share_request.partitions:
            self._out[tp] = self._back.pop(tp, self._reached.get(tp, 0))
            sequences.append((*tp, self._out[tp]))
        share_request.participation = Participation(
            transactional_id=self._id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            transaction_version=2 if version2 else 1,
            sequences=tuple(sequences),
        )

    def take_back(self, written: Iterable[Written]) -> BadParticipation | None:
        """Take what was written: all of it, or none of it, and then why."""
        accounts = {(each.topic, each.partition): each for each in written}
        for tp, account in accounts.items():
            if tp not in self._out:
                return BadParticipation(f"{name(tp)} is not shared in this transaction, so it cannot be returned")
            if advance(self._out[tp], account.records % (1 << 31)) != account.next_sequence:
                distant = counted(distance(self._out[tp], account.next_sequence), "record")
                return BadParticipation(
                    f"{name(tp)}: {counted(account.records, 'record')} from sequence {self._out[tp]} on cannot end at "
                    f"{account.next_sequence} ({distant}): this is the account of another participation"
                )
        for tp, account in accounts.items():
            del self._out[tp]
            self._back[tp] = account.next_sequence
            self.filled = self.filled or account.records > 0
        return None


def read_written(given: Iterable[object]) -> tuple[Written, ...]:
    """One account for each partition, each a `Written` or its text. Raises BadParticipation."""
    if isinstance(given, str | bytes | Written):
        raise BadParticipation("what was written comes as a list: one account for each partition")
    accounts: dict[TP, Written] = {}
    for each in given:
        account = Written.loads(each) if isinstance(each, str | bytes) else each
        if not isinstance(account, Written):
            raise BadParticipation(f"what was written is told by Written, or its text, not {type(each).__name__}")
        tp = (account.topic, account.partition)
        if tp in accounts:
            raise BadParticipation(f"{name(tp)} was written by two participants: {accounts[tp]} and {account}")
        accounts[tp] = account
    return tuple(accounts.values())
