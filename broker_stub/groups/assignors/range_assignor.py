"""The range assignor: each topic's partitions in consecutive ranges, one for each of its subscribers in order.

If racks matter for a topic, partitions go to matching members first, within the same quota. Topics with equal subscribers and equal numbers
of partitions stay co-partitioned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from fencepost.broker_stub.groups.assignors.java_order import string_order
from fencepost.broker_stub.groups.assignors.racks import racks_matter
from fencepost.broker_stub.groups.assignors.subscriptions import (
    NO_RACKS,
    Assignment,
    Member,
    Racks,
    Subscriptions,
    TopicPartition,
    member_order,
)


def assign_ranges(members: Sequence[Member], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
    group = Subscriptions(members, partitions, racks)
    assigned = group.nothing()
    topics = [_Topic(group, each, assigned) for each in group.partitions]
    by_racks = any(each.by_racks for each in topics)
    if by_racks:
        _match_racks(topics)
    for topic in topics:
        topic.assign_ranges(lambda consumer, number: True)
    if by_racks:
        for each in assigned.values():
            each.sort(key=lambda tp: (string_order(tp.topic), tp.partition))
    return Assignment({each.id: assigned[each.id] for each in members})


class _Topic:
    """One topic: its subscribers in order, its unassigned partitions, and what each subscriber may still get."""

    def __init__(self, group: Subscriptions, name: str, assigned: dict[str, list[TopicPartition]]) -> None:
        self.name = name
        subscribers = sorted((each for each in group.members.values() if name in each.topics), key=member_order)
        self.racks_of = {each.id: each.rack or None for each in subscribers}
        self.racks = [group.racks[tp] for tp in group.of(name)]
        self.by_racks = racks_matter({rack for rack in self.racks_of.values() if rack}, self.racks)
        self.unassigned = list(range(group.partitions[name]))
        self._quota, self._extras = divmod(len(self.unassigned), len(subscribers))
        self._counts = dict.fromkeys(self.racks_of, 0)
        self._assigned = assigned

    def matches(self, consumer: str, number: int) -> bool:
        rack = self.racks_of[consumer]
        return rack is None or rack in self.racks[number]

    def room(self, consumer: str) -> int:
        """How many partitions the consumer may still get."""
        return max(0, self._quota + (self._extras > 0) - self._counts[consumer])

    def assign_ranges(self, may: Callable[[str, int], bool]) -> None:
        for consumer in self.racks_of:
            self.give(consumer, [number for number in self.unassigned if may(consumer, number)][: self.room(consumer)])

    def give(self, consumer: str, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        self._assigned[consumer] += [TopicPartition(self.name, number) for number in numbers]
        self._counts[consumer] += len(numbers)
        self._extras -= self._counts[consumer] > self._quota
        given = set(numbers)
        self.unassigned = [number for number in self.unassigned if number not in given]


def _match_racks(topics: Sequence[_Topic]) -> None:
    alike: defaultdict[tuple[object, int], list[_Topic]] = defaultdict(list)
    for topic in topics:
        if any(topic.racks_of.values()):
            alike[frozenset(topic.racks_of), len(topic.racks)].append(topic)
    for group in alike.values():
        if len(group) > 1:
            _match_together(group)
        elif group[0].by_racks:
            group[0].assign_ranges(group[0].matches)


def _match_together(topics: Sequence[_Topic]) -> None:
    """Gives each partition number of all these topics to the first consumer that matches the racks of all of them."""
    remaining = list(topics[0].racks_of)
    for number in range(len(topics[0].racks)):
        fitting = (each for each in remaining if all(topic.matches(each, number) and topic.room(each) for topic in topics))
        consumer = next(fitting, None)
        if consumer is None:
            continue
        for topic in topics:
            topic.give(consumer, [number])
        if not any(topic.room(consumer) for topic in topics):
            remaining.remove(consumer)
