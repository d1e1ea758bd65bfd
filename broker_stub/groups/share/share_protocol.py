"""The share group protocol: a member's heartbeat, its leave, and what happens when it sends neither (KIP-932).

It makes the same checks in the same order as Kafka's `GroupMetadataManager`. Each request becomes records: the store writes them, and the
group changes when its log has them. Partitions are assigned once the share coordinator has begun to keep them, which the group asks for
after a heartbeat. It does no I/O and reads only the given clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol
from uuid import UUID

from msgspec.structs import replace

from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.groups.classic.rebalances import cancel
from fencepost.broker_stub.groups.classic.responses import Caller
from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused
from fencepost.broker_stub.groups.consumer.subscription_metadata import metadata_hash
from fencepost.broker_stub.groups.share.simple_assignor import Subscriber, assign_simple
from fencepost.broker_stub.groups.state.share_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Kept,
    KeptTopics,
    Partitions,
    ShareGroup,
    ShareGroupStates,
    ShareMember,
    current_assignment,
    member_metadata,
    target_assignment,
)
from fencepost.broker_stub.groups.state.share_group_records import (
    GroupMetadata,
    ShareGroupRecord,
    TargetAssignmentMetadata,
    group_record,
    member_record,
)
from fencepost.broker_stub.groups.state.share_group_records import no_member as no_member_records
from fencepost.broker_stub.network.addresses import printable
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_groups import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

HeartbeatAnswer = Callable[[ShareGroupHeartbeatResponse], object]
INITIALIZE_RETRY_MS = 30_000
"""group.share.initialize.retry.interval.ms, which is internal."""

_log = logging.getLogger(__name__)


class Store(Protocol):
    """Where the groups are kept."""

    @property
    def shares(self) -> ShareGroupStates: ...
    def write_share_group(self, records: Sequence[ShareGroupRecord], then: Then | None = None) -> None: ...


class Initialize(Protocol):
    """Asks the share coordinator to begin a share partition. `then` gets the code."""

    def __call__(self, group_id: str, topic_id: UUID, partition: int, *, state_epoch: int, start_offset: int, then: Then) -> None: ...


class ShareSurroundings(NamedTuple):
    """What the groups need of their cluster. `topics`: those that the coordinator's broker knows. `config`: a config of a group.
    `other_type`: whether a group of another type has that id."""

    later: Callable[[int, Callable[[], None]], Timer]
    now_ms: Callable[[], int]
    topics: Callable[[], Topics]
    config: Callable[[str, str], str]
    members_max: int
    other_type: Callable[[str], bool]
    initialize: Initialize


class _Coming(NamedTuple):
    """Share partitions that the share coordinator has to begin in the group's epoch, and at which offsets."""

    epoch: int
    offsets: Mapping[UUID, Mapping[int, int]]


class _Outcome(NamedTuple):
    """What a heartbeat leads to."""

    records: list[ShareGroupRecord]
    response: ShareGroupHeartbeatResponse
    coming: _Coming


class ShareGroups:
    """The share groups of one shard, as its store has them, and the timers of their members."""

    def __init__(self, store: Store, around: ShareSurroundings) -> None:
        self._store = store
        self._around = around
        self._sessions: dict[tuple[str, str], Timer] = {}
        self.groups = store.shares.groups
        for group in self.groups.values():
            for member_id in group.members:
                self._restart_session(group.id, member_id)

    # Requests

    def heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller, answer: HeartbeatAnswer) -> None:
        """The request itself is checked before."""
        leaves = request.member_epoch == LEAVE_EPOCH
        try:
            records, response, coming = self._leave(request) if leaves else self._heartbeat(request, caller)
        except GroupRefused as refused:
            answer(ShareGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message))
            return

        def written(code: int) -> None:
            answer(ShareGroupHeartbeatResponse(error_code=code, error_message=None) if code else response)
            if not code and coming.offsets:
                self._around.later(0, partial(self._begin, request.group_id, coming.epoch, coming.offsets, _unheard))

        self._store.write_share_group(records, written)
        if not leaves:
            self._restart_session(request.group_id, request.member_id)

    def find(self, group_id: str) -> ShareGroup:
        """The group. Raises GroupRefused."""
        group = self.groups.get(group_id)
        if group is None:
            is_other = self._around.other_type(group_id)
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found."
            )
        return group

    def initialize(self, group: ShareGroup, offsets: Mapping[UUID, tuple[str, Mapping[int, int]]], then: Callable[[Codes], None]) -> None:
        """Begins share partitions at these offsets, or anew. `offsets`: by topic id the topic's name, and by partition the offset. `then`
        gets the code of each partition."""
        now_ms = self._around.now_ms()
        coming = {topic_id: Kept(name, frozenset(each), now_ms) for topic_id, (name, each) in offsets.items()}
        epoch = group.epoch

        def written(code: int) -> None:
            if code:
                then({(topic_id, index): code for topic_id, (_, each) in offsets.items() for index in each})
            else:
                self._begin(group.id, epoch, {topic_id: each for topic_id, (_, each) in offsets.items()}, then)

        self._store.write_share_group(self._initializing(group, coming), written)

    def write(self, records: Sequence[ShareGroupRecord], then: Then) -> None:
        """Writes records that a request of an administrator makes."""
        self._store.write_share_group(records, then)

    def unload(self) -> None:
        """Stops the timers, because this broker does not coordinate the groups any more."""
        for timer in self._sessions.values():
            timer.cancel()
        self._sessions.clear()

    def forget_topics(self) -> None:
        """Forgets the share partitions of topics that were deleted."""
        records = []
        for group in self.groups.values():
            kept = group.kept
            if kept is None:
                continue
            left = KeptTopics(*({each: of[each] for each in of if self._around.topics().with_id(each) is not None} for of in kept))  # type: ignore[arg-type]  # each has its own values
            if left != kept:
                records.append(left.record(group.id))
        self._store.write_share_group(records)

    # The heartbeat

    def _heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller) -> _Outcome:
        joins = request.member_epoch == JOIN_EPOCH
        group = self._group_of(request.group_id, create=joins)
        if request.member_id not in group.members and len(group.members) >= self._around.members_max:
            raise GroupRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {self._around.members_max} members.",
            )
        member = group.members.get(request.member_id)
        if member is None and not joins:
            raise _unknown(request)
        member = member or ShareMember(id=request.member_id)
        _check_epoch(member, request.member_epoch)
        names = request.subscribed_topic_names
        updated = replace(
            member,
            rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
            topics=frozenset(names) if names is not None else member.topics,
            client_id=caller.client_id,
            client_host=caller.client_host,
        )
        records = []
        if updated != member or member.id not in group.members:
            records.append(member_record(group.id, member.id, member_metadata(updated)))
        epoch, bumped = self._epoch_after(group, member, updated, records)
        assignment_epoch, target = self._target(group, updated, epoch, records)
        after = self._reconciled(updated, assignment_epoch, target, bumped=bumped)
        if after != updated:
            records.append(member_record(group.id, after.id, current_assignment(after)))
        tells = joins or names is not None or after.assigned != member.assigned
        response = ShareGroupHeartbeatResponse(
            member_id=after.id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=int(self._around.config(group.id, "share.heartbeat.interval.ms")),
            assignment=_assignment(after.assigned) if tells else None,
        )
        new = self._new_partitions(group, group.subscribed(more=updated))
        records += self._initializing(group, new)
        return _Outcome(records, response, _Coming(epoch, {topic_id: dict.fromkeys(each.partitions, -1) for topic_id, each in new.items()}))

    def _group_of(self, group_id: str, *, create: bool) -> ShareGroup:
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if self._around.other_type(group_id):
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not create:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    def _epoch_after(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember, records: list[ShareGroupRecord]
    ) -> tuple[int, bool]:
        """The group's epoch: one more if a subscription or a topic changed, or if there are partitions that no member has."""
        bumps = updated.topics != member.topics
        bumps = bumps or (group.assignment_epoch >= group.epoch and group.lacks_assignment)
        found = metadata_hash(group.subscribed(more=updated), self._around.topics())
        bumps = bumps or found != group.metadata_hash
        if not bumps:
            return group.epoch, False
        records.append(group_record(group.id, GroupMetadata(epoch=group.epoch + 1, metadata_hash=found)))
        return group.epoch + 1, True

    def _target(self, group: ShareGroup, updated: ShareMember, epoch: int, records: list[ShareGroupRecord]) -> tuple[int, Partitions]:
        """The epoch and the member's part of the target assignment. It is computed if the group's epoch is newer."""
        now_ms = self._around.now_ms()
        wait_ms = int(self._around.config(group.id, "share.assignment.interval.ms"))
        too_soon = bool(group.assigned_at_ms) and now_ms < group.assigned_at_ms + wait_ms
        if group.assignment_epoch >= epoch or too_soon:
            return group.assignment_epoch, group.target.get(updated.id, {})
        members = {**group.members, updated.id: updated}
        subscribers = {each.id: Subscriber(self._topic_ids(each), group.target.get(each.id, {})) for each in members.values()}
        found = assign_simple(subscribers, {topic_id: each.partitions for topic_id, each in group.initialized.items()})
        records += [
            member_record(group.id, member_id, target_assignment(target))
            for member_id, target in found.items()
            if group.target.get(member_id) != target
        ]
        records.append(group_record(group.id, TargetAssignmentMetadata(assignment_epoch=epoch, assignment_timestamp=now_ms)))
        _log.info("share group %s: a target assignment of epoch %d", printable(group.id), epoch)
        return epoch, found[updated.id]

    def _reconciled(self, member: ShareMember, assignment_epoch: int, target: Partitions, *, bumped: bool) -> ShareMember:
        """The member with its part of the target, as far as it subscribes to that."""
        if not bumped and member.epoch == assignment_epoch:
            return member
        subscribed = self._topic_ids(member)
        assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in subscribed}
        if assignment_epoch == member.epoch:
            return replace(member, assigned=assigned)
        return replace(member, assigned=assigned, previous_epoch=member.epoch, epoch=assignment_epoch)

    def _topic_ids(self, member: ShareMember) -> frozenset[UUID]:
        topics = self._around.topics()
        return frozenset(topic.id for name in member.topics if (topic := topics.named(name)) is not None)

    # Leaving

    def _leave(self, request: ShareGroupHeartbeatRequest) -> _Outcome:
        group = self.find(request.group_id)
        if request.member_id not in group.members:
            raise _unknown(request)
        response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
        return _Outcome(self._fenced(group, request.member_id), response, _Coming(group.epoch, {}))

    def _fenced(self, group: ShareGroup, member_id: str) -> list[ShareGroupRecord]:
        """Removes the member. The group's epoch is one more."""
        cancel(self._sessions.pop((group.id, member_id), None))
        found = metadata_hash(group.subscribed(without=member_id), self._around.topics())
        return [*no_member_records(group.id, member_id), group_record(group.id, GroupMetadata(epoch=group.epoch + 1, metadata_hash=found))]

    def _restart_session(self, group_id: str, member_id: str) -> None:
        cancel(self._sessions.pop((group_id, member_id), None))
        timeout_ms = int(self._around.config(group_id, "share.session.timeout.ms"))
        self._sessions[group_id, member_id] = self._around.later(timeout_ms, partial(self._session_expired, group_id, member_id))

    def _session_expired(self, group_id: str, member_id: str) -> None:
        self._sessions.pop((group_id, member_id), None)
        group = self.groups.get(group_id)
        if group is not None and member_id in group.members:
            _log.info("share group %s: no heartbeat of member %s", printable(group_id), printable(member_id))
            self._store.write_share_group(self._fenced(group, member_id))

    # The share coordinator

    def _new_partitions(self, group: ShareGroup, subscribed: Iterable[str]) -> dict[UUID, Kept]:
        """Partitions of these topics that the share coordinator does not keep yet."""
        now_ms, topics = self._around.now_ms(), self._around.topics()
        kept = group.kept or KeptTopics()
        young = {each: of for each, of in kept.initializing.items() if now_ms - of.since_ms < INITIALIZE_RETRY_MS}
        found = {}
        for name in sorted(subscribed):
            topic = topics.named(name)
            if topic is None:
                continue
            known = [of[topic.id].partitions for of in (kept.initialized, young) if topic.id in of]
            new = frozenset(range(len(topic.partitions))).difference(*known)
            if new:
                found[topic.id] = Kept(name, new, now_ms)
        return found

    def _initializing(self, group: ShareGroup, coming: Mapping[UUID, Kept]) -> list[ShareGroupRecord]:
        if not coming:
            return []
        kept = group.kept or KeptTopics()
        deleting = {topic_id: name for topic_id, name in kept.deleting.items() if topic_id not in coming}
        return [kept._replace(initializing=_together(kept.initializing, coming), deleting=deleting).record(group.id)]

    def _begin(self, group_id: str, epoch: int, offsets: Mapping[UUID, Mapping[int, int]], then: Callable[[Codes], None]) -> None:
        codes: Codes = {}
        count = sum(map(len, offsets.values()))
        if not count:
            then(codes)

        def begun(topic_id: UUID, index: int, code: int) -> None:
            codes[topic_id, index] = code
            if len(codes) == count:
                self._begun(group_id, codes, then)

        for topic_id, each in offsets.items():
            for index, offset in each.items():
                ask = partial(self._around.initialize, group_id, topic_id, index, state_epoch=epoch, start_offset=offset)
                ask(then=partial(begun, topic_id, index))

    def _begun(self, group_id: str, codes: Codes, then: Callable[[Codes], None]) -> None:
        """The share coordinator has begun them, or not all of them."""
        group = self.groups.get(group_id)
        if group is None or group.kept is None:
            then(codes)
            return
        done: dict[UUID, frozenset[int]] = {}
        for topic_id, index in codes:
            done[topic_id] = done.get(topic_id, frozenset()) | {index}
        kept, names = group.kept, {topic_id: each.name for topic_id, each in group.kept.initializing.items()}
        left = {
            topic_id: each._replace(partitions=each.partitions - done.get(topic_id, frozenset()))
            for topic_id, each in kept.initializing.items()
        }
        coming = kept._replace(initializing={topic_id: each for topic_id, each in left.items() if each.partitions})
        if not any(codes.values()):
            now_ms = self._around.now_ms()
            new = {topic_id: Kept(names.get(topic_id, "<UNKNOWN>"), indexes, now_ms) for topic_id, indexes in done.items()}
            coming = coming._replace(initialized=_together(kept.initialized, new))
        self._store.write_share_group([coming.record(group_id)], lambda code: then(codes))


Codes = dict[tuple[UUID, int], int]
"""The code of each partition."""


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """What is wrong with the request itself. Raises GroupRefused."""
    for value, what in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if value is not None and not value.strip():
            raise GroupRefused(ErrorCode.INVALID_REQUEST, f"{what} can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise GroupRefused(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise GroupRefused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """The previous epoch is accepted: the response with the new one may have been lost."""
    if epoch in (JOIN_EPOCH, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return
    why = "greater" if epoch > member.epoch else "smaller"
    known = f"({member.epoch})"
    if epoch < member.epoch:
        known += f", and it does not match the previous member epoch ({member.previous_epoch})"
    raise GroupRefused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {why} member epoch ({epoch}) than the one known by the group coordinator {known}."
        " The member must abandon all its partitions and rejoin.",
    )


def _unknown(request: ShareGroupHeartbeatRequest) -> GroupRefused:
    return GroupRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {request.member_id} is not a member of group {request.group_id}.")


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in partitions.items()]
    )


def _together(known: Mapping[UUID, Kept], more: Mapping[UUID, Kept]) -> dict[UUID, Kept]:
    both = dict(known)
    for topic_id, each in more.items():
        before = both.get(topic_id)
        both[topic_id] = each if before is None else each._replace(partitions=before.partitions | each.partitions)
    return both


def _unheard(codes: Codes) -> None:
    """Ignores the result: a later heartbeat tries again."""
