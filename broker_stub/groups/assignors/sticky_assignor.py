"""The sticky assignors: as balanced as possible, and members keep what they own as far as balance allows.

There is one algorithm for groups whose members all subscribe to the same topics, and one for all other groups.

Three differences from Kafka's classes, where those break their own promise (docs/groups.md shows what they do): owned partitions that no
longer exist are ignored; a member without topics gets none; no partition goes back to a former owner that no longer subscribes to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.broker_stub.groups.assignors.constrained_assignment import ConstrainedAssignment
from fencepost.broker_stub.groups.assignors.general_assignment import GeneralAssignment
from fencepost.broker_stub.groups.assignors.owned_partitions import valid_claims
from fencepost.broker_stub.groups.assignors.racks import RackMatches
from fencepost.broker_stub.groups.assignors.subscriptions import NO_RACKS, Assignment, Member, Racks, Subscriptions, TopicPartition


def assign_sticky(members: Sequence[Member], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
    """The target assignment. Its `transferring` has the partitions that change from one member to another."""
    if not members:
        return Assignment({})
    group = Subscriptions(members, partitions, racks)
    claims = valid_claims(group)
    if len({frozenset(each.topics) for each in members}) == 1:
        constrained = ConstrainedAssignment(group, RackMatches(group), claims)
        assigned, transferring = constrained.build(), constrained.transferring
    else:
        assigned = GeneralAssignment(group, RackMatches(group), claims).build()
        transferring = _transferred(members, assigned)
    return Assignment({each.id: assigned[each.id] for each in members}, transferring)


def assign_cooperatively(members: Sequence[Member], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
    """One round of the cooperative-sticky assignor: the target without the partitions that change from one member to another. Their owners
    revoke them, and the next round gives them to their new owners."""
    target = assign_sticky(members, partitions, racks)
    for tp, new_owner in target.transferring.items():
        target.partitions[new_owner].remove(tp)
    return target


def _transferred(members: Sequence[Member], assigned: Mapping[str, Sequence[TopicPartition]]) -> dict[TopicPartition, str]:
    """The partitions that one member loses and another one gets."""
    added = {tp: each.id for each in members for tp in assigned[each.id] if tp not in each.owned}
    revoked = {tp for each in members for tp in each.owned if tp not in assigned[each.id]}
    return {tp: owner for tp, owner in added.items() if tp in revoked}
