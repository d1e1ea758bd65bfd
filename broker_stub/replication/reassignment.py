"""The replicas of a partition while they change (Kafka's `PartitionReassignmentReplicas` and `PartitionReassignmentRevert`).

While a reassignment is in progress, the partition has the old replicas and the new ones. This decides when it ends, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Assignment(NamedTuple):
    """A partition's replicas in the order in which they are preferred as leaders, those that are being added, and those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_changing(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the reassignment has ended."""
        return without(self.replicas, self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas when the reassignment is cancelled."""
        return without(self.replicas, self.adding)

    def towards(self, target: Sequence[int]) -> Assignment:
        """A reassignment to these replicas begins. If it adds or removes none, those of a reassignment in progress stay, as in Kafka."""
        removing = tuple(sorted({*self.replicas} - {*target}))
        adding = tuple(sorted({*target} - {*self.replicas}))
        return Assignment((*target, *removing), adding or self.adding, removing or self.removing)

    def ends_with(self, isr: Sequence[int]) -> bool:
        """Whether the old replicas can be removed: each new replica is in sync. If the partition gets fewer replicas, each staying replica
        must be in sync."""
        staying = {*isr} - {*self.removing}
        waits_for = self.target if len(self.adding) < len(self.removing) else self.adding
        return self.is_changing and bool(staying) and staying.issuperset(waits_for)


def without(nodes: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
    """The rest, in the same order."""
    return tuple(node for node in nodes if node not in others)
