"""The sticky assignment of a group whose members all subscribe to the same topics (Kafka's `ConstrainedAssignmentBuilder`).

Every member gets the minimum quota of partitions, and as many members as there are partitions left over get one more.
"""

from __future__ import annotations

from fencepost.broker_stub.groups.assignors.java_order import string_order
from fencepost.broker_stub.groups.assignors.owned_partitions import Claims
from fencepost.broker_stub.groups.assignors.racks import RackMatches
from fencepost.broker_stub.groups.assignors.subscriptions import Subscriptions, TopicPartition


class ConstrainedAssignment:
    """`transferring`: the partitions that another member owned, with their new owner."""

    def __init__(self, group: Subscriptions, racks: RackMatches, claims: Claims) -> None:
        self.transferring: dict[TopicPartition, str] = {}
        self._group = group
        self._racks = racks
        self._claims = claims
        self._min, self._extras = divmod(sum(group.partitions.values()), len(group.members))
        self._max = self._min + (self._extras > 0)
        self._with_max = 0  # members that have more than the minimum
        self._assigned = group.nothing()
        self._revoked_from: dict[TopicPartition, str] = {}
        self._below: list[str] = []  # members below the minimum
        self._at_min: list[str] = []  # members with the minimum that may get one more

    def build(self) -> dict[str, list[TopicPartition]]:
        self._keep_owned()
        kept = {tp for each in self._assigned.values() for tp in each}
        left = [tp for topic in self._group.sorted_topics() for tp in self._group.of(topic) if tp not in kept]
        self._below.sort(key=string_order)
        self._at_min.sort(key=string_order)
        if self._racks.consumers:
            left = self._deal_by_racks(self._racks.rarest_first(left))
        self._deal(left)
        return self._assigned

    def _keep_owned(self) -> None:
        for consumer, owned in self._claims.owned.items():
            for tp in owned:
                if self._racks.mismatch(consumer, tp):
                    self._revoked_from[tp] = consumer
            fitting = [tp for tp in owned if tp not in self._revoked_from and tp not in self._claims.contested]
            fitting.sort(key=lambda tp: (tp.partition, string_order(tp.topic)))
            quota = len(fitting)
            if quota < self._min:
                self._below.append(consumer)
            elif quota >= self._max and self._with_max < self._extras:
                quota = self._max
                self._count_max()
            else:
                quota = self._min
                if self._with_max < self._extras:
                    self._at_min.append(consumer)
            self._assigned[consumer] += fitting[:quota]
            self._revoked_from.update(dict.fromkeys(fitting[quota:], consumer))

    def _deal_by_racks(self, left: list[TopicPartition]) -> list[TopicPartition]:
        """Deals partitions to members in their racks. Returns those that match no member with room."""
        unmatched = []
        turn = 0
        for tp in left:
            place = self._racks.next_match(tp, self._below, turn)
            if place is not None:
                consumer = self._below[place]
                if self._give(tp, consumer) >= self._min:
                    del self._below[place]
                    if self._min < self._max and self._with_max < self._extras:
                        self._at_min.append(consumer)
                else:
                    place += 1
                turn = place % len(self._below) if self._below else 0
                continue
            place = self._racks.next_match(tp, self._at_min, 0)
            if place is None:
                unmatched.append(tp)
                continue
            # One more partition is the maximum.
            self._give(tp, self._at_min.pop(place))
            self._count_max()
        return unmatched

    def _deal(self, left: list[TopicPartition]) -> None:
        """Deals partitions to the members below the minimum in a circle, then one each to members that have it."""
        turn = 0
        for tp in left:
            if not self._below:
                self._give(tp, self._at_min.pop(0))
                continue
            turn %= len(self._below)
            consumer = self._below[turn]
            if self._give(tp, consumer) == self._min:
                self._at_min.append(self._below.pop(turn))
            else:
                turn += 1

    def _count_max(self) -> None:
        self._with_max += 1
        if self._with_max == self._extras:
            self._at_min.clear()

    def _give(self, tp: TopicPartition, consumer: str) -> int:
        self._assigned[consumer].append(tp)
        if self._revoked_from.get(tp, consumer) != consumer or tp in self._claims.contested:
            self.transferring[tp] = consumer
        return len(self._assigned[consumer])
