"""What of the open transaction is lent: to nobody twice at a time, and not to somebody else while its own producer writes there.

Two writers of one partition share an identity and no sequences: the broker would take the records of one for repeats of the other's, and
say that they are written. So each partition has one writer at a time, and whoever has it next goes on where the one before stopped. It
asks nobody, and knows of no record but what it is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fencepost.producer.core.idempotence.sequence import advance, distance
from fencepost.producer.errors import Misuse
from fencepost.txn.errors import MustAbort
from fencepost.txn.shared.loan import TP, BadLoan, Loan, Written, name

NAMED: Final = 3
"""Partitions that a message names, of those that it is about."""


class NotToBeLent(Misuse):
    """The partition has a writer already: it was lent and not returned, or the transaction's own producer writes to it."""


class NotReturned(Misuse):
    """A commit while partitions are lent: whoever has them may have written, and may be writing still. Nothing was asked for, and the
    transaction is open as before."""


class Wish:
    """What a caller wants lent (`partitions`), or gives back (`written`). `loan`: what came of it."""

    def __init__(self, partitions: tuple[TP, ...] = (), written: tuple[Written, ...] = ()) -> None:
        self.partitions = partitions
        self.written = written
        self.loan: Loan | None = None


class Lending:
    """See the module. `used`: anything was lent in this transaction; `filled`: somebody said that they wrote. `trespassed`: a partition
    that the transaction's own producer was about to write although it was lent."""

    def __init__(self, transactional_id: str) -> None:
        self.used = False
        self.filled = False
        self.trespassed: TP | None = None
        self._id = transactional_id
        self._own: set[TP] = set()
        self._out: dict[TP, int] = {}
        self._back: dict[TP, int] = {}
        self._loans: list[tuple[TP, ...]] = []
        self._reached: dict[TP, int] = {}

    def begin(self) -> None:
        """Another transaction begins."""
        self.used = self.filled = False
        self.trespassed = None
        self._own.clear()
        self._out.clear()
        self._back.clear()
        self._loans.clear()

    @property
    def nothing_came(self) -> bool:
        """Whether all that was lent came back, and nothing was written to any of it."""
        return self.used and not self._out and not self.filled

    def admits(self, tp: TP) -> bool:
        """Whether the transaction's own producer may write there; where not, that is noted."""
        if tp not in self._out and tp not in self._back:
            return True
        self.trespassed = tp
        return False

    def wrote(self, tp: TP) -> None:
        """Its own producer writes there."""
        self._own.add(tp)

    def acknowledged(self, tp: TP, records: int) -> None:
        """Records of its own producer, under the identity that there is: a loan goes on behind them. With transaction version 1 that may be
        one that earlier transactions had, and a borrower that began at 0 would be taken for a repeat of theirs."""
        self._reached[tp] = advance(self._reached.get(tp, 0), records)

    def renewed(self) -> None:
        """Another identity: sequences begin anew."""
        self._reached.clear()

    def trespass(self) -> MustAbort | None:
        """Why the transaction cannot be committed, if its own producer was about to write what is lent."""
        if self.trespassed is None:
            return None
        return MustAbort(
            f"{name(self.trespassed)} was lent, and the producer that lent it cannot write there in the same transaction: two writers of "
            "one partition share no sequences, and records would be lost"
        )

    def refusal(self, partitions: Iterable[TP]) -> NotToBeLent | None:
        """Why one of these cannot be lent, if that is so."""
        for tp in partitions:
            if tp in self._own:
                return NotToBeLent(
                    f"{name(tp)} cannot be lent: the producer has written to it in this transaction, and two writers share no sequences"
                )
            if tp in self._out:
                return NotToBeLent(
                    f"{name(tp)} was lent in this transaction and not returned: somebody may be writing to it, and a second writer's "
                    "records would be taken for repeats of the first one's. Hand what the borrower wrote to returned(), or abort"
                )
        return None

    def missing(self) -> NotReturned | None:
        """Why the transaction cannot be committed yet, if some of what was lent did not come back."""
        if not self._out:
            return None
        left, parts = set(self._out), []
        # A partition that was lent again is the newer loan's.
        for number, loan in reversed([*enumerate(self._loans, 1)]):
            of_it = [tp for tp in loan if tp in left]
            left.difference_update(of_it)
            if of_it:
                named = ", ".join(map(name, of_it[:NAMED])) + (", ..." if len(of_it) > NAMED else "")
                parts.append(f"{len(of_it)} of the {len(loan)} partitions of loan {number} ({named})")
        return NotReturned(
            f"transactional id {self._id!r}: {' and '.join(reversed(parts))} not accounted for: somebody may be writing there. Hand"
            " what Borrower.finish returned to returned(), and loan.unused(written) for those that nobody wrote; or abort"
        )

    def lend(self, wish: Wish, identity: tuple[int, int], *, version2: bool) -> None:
        """They are lent from here on."""
        self.used = True
        self._loans.append(wish.partitions)
        sequences = []
        for tp in wish.partitions:
            self._out[tp] = self._back.pop(tp, self._reached.get(tp, 0))
            sequences.append((*tp, self._out[tp]))
        wish.loan = Loan(
            transactional_id=self._id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            transaction_version=2 if version2 else 1,
            sequences=tuple(sequences),
        )

    def take_back(self, written: Iterable[Written]) -> BadLoan | None:
        """What was written, and by whom is not asked. All of it, or why none of it."""
        accounts = {(each.topic, each.partition): each for each in written}
        for tp, account in accounts.items():
            if tp not in self._out:
                return BadLoan(f"{name(tp)} is not lent in this transaction, so nothing of it can be returned")
            if advance(self._out[tp], account.records % (1 << 31)) != account.next_sequence:
                return BadLoan(
                    f"{name(tp)}: {account.records} records from sequence {self._out[tp]} on cannot end at {account.next_sequence} "
                    f"({distance(self._out[tp], account.next_sequence)} records): this is the account of another loan"
                )
        for tp, account in accounts.items():
            del self._out[tp]
            self._back[tp] = account.next_sequence
            self.filled = self.filled or account.records > 0
        return None


def read_written(given: Iterable[object]) -> tuple[Written, ...]:
    """Accounts, each as itself or as its text, of each partition one. Raises BadLoan."""
    if isinstance(given, str | bytes | Written):
        raise BadLoan("what was written comes as a list: one account for each partition")
    accounts: dict[TP, Written] = {}
    for each in given:
        account = Written.loads(each) if isinstance(each, str | bytes) else each
        if not isinstance(account, Written):
            raise BadLoan(f"what was written is told by Written, or its text, not {type(each).__name__}")
        tp = (account.topic, account.partition)
        if tp in accounts:
            raise BadLoan(f"{name(tp)} was written by two borrowers: {accounts[tp]} and {account}")
        accounts[tp] = account
    return tuple(accounts.values())
