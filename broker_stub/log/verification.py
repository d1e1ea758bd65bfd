"""What a partition remembers between asking the transaction coordinator about a producer and writing that producer's first batch
(KIP-890).

A guard is handed out before the coordinator is asked and comes back with the batch: a marker that came between the two has made it
worthless.
It asks nobody.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Verification(Struct, frozen=True):
    """One producer that is being vouched for. `guard` tells it from the ones before it."""

    guard: int
    epoch: int
    lowest_sequence: int
    bumps: bool
    """The producer's epoch goes up with every transaction: its first batch here has sequence 0."""


class Verifications:
    """By producer id."""

    __slots__ = ("_guards", "_of")

    def __init__(self) -> None:
        self._of: dict[int, Verification] = {}
        self._guards = 0

    def __bool__(self) -> bool:
        return bool(self._of)

    def get(self, producer_id: int) -> Verification | None:
        return self._of.get(producer_id)

    def begin(self, producer_id: int, *, epoch: int, sequence: int, bumps: bool) -> int:
        """A guard for this producer: the one that is out already, unless its epoch is older."""
        known = self._of.get(producer_id)
        if known is None:
            self._guards += 1
            known = Verification(self._guards, epoch, sequence, bumps)
        elif epoch > known.epoch:
            known = replace(known, epoch=epoch, lowest_sequence=sequence)
        elif epoch == known.epoch:
            known = replace(known, lowest_sequence=min(known.lowest_sequence, sequence))
        self._of[producer_id] = known
        return known.guard

    def written(self, producer_id: int, epoch: int, *, marker: bool) -> None:
        """A transactional batch or a marker of that producer is in the log. A marker of the last transaction has the epoch that the next
        one uses already where epochs go up; it says nothing about that."""
        known = self._of.get(producer_id)
        if known is not None and not (marker and known.bumps and known.epoch == epoch):
            del self._of[producer_id]
