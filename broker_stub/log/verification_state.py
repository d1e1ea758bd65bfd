"""The state of a partition between asking the transaction coordinator about a producer and appending the producer's batch (KIP-890).

The partition creates a guard before the coordinator is asked; the guard comes back with the batch. A marker in between makes the guard
invalid. This file sends no requests.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Verification(Struct, frozen=True):
    """One producer whose transaction is being verified. `guard` distinguishes it from earlier ones."""

    begun_ms: int
    guard: int
    epoch: int
    lowest_sequence: int
    bumps: bool
    """The producer's epoch rises with every transaction, so its first batch here has sequence 0."""


class Verifications:
    """The verifications of one partition, by producer id."""

    __slots__ = ("_guards", "_of")

    def __init__(self) -> None:
        self._of: dict[int, Verification] = {}
        self._guards = 0

    def __bool__(self) -> bool:
        return bool(self._of)

    def get(self, producer_id: int) -> Verification | None:
        return self._of.get(producer_id)

    def begin(self, producer_id: int, *, epoch: int, sequence: int, bumps: bool, now_ms: int) -> int:
        """A guard for this producer: the existing one, unless its epoch is older."""
        known = self._of.get(producer_id)
        if known is None:
            self._guards += 1
            known = Verification(now_ms, self._guards, epoch, sequence, bumps)
        elif epoch > known.epoch:
            known = replace(known, epoch=epoch, lowest_sequence=sequence)
        elif epoch == known.epoch:
            known = replace(known, lowest_sequence=min(known.lowest_sequence, sequence))
        self._of[producer_id] = known
        return known.guard

    def expire(self, now_ms: int, *, after_ms: int) -> None:
        """Removes those that began so long ago and that no batch has ended, as Kafka does with the idle producers."""
        self._of = {pid: known for pid, known in self._of.items() if now_ms - known.begun_ms < after_ms}

    def written(self, producer_id: int, epoch: int, *, marker: bool) -> None:
        """Ends the verification, because a transactional batch or a marker of the producer was written. Where epochs rise, a marker of the
        last transaction already has the epoch of the next one, and does not end its verification."""
        known = self._of.get(producer_id)
        if known is not None and not (marker and known.bumps and known.epoch == epoch):
            del self._of[producer_id]
