"""The round-robin assignor: all partitions in order, dealt to the members in a circle. Those that do not subscribe to it are skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.broker_stub.groups.assignors.subscriptions import NO_RACKS, Assignment, Member, Racks, Subscriptions, member_order


def assign_round_robin(members: Sequence[Member], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
    """Racks do not count."""
    group = Subscriptions(members, partitions, racks)
    assigned = group.nothing()
    circle = sorted(members, key=member_order)
    turn = 0
    for tp in (tp for topic in group.sorted_topics() for tp in group.of(topic)):
        while tp.topic not in circle[turn % len(circle)].topics:
            turn += 1
        assigned[circle[turn % len(circle)].id].append(tp)
        turn += 1
    return Assignment({each.id: assigned[each.id] for each in members})
