"""The checks of a ConsumerGroupHeartbeat, with Kafka's error codes and messages. They change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.broker_stub.groups.consumer.reconciliation import is_subset
from fencepost.broker_stub.groups.state.consumer_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
)
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest

MEMBER_MAKES_ITS_ID_SINCE: Final = 1
UNCHANGED: Final = -1


class GroupRefused(Exception):
    """The request is refused, and nothing has changed."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """What is wrong with the request itself."""
    epoch = request.member_epoch
    if version >= MEMBER_MAKES_ITS_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_not_empty(request.member_id, "MemberId")
    _check_not_empty(request.group_id, "GroupId")
    _check_not_empty(request.instance_id, "InstanceId")
    _check_not_empty(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise GroupRefused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_not_empty(value: str | None, what: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{what} can't be empty.")


def _invalid(message: str) -> GroupRefused:
    return GroupRefused(ErrorCode.INVALID_REQUEST, message)


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, members_max: int) -> None:
    """Whether the group has room for the member. A static member that is known takes its own place."""
    is_known = (instance_id is not None and instance_id in group.static) or member_id in group.members
    if not is_known and len(group.members) >= members_max:
        raise GroupRefused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {members_max} members."
        )


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Whether the member knows its epoch.

    The previous epoch is accepted if the member owns no more than it may: the response with the new epoch may have been lost.
    """
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH or epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.previous_epoch and is_subset(request.topic_partitions, member.assigned):
        return
    raise GroupRefused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) than the one known by"
        f" the group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise GroupRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.id}.")
    return member


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member with that instance id, which must have that member id."""
    member = group.static_member(instance_id)
    if member is None:
        raise GroupRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.id != member_id:
        raise GroupRefused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.id}.",
        )
    return member


def check_released(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """A static member can be replaced only after it has left for a while."""
    if member.epoch != STATIC_LEAVE_EPOCH:
        raise GroupRefused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by"
            f" {member.id} member.",
        )
