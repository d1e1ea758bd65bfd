"""Members of the classic protocol in a group of the consumer protocol (KIP-848): their JoinGroup, SyncGroup and Heartbeat.

Such a member joins again for each step towards its target assignment. Its generation is its epoch. It makes the same checks in the same
order as Kafka's `GroupMetadataManager`.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker_stub.groups.classic.classic_protocol import MEMBER_ID_REQUIRED_SINCE
from fencepost.broker_stub.groups.classic.rebalances import JoinAnswer
from fencepost.broker_stub.groups.classic.responses import NO_MEMBER_ID, Caller, no_join, protocols_of
from fencepost.broker_stub.groups.consumer.consumer_protocol import Change, ConsumerGroups
from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused, known_member, known_static_member
from fencepost.broker_stub.groups.consumer.member_update import MemberUpdate
from fencepost.broker_stub.groups.consumer.online_migration import UNEXPECTED, MigrationPolicy, assignment_of, classic_metadata
from fencepost.broker_stub.groups.consumer.topic_regex import MayDescribe
from fencepost.broker_stub.groups.state.classic_group import CONSUMER_PROTOCOL
from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup, ConsumerMember, MemberState
from fencepost.broker_stub.groups.state.consumer_group_records import ConsumerRecord
from fencepost.broker_stub.groups.state.embedded_protocol import Subscription, Unreadable, read_subscription
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.consumer_groups import TopicPartitions
from fencepost.producer.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


class ClassicMembers:
    """See the module. `groups`: the groups of one shard."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    def join(self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, may_describe: MayDescribe, answer: JoinAnswer) -> None:
        """The answer leaves when every in-sync replica has what the member is now."""
        try:
            self._join(group, request, caller, may_describe, answer)
        except GroupRefused as refused:
            answer(no_join(refused.code))

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        groups = self._groups
        try:
            member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
            _check_protocol(member, request)
        except GroupRefused as refused:
            return SyncGroupResponse(error_code=refused.code)
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            groups.timers.limit_join(group.id, member)
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        assert member.classic is not None
        groups.timers.synced(group.id, member.id)
        groups.timers.restart_session(group.id, member.id, member.classic.session_timeout_ms)
        assignment = assignment_of(member, groups.topics())
        return SyncGroupResponse(protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> int:
        """The code of the answer."""
        groups = self._groups
        try:
            member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        except GroupRefused as refused:
            return refused.code
        assert member.classic is not None
        groups.timers.restart_session(group.id, member.id, member.classic.session_timeout_ms)
        must_give_up = member.state is MemberState.UNREVOKED_PARTITIONS
        can_have_more = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        if member.epoch < group.assignment_epoch or must_give_up or can_have_more:
            groups.timers.limit_join(group.id, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _join(self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, may_describe: MayDescribe, answer: JoinAnswer) -> None:
        groups, instance_id = self._groups, request.group_instance_id
        if groups.policy is MigrationPolicy.DISABLED:
            raise _inconsistent(
                f"Cannot join the consumer group {group.id} with the classic protocol because the group migration is disabled."
            )
        is_new = request.member_id == NO_MEMBER_ID
        member_id = groups.new_member_id() if is_new else request.member_id
        groups.check_room(group, member_id, instance_id)
        if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
            raise _inconsistent(f"Member {member_id}'s protocols are not supported.")
        if is_new and instance_id is None and caller.version >= MEMBER_ID_REQUIRED_SINCE:
            answer(no_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        records: list[ConsumerRecord] = []
        member = self._member_of(group, member_id, instance_id, records, is_new=is_new)
        before = group.static_member(instance_id)
        downgrades = before is not None and groups.replaces_last(group, before)
        protocols = protocols_of(request)
        subscription = _subscription(protocols[0][1])
        updated = replace(
            member,
            instance_id=instance_id if instance_id is not None else member.instance_id,
            rack_id=subscription.rack or member.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            regex="",
            client_id=caller.client_id,
            client_host=caller.client_host,
            classic=classic_metadata(request.session_timeout_ms, protocols),
        )
        update = MemberUpdate(group, member, updated, records)
        subscribed = groups.subscribe(update, may_describe)
        rebalances = downgrades and group.assignment_epoch < subscribed.epoch
        if not rebalances:
            owned = self._owned(subscription)
            updated = groups.follow(update, subscribed, owned, keeps_target=downgrades)
        change = groups.downgrade_with(group, updated, records, rebalances=rebalances) if downgrades else Change(records)
        response = JoinGroupResponse(
            member_id=updated.id,
            generation_id=updated.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=protocols[0][0],
        )

        def written(code: int) -> None:
            if code:
                answer(no_join(code))
                return
            groups.timers.joined(group.id, updated.id)
            if not downgrades:
                groups.timers.restart_session(group.id, updated.id, request.session_timeout_ms)
                groups.timers.limit_sync(group.id, updated.id, request.rebalance_timeout_ms)
            answer(response)

        groups.write(group.id, change, written)

    def _member_of(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, records: list[ConsumerRecord], *, is_new: bool
    ) -> ConsumerMember:
        """The member as it is before this request. `records` gets what replaces a static member."""
        if instance_id is not None and not is_new:
            return known_static_member(group, member_id, instance_id)
        before = group.static_member(instance_id)
        if before is None:
            return group.members.get(member_id) or ConsumerMember(id=member_id)
        return self._groups.replace_static(group, before, member_id, records)

    def _owned(self, subscription: Subscription) -> list[TopicPartitions]:
        owned: dict[str, list[int]] = {}
        for name, index in subscription.owned:
            owned.setdefault(name, []).append(index)
        named = [(self._groups.topics().named(name), indexes) for name, indexes in owned.items()]
        return [TopicPartitions(topic_id=topic.id, partitions=indexes) for topic, indexes in named if topic is not None]


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = known_member(group, member_id) if instance_id is None else known_static_member(group, member_id, instance_id)
    if member.classic is None:
        raise GroupRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if member.epoch != generation:
        raise GroupRefused(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} of member {member_id}.",
        )
    return member


def _check_protocol(member: ConsumerMember, request: SyncGroupRequest) -> None:
    assert member.classic is not None
    name = member.classic.supported_protocols[0].name
    if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (None, name):
        raise _inconsistent(f"Member {member.id} joined with the type {CONSUMER_PROTOCOL} and the protocol {name}.")


def _subscription(data: bytes) -> Subscription:
    try:
        return read_subscription(data)
    except Unreadable:
        raise GroupRefused(ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED) from None


def _inconsistent(message: str) -> GroupRefused:
    return GroupRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
