"""The consumer group protocol: a member's heartbeat, its leave, and what happens when it sends neither (KIP-848).

It makes the same checks in the same order as Kafka's `GroupMetadataManager`. Each request becomes records: the store writes them, and the
group changes when its log has them. The response leaves when every in-sync replica has them. It does no I/O and reads only the given clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from msgspec.structs import replace

from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.groups.classic.classic_protocol import ClassicGroups
from fencepost.broker_stub.groups.classic.responses import Caller
from fencepost.broker_stub.groups.consumer.heartbeat_checks import (
    UNCHANGED,
    GroupRefused,
    check_epoch,
    check_released,
    check_room,
    known_member,
    known_static_member,
)
from fencepost.broker_stub.groups.consumer.member_timers import MemberTimers
from fencepost.broker_stub.groups.consumer.member_update import MemberUpdate
from fencepost.broker_stub.groups.consumer.online_migration import MigrationPolicy, check_upgrade, downgraded, upgrade_records, upgraded
from fencepost.broker_stub.groups.consumer.reconciliation import AbandonAll, Situation, reconciled
from fencepost.broker_stub.groups.consumer.subscription_metadata import metadata_hash
from fencepost.broker_stub.groups.consumer.target_assignment import new_target, topic_ids
from fencepost.broker_stub.groups.consumer.topic_regex import MayDescribe, RegexResolution
from fencepost.broker_stub.groups.state.classic_group import Group
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.consumer_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Owned,
    Target,
    current_assignment,
    member_metadata,
    target_assignment,
)
from fencepost.broker_stub.groups.state.consumer_group_records import (
    ConsumerRecord,
    CurrentAssignment,
    GroupMetadata,
    MemberMetadata,
    PartitionMetadata,
    TargetAssignment,
    TargetAssignmentMetadata,
    group_record,
    member_record,
    no_group,
    no_member,
    no_regex,
)
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.broker_stub.groups.state.embedded_protocol import Unreadable
from fencepost.broker_stub.network.addresses import printable
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

HeartbeatAnswer = Callable[[ConsumerGroupHeartbeatResponse], object]

_log = logging.getLogger(__name__)


class Timeouts(NamedTuple):
    """What counts for one group now: its own configs, or the broker's."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class ConsumerSurroundings(NamedTuple):
    """What the groups need of their cluster. `topics`: those that the coordinator's broker knows. `timeouts`: a group's, by its id."""

    later: Callable[[int, Callable[[], None]], Timer]
    now_ms: Callable[[], int]
    new_id: Callable[[], object]
    topics: Callable[[], Topics]
    timeouts: Callable[[str], Timeouts]
    members_max: int
    classic_members_max: int
    policy: MigrationPolicy
    assignors: Sequence[str]


class Change(NamedTuple):
    """What a request changes. `replaces`: a classic group that ends with it. `becomes`: the classic group that takes this one's place, and
    `rebalances` whether its members must join again."""

    records: list[ConsumerRecord]
    replaces: str | None = None
    becomes: Group | None = None
    rebalances: bool = True


class Subscribed(NamedTuple):
    """The group's epoch after a request, and whether the member's subscription is another one."""

    epoch: int
    is_another: bool


class ConsumerGroups:
    """The groups of one shard, as its store has them, and the timers of their members."""

    def __init__(self, store: Store, classic: ClassicGroups, around: ConsumerSurroundings) -> None:
        self._store = store
        self._classic = classic
        self._around = around
        self._regexes = RegexResolution(store, around.later, around.now_ms, around.topics)
        self.groups = store.consumers.groups
        self.timers = MemberTimers(
            self.groups,
            around.later,
            lambda group_id: around.timeouts(group_id).session_timeout_ms,
            lambda group, member: self.remove(group, [member]),
        )
        for group in self.groups.values():
            for member in group.members.values():
                self.timers.restart_session(group.id, member.id)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self.timers.limit_revocation(group.id, member)

    @property
    def default_assignor(self) -> str:
        return self._around.assignors[0]

    # Requests

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, may_describe: MayDescribe, answer: HeartbeatAnswer) -> None:
        """The request itself is checked before. `may_describe`: whether the member may know of a topic that its expression matches."""
        try:
            leaves = request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
            change, response = self._leave(request) if leaves else self._heartbeat(request, caller, may_describe)
        except GroupRefused as refused:
            answer(ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message))
            return

        def written(code: int) -> None:
            answer(ConsumerGroupHeartbeatResponse(error_code=code, error_message=None) if code else response)

        self.write(request.group_id, change, written)
        if not leaves and response.member_id is not None:
            self.timers.restart_session(request.group_id, response.member_id)
        if change.replaces is not None and request.group_id in self.groups:
            for member in self.groups[request.group_id].members.values():
                if member.classic is not None:
                    self.timers.restart_session(request.group_id, member.id, member.classic.session_timeout_ms)

    def remove(self, group: ConsumerGroup, members: Sequence[ConsumerMember], then: Then | None = None) -> None:
        """Removes members that left by a request of the classic protocol, or are late."""
        self.write(group.id, self._fenced(group, members) if members else Change([]), then)

    def write(self, group_id: str, change: Change, then: Then | None = None) -> None:
        """Writes what a request changes. `then` is called when every in-sync replica has it."""
        replaced = partial(self._classic.convert, change.replaces) if change.replaces is not None else None
        becomes = change.becomes
        if becomes is None:
            self._store.write_consumer_group(group_id, change.records, then, replaced=replaced)
        else:
            adopt = partial(self._classic.adopt, becomes, rebalances=change.rebalances)
            self._store.write_consumer_group(group_id, change.records, then, becomes=becomes, adopt=adopt)

    # What offsets and administrators need

    def delete(self, group_id: str, then: Then | None = None) -> None:
        """Deletes a group that must have no members, with its offsets."""
        group = self.groups[group_id]
        self._store.delete_consumer_group(group_id, group_tombstones(group), then)

    def make_way(self, group_id: str) -> None:
        """Deletes a group without members, because a classic one takes its place. Its offsets stay."""
        self._store.write_consumer_group(group_id, group_tombstones(self.groups[group_id]))

    def with_ids(self, partitions: Iterable[tuple[str, int]]) -> list[tuple[UUID, int]]:
        """The partitions with their topics' ids, zero for a topic that the broker does not know."""
        found = [(self._around.topics().named(name), index) for name, index in partitions]
        return [(topic.id if topic is not None else ZERO_UUID, index) for topic, index in found]

    def unload(self) -> None:
        """Stops the timers, because this broker does not coordinate the groups any more."""
        self.timers.cancel_all()

    # The heartbeat

    def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, may_describe: MayDescribe
    ) -> tuple[Change, ConsumerGroupHeartbeatResponse]:
        joins = request.member_epoch == JOIN_EPOCH
        records: list[ConsumerRecord] = []
        group, replaces = self._group_of(request.group_id, records, create=joins)
        self.check_room(group, request.member_id, request.instance_id)
        member_id = request.member_id or str(self._around.new_id())
        member = self._member_of(group, request, member_id, records)
        updated = replace(
            member,
            instance_id=_if_told(request.instance_id, member.instance_id),
            rack_id=_if_told(request.rack_id, member.rack_id),
            rebalance_timeout_ms=member.rebalance_timeout_ms if request.rebalance_timeout_ms == UNCHANGED else request.rebalance_timeout_ms,
            assignor=_if_told(request.server_assignor, member.assignor),
            topics=member.topics if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names),
            regex=member.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
            client_id=caller.client_id,
            client_host=caller.client_host,
            classic=None,
        )
        update = MemberUpdate(group, member, updated, records)
        subscribed = self.subscribe(update, may_describe)
        updated = self.follow(update, subscribed, request.topic_partitions)
        names = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        is_full = request.rebalance_timeout_ms != UNCHANGED and names and request.topic_partitions is not None
        tells = joins or is_full or updated.assigned != member.assigned
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=self._around.timeouts(group.id).heartbeat_interval_ms,
            assignment=Assignment(topic_partitions=_listed(updated.assigned)) if tells else None,
        )
        return Change(records, replaces), response

    def subscribe(self, update: MemberUpdate, may_describe: MayDescribe) -> Subscribed:
        """Takes up what a member says of itself."""
        group, before, after, records = update
        if after != before:
            records.append(member_record(group.id, after.id, member_metadata(after)))
        names_changed = after.topics != before.topics
        regex_counts = self._regexes.changed(update, may_describe)
        epoch = self._epoch_after(update, bump=names_changed or regex_counts)
        return Subscribed(epoch, names_changed or after.regex != before.regex)

    def follow(
        self, update: MemberUpdate, subscribed: Subscribed, owned: Sequence[TopicPartitions] | None, *, keeps_target: bool = False
    ) -> ConsumerMember:
        """The member on its way to the target assignment, which is computed if the group's epoch is newer. `keeps_target`: it is not."""
        if keeps_target:
            group, member = update.group, update.after
            assignment_epoch, target = group.assignment_epoch, group.target_of(member.id, member.instance_id)
        else:
            assignment_epoch, target = self._target(update, subscribed.epoch)
        return self._reconciled(update, assignment_epoch, target, owned, subscription_changed=subscribed.is_another)

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """Raises GroupRefused if the group has no room for the member."""
        check_room(group, member_id, instance_id, self._around.members_max)

    def _group_of(self, group_id: str, records: list[ConsumerRecord], *, create: bool) -> tuple[ConsumerGroup, str | None]:
        """The group, and the classic group that it replaces. `records` gets what makes it of a classic group with members."""
        group = self.groups.get(group_id)
        if group is not None:
            return group, None
        classic = self._classic.groups.get(group_id)
        if group_id in self._store.shares.groups:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if classic is None and not create:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if classic is not None and not create:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if classic is None:
            return ConsumerGroup(group_id), None
        if classic.state is State.EMPTY:
            return ConsumerGroup(group_id), group_id
        check_upgrade(classic, self._around.policy, self._around.members_max)
        self._classic.interrupt(classic)
        group = upgraded(classic, self._around.topics())
        records += upgrade_records(group)
        return group, group_id

    def _member_of(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, records: list[ConsumerRecord]
    ) -> ConsumerMember:
        """The member as it is before this request. `records` gets what replaces a static member that has left for a while."""
        joins = request.member_epoch == JOIN_EPOCH
        instance_id = request.instance_id
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerMember(id=member_id) if joins else known_member(group, member_id)
            check_epoch(member, request)
            return member
        if not joins:
            member = known_static_member(group, member_id, instance_id)
            check_epoch(member, request)
            return member
        before = group.static_member(instance_id)
        if before is None:
            return group.members.get(member_id) or ConsumerMember(id=member_id)
        if before.classic is None:
            check_released(before, member_id, instance_id)
        return self.replace_static(group, before, member_id, records)

    def replace_static(self, group: ConsumerGroup, before: ConsumerMember, member_id: str, records: list[ConsumerRecord]) -> ConsumerMember:
        """A static member under a new id, in the old one's place."""
        member = replace(before, id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        records += _removed(group.id, before.id)
        records.append(member_record(group.id, member_id, member_metadata(member)))
        records.append(member_record(group.id, member_id, target_assignment(group.target.get(before.id, {}))))
        records.append(member_record(group.id, member_id, current_assignment(member)))
        return member

    def _epoch_after(self, update: MemberUpdate, *, bump: bool) -> int:
        """The group's epoch: one more if a subscription changed, or a topic to which a member subscribes."""
        group, before, after, records = update
        found = metadata_hash(group.subscribed(before, more=after), self._around.topics())
        epoch = group.epoch
        if bump or found != group.metadata_hash:
            epoch += 1
            records.append(group_record(group.id, GroupMetadata(epoch=epoch, metadata_hash=found)))
        if group.has_old_metadata:
            records.append(no_group(group.id, PartitionMetadata))
        return epoch

    def _target(self, update: MemberUpdate, epoch: int) -> tuple[int, Target]:
        """The epoch and the member's part of the target assignment. It is computed if the group's epoch is newer."""
        group, before, after, records = update
        now_ms = self._around.now_ms()
        wait_ms = self._around.timeouts(group.id).assignment_interval_ms
        too_soon = bool(group.assigned_at_ms) and now_ms < group.assigned_at_ms + wait_ms
        if group.assignment_epoch >= epoch or too_soon:
            return group.assignment_epoch, group.target_of(after.id, after.instance_id)
        assignor = group.preferred_assignor(before, more=after) or self.default_assignor
        new = new_target(group, after, epoch, self._around.topics(), assignor=assignor, now_ms=now_ms)
        _log.info("group %s: a target assignment of epoch %d by %s", printable(group.id), epoch, assignor)
        records += new.records
        return epoch, new.of_members[after.id]

    def _reconciled(
        self,
        update: MemberUpdate,
        assignment_epoch: int,
        target: Target,
        owned: Sequence[TopicPartitions] | None,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember:
        group, _, member, records = update
        situation = Situation(
            assignment_epoch=assignment_epoch,
            target=target,
            subscribed=topic_ids(group, member, self._around.topics()),
            subscription_changed=subscription_changed,
            owner_epoch=group.owner_epoch,
            owned=owned,
        )
        try:
            after = reconciled(member, situation)
        except AbandonAll:
            raise GroupRefused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
            ) from None
        if after != member:
            records.append(member_record(group.id, after.id, current_assignment(after)))
            if after.classic is not None:
                pass  # it has timers for its join and its sync
            elif after.state is MemberState.UNREVOKED_PARTITIONS:
                self.timers.limit_revocation(group.id, after)
            else:
                self.timers.revoked(group.id, after.id)
        return after

    # Leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> tuple[Change, ConsumerGroupHeartbeatResponse]:
        group = self._existing(request.group_id)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            return self._fenced(group, [known_member(group, request.member_id)]), response
        member = known_static_member(group, request.member_id, request.instance_id)
        if request.member_epoch != STATIC_LEAVE_EPOCH:
            return self._fenced(group, [member]), response
        nothing: Owned = {}
        kept = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
        leaving = replace(member, epoch=STATIC_LEAVE_EPOCH, pending_revocation=nothing, assigned=kept)
        return Change([member_record(group.id, member.id, current_assignment(leaving))]), response

    def _existing(self, group_id: str) -> ConsumerGroup:
        group = self.groups.get(group_id)
        if group is None:
            is_other = group_id in self._classic.groups or group_id in self._store.shares.groups
            raise GroupRefused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found."
            )
        return group

    def _fenced(self, group: ConsumerGroup, members: Sequence[ConsumerMember]) -> Change:
        """Removes the members. The group's epoch is one more. If only members of the classic protocol stay, it becomes a classic group."""
        self.timers.cancel(group.id, [member.id for member in members])
        left_count = len(group.members) - len(members)
        if left_count and group.is_classic_without(members) and self._may_downgrade(left_count):
            return self._downgrade(group, [member.id for member in members])
        records = [record for member in members for record in _removed(group.id, member.id)]
        left = group.regexes(*members)
        gone = [regex for regex in dict.fromkeys(member.regex for member in members if member.regex) if not left[regex]]
        records += [no_regex(group.id, regex) for regex in gone]
        found = metadata_hash(group.subscribed(*members), self._around.topics())
        records.append(group_record(group.id, GroupMetadata(epoch=group.epoch + 1, metadata_hash=found)))
        return Change(records)

    # The other protocol

    @property
    def policy(self) -> MigrationPolicy:
        return self._around.policy

    def new_member_id(self) -> str:
        return str(self._around.new_id())

    def topics(self) -> Topics:
        """The topics that the coordinator's broker knows."""
        return self._around.topics()

    def replaces_last(self, group: ConsumerGroup, before: ConsumerMember) -> bool:
        """Whether the group can become a classic one when a static member of the classic protocol takes the place of this one."""
        return before.classic is None and group.is_classic_without([before]) and self._may_downgrade(len(group.members))

    def downgrade_with(self, group: ConsumerGroup, joining: ConsumerMember, records: list[ConsumerRecord], *, rebalances: bool) -> Change:
        """A classic group with this member in the place of the static one before it."""
        before = group.static_member(joining.instance_id)
        assert before is not None
        classic = downgraded(group, (), self._around.topics(), self._around.now_ms(), joining=joining)
        self.timers.cancel(group.id, [*group.members])
        gone = group_tombstones(group, renamed={before.id: joining.id})
        return Change([*records, *gone], becomes=classic, rebalances=rebalances)

    def _may_downgrade(self, members: int) -> bool:
        return self._around.policy.downgrades and members <= self._around.classic_members_max

    def _downgrade(self, group: ConsumerGroup, leaving: Sequence[str]) -> Change:
        try:
            classic = downgraded(group, leaving, self._around.topics(), self._around.now_ms())
        except Unreadable as error:
            raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group.id}: {error}.") from None
        _log.info("group %s: becomes a classic group", printable(group.id))
        self.timers.cancel(group.id, [*group.members])
        return Change(group_tombstones(group), becomes=classic)


def group_tombstones(group: ConsumerGroup, renamed: Mapping[str, str] | None = None) -> list[ConsumerRecord]:
    """Deletes all records of a group and of its members. `renamed`: the new ids of members."""
    members = [(renamed or {}).get(member_id, member_id) for member_id in group.members]
    return [
        *(no_member(group.id, member_id, CurrentAssignment) for member_id in members),
        *(no_member(group.id, member_id, TargetAssignment) for member_id in members),
        no_group(group.id, TargetAssignmentMetadata),
        *(no_member(group.id, member_id, MemberMetadata) for member_id in members),
        *(no_regex(group.id, regex) for regex in group.resolved),
        no_group(group.id, PartitionMetadata),
        no_group(group.id, GroupMetadata),
    ]


def _removed(group_id: str, member_id: str) -> list[ConsumerRecord]:
    return [no_member(group_id, member_id, of) for of in (CurrentAssignment, TargetAssignment, MemberMetadata)]


def _if_told(told: str | None, known: str | None) -> str | None:
    return told if told is not None else known


def _listed(owned: Owned) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(epochs)) for topic_id, epochs in owned.items()]
