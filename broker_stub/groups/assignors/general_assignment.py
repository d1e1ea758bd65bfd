"""The sticky assignment of a group whose members subscribe to different topics (Kafka's `GeneralAssignmentBuilder`).

Members keep what they own and still subscribe to. Unassigned partitions go to the member with the fewest. Then partitions move to members
with at least two fewer, and the result counts only if it is better balanced than before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping

from fencepost.broker_stub.groups.assignors.java_order import string_order
from fencepost.broker_stub.groups.assignors.owned_partitions import Claims, former_owners
from fencepost.broker_stub.groups.assignors.partition_movements import PartitionMovements
from fencepost.broker_stub.groups.assignors.racks import RackMatches
from fencepost.broker_stub.groups.assignors.subscriptions import Subscriptions, TopicPartition

Assigned = dict[str, list[TopicPartition]]


class GeneralAssignment:
    """See the module. Topics are movable if several members subscribe to them."""

    def __init__(self, group: Subscriptions, racks: RackMatches, claims: Claims) -> None:
        self._group = group
        self._racks = racks
        self._former_owner = former_owners(group)
        self._movements = PartitionMovements()
        self._topics_of = {each.id: [topic for topic in each.topics if topic in group.partitions] for each in group.members.values()}
        self._subscribers: dict[str, list[str]] = {topic: [] for topic in group.partitions}
        for consumer, topics in self._topics_of.items():
            for topic in topics:
                self._subscribers[topic].append(consumer)
        self._assigned: Assigned = {}
        self._owner: dict[TopicPartition, str] = {}
        self._revoked = False
        self._keep_owned(claims)
        self._fewest = _Order({consumer: len(owned) for consumer, owned in self._assigned.items()})

    def build(self) -> Assigned:
        topics = sorted(self._subscribers, key=lambda topic: (len(self._subscribers[topic]), string_order(topic)))
        every = [tp for topic in topics for tp in self._group.of(topic)]
        unassigned = [tp for tp in every if tp not in self._owner]
        is_new = not self._assigned[self._fewest.last()]
        left = self._assign(unassigned, by_racks=True) if self._racks.consumers else unassigned
        self._assign(left, by_racks=False)

        movable = {topic for topic, subscribers in self._subscribers.items() if len(subscribers) > 1}
        fixed = self._take_fixed_members(movable)
        before, before_owner = _copied(self._assigned), dict(self._owner)
        if not self._revoked:
            self._balance([tp for tp in unassigned if tp.topic in movable])
        balanced = self._balance([tp for tp in every if tp.topic in movable])
        if not is_new and balanced and _imbalance(self._assigned) >= _imbalance(before):
            self._assigned, self._owner = before, before_owner
        return {**self._assigned, **fixed}

    # Keeping and assigning

    def _keep_owned(self, claims: Claims) -> None:
        for consumer, owned in claims.owned.items():
            subscribed = self._topics_of[consumer]
            kept = [tp for tp in owned if tp.topic in subscribed and not self._racks.mismatch(consumer, tp)]
            self._revoked |= len(kept) < len(owned)
            self._assigned[consumer] = kept
            self._owner.update(dict.fromkeys(kept, consumer))

    def _assign(self, partitions: Iterable[TopicPartition], *, by_racks: bool) -> list[TopicPartition]:
        """Gives each partition to its subscriber with the fewest. Returns those that no subscriber could get."""
        left = []
        for tp in partitions:
            fitting = (each for each in self._fewest if tp.topic in self._topics_of[each])
            consumer = next((each for each in fitting if not (by_racks and self._racks.mismatch(each, tp))), None)
            if consumer is None:
                left.append(tp)
            else:
                self._assigned[consumer].append(tp)
                self._owner[tp] = consumer
                self._fewest.update(consumer, len(self._assigned[consumer]))
        return left

    def _take_fixed_members(self, movable: set[str]) -> Assigned:
        """Takes out the members that have all they can get, and share no topic with others."""
        fixed: Assigned = {}
        for consumer, topics in self._topics_of.items():
            owned = self._assigned[consumer]
            if len(owned) >= sum(self._group.partitions[topic] for topic in topics) and movable.isdisjoint(tp.topic for tp in owned):
                self._fewest.remove(consumer)
                fixed[consumer] = self._assigned.pop(consumer)
        return fixed

    # Balancing

    def _balance(self, partitions: list[TopicPartition]) -> bool:
        """Moves these partitions until none can be moved for a better balance. Returns whether it moved any."""
        any_moved, moved = False, True
        while moved:
            moved = False
            for tp in partitions:
                if self._is_balanced():
                    break
                new_owner = self._better_owner(tp)
                if new_owner is not None:
                    self._move(self._movements.to_move(tp, self._owner[tp], new_owner), new_owner)
                    moved = any_moved = True
        return any_moved

    def _better_owner(self, tp: TopicPartition) -> str | None:
        """The former owner if it has at least two partitions fewer, or else the member with the fewest if any has so few."""
        least = len(self._assigned[self._owner[tp]]) - 1
        former = self._former_owner.get(tp)
        if former is not None and len(self._assigned[former]) < least:
            return former
        if any(len(self._assigned[each]) < least for each in self._subscribers[tp.topic]):
            return next(each for each in self._fewest if tp.topic in self._topics_of[each])
        return None

    def _is_balanced(self) -> bool:
        if len(self._assigned[self._fewest.first()]) >= len(self._assigned[self._fewest.last()]) - 1:
            return True
        most = dict.fromkeys(self._subscribers, 0)
        for owned in self._assigned.values():
            for topic in {tp.topic for tp in owned}:
                most[topic] = max(most[topic], len(owned))
        return not any(most[topic] > len(self._assigned[each]) + 1 for each in self._fewest for topic in self._topics_of[each])

    def _move(self, tp: TopicPartition, new: str) -> None:
        old = self._owner[tp]
        self._movements.move(tp, old, new)
        self._assigned[old].remove(tp)
        self._assigned[new].append(tp)
        self._owner[tp] = new
        for each in (old, new):
            self._fewest.update(each, len(self._assigned[each]))


class _Order:
    """Members by their number of partitions, and by id among equals."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._keys = {each: (size, string_order(each), each) for each, size in sizes.items()}
        self._sorted = sorted(self._keys.values())

    def __iter__(self) -> Iterator[str]:
        return (each for _, _, each in self._sorted)

    def first(self) -> str:
        return self._sorted[0][2]

    def last(self) -> str:
        return self._sorted[-1][2]

    def remove(self, consumer: str) -> None:
        del self._sorted[bisect_left(self._sorted, self._keys.pop(consumer))]

    def update(self, consumer: str, size: int) -> None:
        self.remove(consumer)
        self._keys[consumer] = key = (size, string_order(consumer), consumer)
        insort(self._sorted, key)


def _imbalance(assigned: Assigned) -> int:
    """The sum of the differences between all pairs of members."""
    sizes = sorted(map(len, assigned.values()))
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))


def _copied(assigned: Assigned) -> Assigned:
    return {each: list(owned) for each, owned in assigned.items()}
