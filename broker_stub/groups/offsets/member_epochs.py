"""Which epochs allow a member of a consumer group to commit and to fetch offsets. Pure functions from a group to an error code.

An older epoch allows a commit for partitions that the member has owned since then (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from fencepost.producer.wire import ErrorCode

WITH_EPOCHS_SINCE: Final = 9
NO_EPOCH: Final = -1


def commit_error(group: ConsumerGroup, member_id: str, epoch: int, *, version: int) -> int:
    """The code for a commit of that member; 0 if it may, or if that depends on the partitions."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if version < WITH_EPOCHS_SINCE and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    return _stale(member) if epoch > member.epoch else ErrorCode.NONE


def transactional_commit_error(group: ConsumerGroup, member_id: str, epoch: int, instance_id: str | None) -> int:
    """The same within a transaction, where a sender needs no epoch and no member id."""
    if epoch < 0 and (not group.members or (epoch == NO_EPOCH and not member_id and instance_id is None)):
        return ErrorCode.NONE
    code = commit_error(group, member_id, epoch, version=WITH_EPOCHS_SINCE)
    return ErrorCode.ILLEGAL_GENERATION if code == ErrorCode.STALE_MEMBER_EPOCH else code


def partitions_error(group: ConsumerGroup, member_id: str, epoch: int, partitions: Iterable[tuple[UUID, int]]) -> int:
    """The code for the commit of a member with an older epoch; 0 if it has owned all of these partitions since then."""
    member = group.members.get(member_id)
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    since = [member.owned_since(topic_id, index) for topic_id, index in partitions]
    return _stale(member) if any(each is None or epoch < each for each in since) else ErrorCode.NONE


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> int:
    """The code for a fetch by that member. A client without member id and epoch may fetch, too. Kafka trips over an epoch without an id."""
    if member_id is None:
        return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> int:
    """The code for another epoch than the member's. Of the classic protocol it is a generation."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
