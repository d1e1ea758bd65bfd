"""What the owner passes to a participant, and what it returns: both travel with a task, as a pickle or as one line of JSON.

A participation is the transaction's identity and the next sequence of each shared partition. It contains no secret and no address, and with
it no process can end the transaction. A text of another format raises BadParticipation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta, Struct

from fencepost.producer.errors import Misuse
from fencepost.txn.foundations.versioned_json import Format

__all__ = ["FORMAT", "TP", "BadParticipation", "Participation", "Written", "check_partitions", "name", "read_participation"]

FORMAT: Final = 1
"""The format of the texts. A change of a field's meaning, or a new field, changes this number."""

TP = tuple[str, int]

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Offset = Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]
Sequence = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Index = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Text = Annotated[str, Meta(min_length=1)]


class BadParticipation(Misuse, ValueError):
    """The value is no participation, or no account of what was written, that is valid here."""


_PARTICIPATION: Final = Format(FORMAT, "participation in a transaction", BadParticipation)
_ACCOUNT: Final = Format(FORMAT, "account of what was written", BadParticipation)


class Written(Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant wrote to one partition. The offsets are those of its first and last record, or -1 without a record or if the
    broker did not tell them. Other producers' records may lie between. `next_sequence` is for the partition's next writer in the same
    transaction."""

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
        """Read what `dumps` wrote. Raises BadParticipation."""
        return _ACCOUNT.loads(cls, text)


class Participation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transaction's identity, and each partition that it is shared for with the sequence of its next record. `transaction_version`: 1 or
    2 (KIP-890); the owner has negotiated it, and it decides which versions of Produce a participant uses.

    `dumps`, or `str(participation)`, is one line of JSON; `loads` reads it.
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
        """The partitions that a participant may write to."""
        return tuple((topic, partition) for topic, partition, _ in self.sequences)

    def part(self, partitions: Iterable[TP]) -> Participation:
        """The same with these partitions alone, for one of several participants. Raises BadParticipation for a partition that it lacks."""
        wanted = check_partitions(partitions)
        shared, chosen = set(self.partitions), set(wanted)
        missing = [tp for tp in wanted if tp not in shared]
        if missing:
            raise BadParticipation(f"{name(missing[0])} is not part of the participation in transactional id {self.transactional_id!r}")
        return msgspec.structs.replace(self, sequences=tuple(each for each in self.sequences if each[:2] in chosen))

    def unused(self, written: Iterable[Written]) -> list[Written]:
        """An account of no records for each partition that `written` leaves out. Return both, and these partitions can be shared again.
        Call it only after every participant has finished."""
        used = {(each.topic, each.partition) for each in written}
        return [
            Written(topic, partition, 0, -1, -1, sequence)
            for topic, partition, sequence in self.sequences
            if (topic, partition) not in used
        ]

    def dumps(self) -> str:
        """One line of JSON."""
        return _PARTICIPATION.dumps(self).decode()

    def __str__(self) -> str:
        return self.dumps()

    @classmethod
    def loads(cls, text: str | bytes) -> Self:
        """Read what `dumps` wrote. Raises BadParticipation."""
        return _PARTICIPATION.loads(cls, text)


def read_participation(given: object) -> Participation:
    """A `Participation`, given as such or as its text. Raises BadParticipation."""
    if isinstance(given, Participation):
        return given
    if isinstance(given, str | bytes):
        return Participation.loads(given)
    raise BadParticipation(f"a participation is a Participation, or its text, not {type(given).__name__}")


def check_partitions(given: Iterable[Any]) -> tuple[TP, ...]:
    """(topic, partition) pairs in the given order, each once. Raises BadParticipation."""
    try:
        pairs = tuple(given)
    except TypeError:
        raise BadParticipation(f"partitions are (topic, partition) pairs, not {type(given).__name__}") from None
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and pair[0] and _is_index(pair[1])):
            raise BadParticipation(f"partitions are (topic, partition) pairs, not {pair!r}")
    if not pairs:
        raise BadParticipation("no partition was named: a participation needs one or more")
    seen: set[TP] = set()
    for pair in pairs:
        if pair in seen:
            raise BadParticipation(f"{name(pair)} is named twice")
        seen.add(pair)
    return pairs


def name(tp: TP) -> str:
    """A partition, as messages name it."""
    return f"{tp[0]}-{tp[1]}"


def _is_index(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 31
