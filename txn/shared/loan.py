"""What is lent of a transaction, and what comes back: both small enough to travel with a task, as themselves or as one line of JSON.

A loan is an identity to write under and where each partition's sequences go on; it carries no secret and no address. It ends nothing, and
whoever has it can end nothing: that stays with the producer that lent it. Texts of another format are refused with BadLoan.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta, Struct

from fencepost.producer.errors import Misuse
from fencepost.txn.versioned_json import Format

__all__ = ["FORMAT", "TP", "BadLoan", "Loan", "Written", "check_partitions", "name", "read_loan"]

FORMAT: Final = 1
"""Of the texts. Whatever changes what a field means, or adds one, changes this number."""

TP = tuple[str, int]

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Offset = Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]
Sequence = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Index = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Text = Annotated[str, Meta(min_length=1)]


class BadLoan(Misuse, ValueError):
    """This is no loan, or no account of one, that could be used here."""


_LOAN: Final = Format(FORMAT, "loan of a transaction", BadLoan)
_ACCOUNT: Final = Format(FORMAT, "account of what was written", BadLoan)


class Written(Struct, frozen=True, forbid_unknown_fields=True):
    """What a borrower wrote to one partition. The offsets are those of its first and its last record, -1 where nothing was written or
    nobody was told; others may have written in between. `next_sequence`: where whoever writes there next in the same transaction begins."""

    topic: Text
    partition: Index
    records: Count
    first_offset: Offset
    last_offset: Offset
    next_sequence: Sequence

    def dumps(self) -> str:
        """One line of JSON."""
        return _ACCOUNT.dumps(self).decode()

    @classmethod
    def loads(cls, text: str | bytes) -> Self:
        """Read what `dumps` wrote. Raises BadLoan."""
        return _ACCOUNT.loads(cls, text)


class Loan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transaction's identity, for somebody else to write under, and the partitions that it is lent for: each with the sequence that its
    next record has. `transaction_version`: 1 or 2 (KIP-890), which decides what versions of Produce may be used: nobody negotiates it anew.

    `dumps`, or `str(loan)`, is one line of JSON; `loads` reads it.
    """

    transactional_id: Text
    producer_id: Count
    producer_epoch: Annotated[int, Meta(ge=0, le=32_767)]
    transaction_version: Annotated[int, Meta(ge=1, le=2)]
    sequences: tuple[tuple[Text, Index, Sequence], ...]

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch

    @property
    def partitions(self) -> tuple[TP, ...]:
        """What it is lent for."""
        return tuple((topic, partition) for topic, partition, _ in self.sequences)

    def part(self, partitions: Iterable[TP]) -> Loan:
        """The loan of these partitions alone, for one of several borrowers. Raises BadLoan for one that is not in it."""
        wanted = check_partitions(partitions)
        lent, chosen = set(self.partitions), set(wanted)
        missing = [tp for tp in wanted if tp not in lent]
        if missing:
            raise BadLoan(f"{name(missing[0])} is not part of the loan of transactional id {self.transactional_id!r}")
        return msgspec.structs.replace(self, sequences=tuple(each for each in self.sequences if each[:2] in chosen))

    def unused(self, written: Iterable[Written]) -> list[Written]:
        """An account of no records for each partition of the loan that these leave out: to be returned along with them, so that these
        partitions can be lent again. Only for whoever knows that nobody has written there, and that nobody will."""
        used = {(each.topic, each.partition) for each in written}
        return [
            Written(topic, partition, 0, -1, -1, sequence)
            for topic, partition, sequence in self.sequences
            if (topic, partition) not in used
        ]

    def dumps(self) -> str:
        """One line of JSON."""
        return _LOAN.dumps(self).decode()

    def __str__(self) -> str:
        return self.dumps()

    @classmethod
    def loads(cls, text: str | bytes) -> Self:
        """Read what `dumps` wrote. Raises BadLoan."""
        return _LOAN.loads(cls, text)


def read_loan(given: object) -> Loan:
    """A loan as itself or as its text. Raises BadLoan."""
    if isinstance(given, Loan):
        return given
    if isinstance(given, str | bytes):
        return Loan.loads(given)
    raise BadLoan(f"a loan is a Loan, or its text, not {type(given).__name__}")


def check_partitions(given: Iterable[Any]) -> tuple[TP, ...]:
    """(topic, partition) pairs, each once, in their order. Raises BadLoan."""
    try:
        pairs = tuple(given)
    except TypeError:
        raise BadLoan(f"partitions are (topic, partition) pairs, not {type(given).__name__}") from None
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and pair[0] and _is_index(pair[1])):
            raise BadLoan(f"partitions are (topic, partition) pairs, not {pair!r}")
    if not pairs:
        raise BadLoan("no partition was named: a loan is of one or more")
    seen: set[TP] = set()
    for pair in pairs:
        if pair in seen:
            raise BadLoan(f"{name(pair)} is named twice")
        seen.add(pair)
    return pairs


def name(tp: TP) -> str:
    """A partition, for a message."""
    return f"{tp[0]}-{tp[1]}"


def _is_index(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 31
