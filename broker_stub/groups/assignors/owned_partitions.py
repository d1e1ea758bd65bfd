"""Which partitions the members of a group own, by their own account: a partition that two of them claim is the newer generation's."""

from __future__ import annotations

from typing import NamedTuple

from fencepost.broker_stub.groups.assignors.subscriptions import Subscriptions, TopicPartition


class Claims(NamedTuple):
    """The partitions that each member owns. `contested`: those that two members of one generation claim, so that neither keeps them."""

    owned: dict[str, list[TopicPartition]]
    contested: set[TopicPartition]


def valid_claims(group: Subscriptions) -> Claims:
    claims = Claims(group.nothing(), set())
    owner: dict[TopicPartition, str] = {}
    for member in group.members.values():
        for tp in (each for each in member.owned if each in group.racks):
            other = group.members[owner[tp]] if tp in owner else None
            if other is not None and member.generation < other.generation:
                continue
            if other is not None and tp in claims.owned[other.id]:
                claims.owned[other.id].remove(tp)
            if other is not None and member.generation == other.generation:
                claims.contested.add(tp)
            else:
                claims.owned[member.id].append(tp)
            owner[tp] = member.id
    return claims


def former_owners(group: Subscriptions) -> dict[TopicPartition, str]:
    """The newest former owner of each partition that a member of an older generation claims and still subscribes to."""
    newest = max(each.generation for each in group.members.values())
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member in group.members.values():
        if member.generation < newest:
            for tp in (each for each in member.owned if each in group.racks and each.topic in member.topics):
                if tp not in found or member.generation > found[tp][0]:
                    found[tp] = (member.generation, member.id)
    return {tp: owner for tp, (_, owner) in found.items()}
