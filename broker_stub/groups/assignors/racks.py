"""Rack awareness of the assignors (KIP-881): consumers should read from replicas in their own rack.

It matters only if some consumer's rack has replicas, and not every partition has replicas in all racks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from fencepost.broker_stub.groups.assignors.subscriptions import Subscriptions, TopicPartition


def racks_matter(consumer_racks: Collection[str], partition_racks: Collection[frozenset[str]]) -> bool:
    every: frozenset[str] = frozenset().union(*partition_racks)
    return not every.isdisjoint(consumer_racks) and any(racks != every for racks in partition_racks)


class RackMatches:
    """The racks as the sticky assignors use them. `consumers` is empty where racks do not matter."""

    def __init__(self, group: Subscriptions) -> None:
        known = {each.id: each.rack for each in group.members.values() if each.rack}
        self.consumers: Mapping[str, str] = known if racks_matter(set(known.values()), group.racks.values()) else {}
        self._racks = group.racks
        self._members_in = Counter(self.consumers.values())

    def mismatch(self, consumer: str, tp: TopicPartition) -> bool:
        rack = self.consumers.get(consumer)
        return rack is not None and rack not in self._racks[tp]

    def match(self, consumer: str, tp: TopicPartition) -> bool:
        return self.consumers.get(consumer) in self._racks[tp]

    def rarest_first(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Partitions with the fewest consumers in their racks first."""
        return sorted(partitions, key=lambda tp: sum(self._members_in[rack] for rack in self._racks[tp]))

    def next_match(self, tp: TopicPartition, consumers: Sequence[str], first: int) -> int | None:
        """The place of the next consumer that matches, from `first` on in a circle."""
        places = ((first + step) % len(consumers) for step in range(len(consumers)))
        return next((place for place in places if self.match(consumers[place], tp)), None)
