"""How a member gets from what it owns to what it will own (Kafka's `CurrentAssignmentBuilder`).

A member first gives up what it must, and confirms that with its owned partitions. Then it gets the target's epoch, and the partitions that
no other member owns. It gets the others once they are released. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec.structs import replace

from fencepost.broker_stub.groups.state.consumer_group import NOT_OWNED, ConsumerMember, MemberState, Owned, Target
from fencepost.producer.wire.messages.consumer_groups import TopicPartitions


class AbandonAll(Exception):
    """The member is in a state that this release does not know. It must join again without partitions."""


class Situation(NamedTuple):
    """What a member's next state depends on, besides the member. `owned`: what it says that it owns; None: it says nothing."""

    assignment_epoch: int
    target: Target
    subscribed: frozenset[UUID]
    subscription_changed: bool
    owner_epoch: Callable[[UUID, int], int]
    owned: Sequence[TopicPartitions] | None


def reconciled(member: ConsumerMember, now: Situation) -> ConsumerMember:
    """The member in its next state, or as it is."""
    return member if member.is_reconciled_to(now.assignment_epoch) and not now.subscription_changed else _NEXT[member.state](member, now)


def _stable(member: ConsumerMember, now: Situation) -> ConsumerMember:
    if member.epoch != now.assignment_epoch:
        return _next_assignment(member, now, member.epoch)
    return _without_unsubscribed(member, now)


def _unrevoked(member: ConsumerMember, now: Situation) -> ConsumerMember:
    if not _owns_any(now.owned, member.pending_revocation):
        return _next_assignment(member, now, member.epoch)
    return _without_unsubscribed(member, now) if now.subscription_changed else member


def _unreleased(member: ConsumerMember, now: Situation) -> ConsumerMember:
    return _next_assignment(member, now, member.epoch)


def _unknown(member: ConsumerMember, now: Situation) -> ConsumerMember:
    if now.owned is None or now.owned:
        raise AbandonAll
    return _next_assignment(member, now, now.assignment_epoch)


_NEXT = {
    MemberState.STABLE: _stable,
    MemberState.UNREVOKED_PARTITIONS: _unrevoked,
    MemberState.UNRELEASED_PARTITIONS: _unreleased,
    MemberState.UNKNOWN: _unknown,
}


def _without_unsubscribed(member: ConsumerMember, now: Situation) -> ConsumerMember:
    """The member without the topics to which it subscribes no longer. Its epoch stays."""
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in now.subscribed}
    if len(kept) == len(member.assigned):
        return member
    gone = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in kept}
    pending = _joined(member.pending_revocation, gone)
    if _owns_any(now.owned, pending):
        return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return _moved(member, member.epoch, member.state, kept, member.pending_revocation)


def _next_assignment(member: ConsumerMember, now: Situation, epoch: int) -> ConsumerMember:
    kept: dict[UUID, dict[int, int]] = {}
    revoked: dict[UUID, dict[int, int]] = {}
    new: dict[UUID, list[int]] = {}
    is_waiting = False
    for topic_id in dict.fromkeys((*now.target, *member.assigned)):
        wanted = now.target.get(topic_id, frozenset()) if topic_id in now.subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        _put(kept, topic_id, {index: since for index, since in has.items() if index in wanted})
        _put(revoked, topic_id, {index: since for index, since in has.items() if index not in wanted})
        missing = sorted(wanted - has.keys())
        # What the member itself is about to give up is free for it.
        own = member.pending_revocation.get(topic_id, {})
        free = [index for index in missing if index in own or now.owner_epoch(topic_id, index) == NOT_OWNED]
        is_waiting = is_waiting or len(free) < len(missing)
        if free:
            new[topic_id] = free
    if revoked and _owns_any(now.owned, revoked):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    for topic_id, indexes in new.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(indexes, now.assignment_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _moved(member, now.assignment_epoch, state, kept, {})


def _moved(member: ConsumerMember, epoch: int, state: MemberState, assigned: Owned, pending: Owned) -> ConsumerMember:
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, assigned=assigned, pending_revocation=pending)


def _put(into: dict[UUID, dict[int, int]], topic_id: UUID, epochs: dict[int, int]) -> None:
    if epochs:
        into[topic_id] = epochs


def _joined(one: Owned, other: Owned) -> Owned:
    return {topic_id: {**one.get(topic_id, {}), **other.get(topic_id, {})} for topic_id in dict.fromkeys((*one, *other))}


def _owns_any(owned: Sequence[TopicPartitions] | None, partitions: Owned) -> bool:
    """Whether the member still owns one of these. A member that says nothing counts as owning them."""
    return owned is None or any(index in partitions.get(each.topic_id, {}) for each in owned for index in each.partitions)


def is_subset(owned: Iterable[TopicPartitions] | None, assigned: Owned) -> bool:
    """Whether the member says what it owns, and all of that is assigned to it."""
    return owned is not None and all(each.topic_id in assigned and assigned[each.topic_id].keys() >= set(each.partitions) for each in owned)
