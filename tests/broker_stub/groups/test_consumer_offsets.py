"""Offsets of groups of the consumer protocol: which epochs may commit and fetch them, when they are deleted, and when they expire."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.group_admin import DeleteGroupsRequest
from fencepost.producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.broker_stub.groups.consumer_calls import Consumer, ConsumerWorld
from tests.broker_stub.groups.offsets_calls import offset_delete


def commit(consumer: Consumer, index: int = 0, *, epoch: int | None = None, version: int = 9, member_id: str | None = None) -> int:
    """The code for a commit of one partition of t."""
    w = consumer.world
    request = OffsetCommitRequest(
        group_id=consumer.group,
        generation_id_or_member_epoch=consumer.epoch if epoch is None else epoch,
        member_id=consumer.id if member_id is None else member_id,
        topics=[
            OffsetCommitRequestTopic(
                name="t" if version < 10 else "",
                topic_id=w.topic_named("t").id,
                partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=7)],
            )
        ],
    )
    return int(w.start(request, version).answer.topics[0].partitions[0].error_code)


def fetch_code(consumer: Consumer, *, member_id: str | None, epoch: int) -> int:
    asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
    return int(consumer.world.start(OffsetFetchRequest(groups=[asked]), 9).answer.groups[0].error_code)


def world(partitions: int = 4, **options: Any) -> ConsumerWorld:
    found = ConsumerWorld(**options)
    found.topic("t", partitions=partitions)
    return found


@pytest.mark.parametrize("version", [9, 10])
def test_the_current_epoch_commits(version: int) -> None:
    """And a newer one, an unknown member and a client without an epoch do not."""
    first = world().joined("m1", "t")
    assert commit(first, version=version) == ErrorCode.NONE
    assert commit(first, version=version, epoch=first.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(first, version=version, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(first, version=version, member_id="", epoch=-1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.world.committed("t") == 7


def test_old_versions_have_no_epochs() -> None:
    """UNSUPPORTED_VERSION below 9."""
    assert commit(world().joined("m1", "t"), version=8) == ErrorCode.UNSUPPORTED_VERSION


def test_an_older_epoch_commits_what_it_has_owned_since() -> None:
    """KIP-1251: the partitions that the member kept; not those that it gave up, and not with an epoch from before it got them."""
    w = world()
    first, second = w.joined("m1", "t"), w.joined("m2", "t")
    old = first.epoch
    first.live()
    kept = {index for _, index in first.partitions}
    given_up = set(range(4)) - kept
    assert {commit(first, index, epoch=old) for index in range(4)} == {ErrorCode.NONE}  # still to be given up
    w.settle(first, second)
    assert first.epoch > old
    assert {commit(first, index, epoch=old) for index in kept} == {ErrorCode.NONE}
    assert {commit(first, index, epoch=old) for index in given_up} == {ErrorCode.STALE_MEMBER_EPOCH}
    assert {commit(second, index, epoch=old) for index in given_up} == {ErrorCode.STALE_MEMBER_EPOCH}


def test_an_empty_group_takes_offsets_of_anybody() -> None:
    """As before KIP-848: an administrator resets offsets so."""
    w = world()
    first = w.joined("m1", "t")
    first.leave()
    assert commit(first, epoch=-1, member_id="") == ErrorCode.NONE
    assert w.consumer_group().members == {}
    assert w.services.groups.shard_for("g", w.coordinator()).groups.groups == {}


def test_a_fetch_names_the_member() -> None:
    """From version 9 on; without a member and an epoch all may."""
    first = world().joined("m1", "t")
    epoch = first.epoch
    assert fetch_code(first, member_id=None, epoch=-1) == ErrorCode.NONE
    assert fetch_code(first, member_id="m1", epoch=epoch) == ErrorCode.NONE
    assert fetch_code(first, member_id="m1", epoch=epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch_code(first, member_id="x", epoch=epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    """And others are."""
    w = world()
    first = w.joined("m1", "t")
    commit(first)
    assert w.start(offset_delete(), 0).answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    first.leave()
    assert w.start(offset_delete(), 0).answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert w.committed("t") == -1


def test_a_group_without_members_is_deleted() -> None:
    """With its offsets, also for the next coordinator."""
    w = world(brokers=2)
    first = w.joined("m1", "t")
    commit(first)
    assert w.start(DeleteGroupsRequest(groups_names=["g"]), 2).answer.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    first.leave()
    assert w.start(DeleteGroupsRequest(groups_names=["g"]), 2).answer.results[0].error_code == ErrorCode.NONE
    for _ in range(2):
        assert w.describe("g")[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert w.committed("t") == -1
        w.move_coordinator()


def test_offsets_expire() -> None:
    """Of topics to which no member subscribes, and then the group without members."""
    w = world(config={"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"})
    first = w.joined("m1", "t")
    commit(first)
    for _ in range(3):
        w.pass_time(30_000)
        first.live()
    assert w.committed("t") == 7
    first.leave()
    w.pass_time(1_000)
    assert w.committed("t") == -1
    assert w.describe("g")[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
