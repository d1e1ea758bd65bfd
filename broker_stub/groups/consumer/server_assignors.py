"""The assignors of the group coordinator: range and uniform (KIP-848). Pure functions from subscriptions to a target assignment.

Members come in the order of Kafka's hash tables, because the uniform assignor depends on it. Racks do not count, as in Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors.java_order import HashOrder, string_order

Partitions = Mapping[UUID, frozenset[int]]


class Subscriber(NamedTuple):
    """A member: the topics to which it subscribes, and what it would own by the last target assignment."""

    instance_id: str | None
    topics: frozenset[UUID]
    target: Partitions


class Subscriptions(NamedTuple):
    """A group. `sizes`: how many partitions each topic has. `owned`: the partitions of the last target assignment."""

    members: Mapping[str, Subscriber]
    sizes: Mapping[UUID, int]
    owned: frozenset[tuple[UUID, int]]
    are_equal: bool


Assigned = dict[str, dict[UUID, frozenset[int]]]


def assign_range(group: Subscriptions) -> Assigned:
    """Each topic is cut into ranges, one for each of its members. The first members get one more."""
    order = sorted(group.members, key=lambda each: _range_order(each, group.members[each]))
    assigned: Assigned = {member_id: {} for member_id in order}
    for topic_id in dict.fromkeys(topic for member_id in order for topic in HashOrder(_uuid_hash, group.members[member_id].topics)):
        readers = [member_id for member_id in order if group.are_equal or topic_id in group.members[member_id].topics]
        quota, extra = divmod(group.sizes[topic_id], len(readers))
        start = 0
        for number, member_id in enumerate(readers):
            end = start + quota + (number < extra)
            if end > start:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assigned


def assign_uniform(group: Subscriptions) -> Assigned:
    """Every member gets as many partitions as the others, as far as subscriptions allow it, and keeps what it can."""
    return _assign_equal(group) if group.are_equal else _assign_different(group)


ASSIGNORS: Final[dict[str, Callable[[Subscriptions], Assigned]]] = {"uniform": assign_uniform, "range": assign_range}
"""By name, in the order of Kafka's default: the first one counts where no member names one."""


def _range_order(member_id: str, member: Subscriber) -> tuple[bool, bytes]:
    """Static members first, by their instance ids."""
    return member.instance_id is None, string_order(member_id if member.instance_id is None else member.instance_id)


# Uniform, equal subscriptions


def _assign_equal(group: Subscriptions) -> Assigned:
    order = [*HashOrder(string_hash, group.members)]
    topics = [*HashOrder(_uuid_hash, group.members[order[0]].topics)] if order else []
    if not topics:
        return {}
    every = [(topic_id, index) for topic_id in topics for index in range(group.sizes[topic_id])]
    unassigned = [each for each in every if each not in group.owned]
    quota, extras = divmod(len(every), len(order))
    kept: dict[str, dict[UUID, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for number, member_id in enumerate(order):
        room, may_have_more = quota + (extras > 0), extras > 0
        mine = kept[member_id] = {}
        for topic_id, indexes in group.members[member_id].target.items():
            if topic_id not in group.members[member_id].topics:
                continue
            ordered = sorted(indexes)
            keeps, gives = ordered[:room], ordered[room:]
            if keeps:
                mine[topic_id] = set(keeps)
            unassigned += [(topic_id, index) for index in gives]
            room -= len(keeps)
        if room > 0 and may_have_more and len(order) - number > extras:
            room, may_have_more = room - 1, False
        if room > 0:
            unfilled.append((member_id, room))
        extras -= may_have_more
    left = iter(unassigned)
    for member_id, room in unfilled:
        for _, (topic_id, index) in zip(range(room), left, strict=False):
            kept[member_id].setdefault(topic_id, set()).add(index)
    return {member_id: _frozen(mine) for member_id, mine in kept.items()}


# Uniform, different subscriptions

ROUNDS_MAX: Final = 16
"""So often the topics are balanced one after the other. With overlapping subscriptions this may end before the best balance."""

FREE: Final = -1


class _Loads:
    """What each member has. Members are numbers, in the order of the hash table."""

    def __init__(self, group: Subscriptions) -> None:
        self.order = [*HashOrder(string_hash, group.members)]
        self.sizes = group.sizes
        self.counts = [0] * len(self.order)
        self.readers: dict[UUID, list[int]] = {}
        for number, member_id in enumerate(self.order):
            for topic_id in group.members[member_id].topics:
                self.readers.setdefault(topic_id, []).append(number)
        self.owners = {topic_id: [FREE] * group.sizes[topic_id] for topic_id in self.readers}
        for number, member_id in enumerate(self.order):
            for topic_id, indexes in group.members[member_id].target.items():
                for index in indexes if topic_id in group.members[member_id].topics else ():
                    self.give(topic_id, index, number)

    def give(self, topic_id: UUID, index: int, member: int) -> None:
        owner = self.owners[topic_id][index]
        if owner != FREE:
            self.counts[owner] -= 1
        self.owners[topic_id][index] = member
        self.counts[member] += 1

    def sorted_topics(self, topics: Iterable[UUID]) -> list[UUID]:
        """The topics with the most partitions for each of their members first, then those with the fewest members."""
        return sorted(topics, key=lambda each: (-(self.sizes[each] / len(self.readers[each])), len(self.readers[each]), _signed(each)))


class _Balancer:
    """Two ranges of a topic's members: those with the fewest partitions, and those with the most.

    The first range grows to the right, the second one to the left. All members of a range have the same count before it is used.
    """

    def __init__(self, counts: Sequence[int], members: Iterable[int]) -> None:
        self._counts = counts
        self.members = sorted(members, key=lambda each: (counts[each], each))
        self._low_end = 0
        self._low_count = counts[self.members[0]] - 1
        self._next_low = 0
        self._high_start = self._high_end = len(self.members)
        self._high_count = counts[self.members[-1]] + 1
        self._next_high = len(self.members) - 1
        self.imbalance = self._high_count - 1 - (self._low_count + 1)

    def least_loaded(self) -> int:
        """The next member to get a partition."""
        if self._next_low >= self._low_end:
            self._low_count += 1
            while self._low_end < len(self.members) and self._counts[self.members[self._low_end]] == self._low_count:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self.members[self._next_low - 1]

    def most_loaded(self) -> int | None:
        """The next member to lose a partition. None: no member is left that has one to give."""
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_count = self._counts[self.members[self._high_start - 1]]
            else:
                self._high_count -= 1
            while self._high_start > 0 and self._counts[self.members[self._high_start - 1]] == self._high_count:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self.members[self._next_high + 1]

    def exclude_most_loaded(self) -> None:
        """Takes the member of the last answer out of the range, because it has no partition of the topic."""
        members, at, last = self.members, self._next_high + 1, self._high_end - 1
        members[at], members[last] = members[last], members[at]
        self._high_end -= 1

    @property
    def is_balanced(self) -> bool:
        return self._high_count - self._low_count <= 1


def _assign_different(group: Subscriptions) -> Assigned:
    loads = _Loads(group)
    if not loads.readers:
        return {}
    free = {topic_id: [index for index, owner in enumerate(owners) if owner == FREE] for topic_id, owners in loads.owners.items()}
    for topic_id in loads.sorted_topics(topic_id for topic_id, indexes in free.items() if indexes):
        balancer = _Balancer(loads.counts, loads.readers[topic_id])
        for index in free[topic_id]:
            loads.give(topic_id, index, balancer.least_loaded())
    _balance(loads)
    assigned: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in loads.order}
    for topic_id, owners in loads.owners.items():
        for index, owner in enumerate(owners):
            assigned[loads.order[owner]].setdefault(topic_id, set()).add(index)
    return {member_id: _frozen(mine) for member_id, mine in assigned.items()}


def _balance(loads: _Loads) -> None:
    """Balances one topic after the other, until a whole round moves nothing."""
    topics = loads.sorted_topics(topic_id for topic_id, readers in loads.readers.items() if len(readers) > 1)
    last_moved = -1
    for _ in range(ROUNDS_MAX):
        for number, topic_id in enumerate(topics):
            if number == last_moved:
                return
            if _balance_topic(loads, topic_id) or last_moved == -1:
                last_moved = number


def _balance_topic(loads: _Loads, topic_id: UUID) -> int:
    """Moves partitions of the topic from the members with the most to those with the fewest. Returns how many."""
    balancer = _Balancer(loads.counts, loads.readers[topic_id])
    if balancer.imbalance <= 1:
        return 0
    gives: dict[int, list[int]] = {}
    for index, owner in enumerate(loads.owners[topic_id]):
        gives.setdefault(owner, []).append(index)
    moved = 0
    while True:
        giver = balancer.most_loaded()
        while giver is not None and not gives.get(giver):
            balancer.exclude_most_loaded()
            giver = balancer.most_loaded()
        if giver is None:
            return moved
        index = gives[giver].pop()
        taker = balancer.least_loaded()
        if balancer.is_balanced:
            return moved
        loads.give(topic_id, index, taker)
        moved += 1


# Java's orders


def _uuid_hash(topic_id: UUID) -> int:
    both = (topic_id.int >> 64) ^ (topic_id.int & 0xFFFFFFFFFFFFFFFF)
    return (both >> 32) ^ (both & 0xFFFFFFFF)


def _signed(topic_id: UUID) -> tuple[int, int]:
    """Java compares the halves as signed numbers."""
    high, low = topic_id.int >> 64, topic_id.int & 0xFFFFFFFFFFFFFFFF
    return (high ^ 1 << 63, low ^ 1 << 63)


def _frozen(partitions: Mapping[UUID, set[int]]) -> dict[UUID, frozenset[int]]:
    return {topic_id: frozenset(indexes) for topic_id, indexes in partitions.items() if indexes}
