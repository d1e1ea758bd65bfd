"""When committed offsets expire, and groups with them, under a virtual clock."""

from __future__ import annotations

from fencepost.broker_stub.groups.state.classic_and_offset_records import GroupRecord, OffsetRecord
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.producer.wire import ErrorCode, RequestHeader
from tests.broker_stub.groups.group_calls import Groups
from tests.broker_stub.groups.offsets_calls import code_of, known, offset_commit, partition_of, records_in, shard_of
from tests.broker_stub.transactions.txn_calls import Transactions

WEEK_MS = 7 * 24 * 3_600_000
LOOKS_EVERY_MS = 600_000


def test_offsets_of_a_group_without_members_expire() -> None:
    """A week after their commit, when it is looked for, and the group with the last of them; tombstones say so."""
    world = Groups()
    for name in ("t", "other"):
        world.topic(name)
    assert world.commit("t", 1) == ErrorCode.NONE
    world.pass_time(WEEK_MS // 2)
    assert world.commit("other", 2) == ErrorCode.NONE
    world.pass_time(WEEK_MS // 2 + LOOKS_EVERY_MS)
    assert (world.committed("t"), world.committed("other")) == (-1, 2)
    assert "g" in shard_of(world).groups.groups
    world.pass_time(WEEK_MS // 2)
    assert world.committed("other") == -1
    assert shard_of(world).groups.groups == {}
    gone = [record for record in records_in(partition_of(world)) if record is not None and record[1] is None]
    assert gone == [OffsetRecord(("g", "t", 0), None), OffsetRecord(("g", "other", 0), None), GroupRecord("g", None)]
    assert known(Store(world.cluster, partition_of(world).leading)) == ({}, {})


def test_offsets_that_members_use_stay() -> None:
    """Those of topics that a member subscribes to; when the last member has left the week begins."""
    world = Groups()
    world.topic()
    subscription = b"\0\0\0\0\0\1\0\1t\0\0\0\0"
    member = world.member("a")
    joining = member.join(protocols={"range": subscription}, session_ms=1_800_000)
    world.now()
    member.heard(joining.answer)
    member.sync({member.id: b"all"})
    assert world.commit("t", 1, member=member) == ErrorCode.NONE
    for _ in range(2 * WEEK_MS // 1_200_000):
        world.pass_time(1_200_000)
        assert member.heartbeat() == ErrorCode.NONE
    assert world.committed("t") == 1
    assert member.leave() == ErrorCode.NONE
    world.now()
    world.pass_time(WEEK_MS - 1)
    assert world.committed("t") == 1
    world.pass_time(LOOKS_EVERY_MS)
    assert world.committed("t") == -1
    assert shard_of(world).groups.groups == {}


def test_an_old_client_says_when_its_offsets_expire() -> None:
    """Sooner or later than the others', up to version 4 of OffsetCommit; also for the next coordinator."""
    world = Groups(brokers=3)
    for name in ("t", "other"):
        world.topic(name)
    assert code_of(world.start(offset_commit(1, retention_ms=1000), 2)) == ErrorCode.NONE
    assert code_of(world.start(offset_commit(1, topic="other", retention_ms=2 * WEEK_MS), 4)) == ErrorCode.NONE
    world.move_coordinator()
    assert (world.committed("t"), world.committed("other")) == (1, 1)
    world.pass_time(LOOKS_EVERY_MS)
    assert (world.committed("t"), world.committed("other")) == (-1, 1)
    world.pass_time(2 * WEEK_MS - LOOKS_EVERY_MS - 1)
    assert world.committed("other") == 1
    world.pass_time(LOOKS_EVERY_MS)
    assert world.committed("other") == -1


def test_a_time_beyond_all_time_is_over_at_once() -> None:
    """Kafka adds it to the time of day in 64 bits: an offset that was to be kept for as long as can be said is gone with the next look."""
    world = Groups()
    world.topic("t")
    assert code_of(world.start(offset_commit(1, retention_ms=2**63 - 1), 4)) == ErrorCode.NONE
    assert world.committed("t") == 1
    world.pass_time(LOOKS_EVERY_MS)
    assert world.committed("t") == -1


def test_offsets_that_a_transaction_will_decide_about_stay() -> None:
    """However old the one that counts is."""
    world = Transactions(config={"transaction.max.timeout.ms": 2**31 - 1})
    world.given(timeout_ms=2**31 - 1)
    header = RequestHeader(api_key=offset_commit(1).api, api_version=9, correlation_id=1, client_id="inside")
    world.dispatcher.handle(world.offsets_partition().leader, 1, header, offset_commit(1), lambda reply: None)
    assert world.commit_offset(2).answer == ErrorCode.NONE
    world.pass_time(2 * WEEK_MS)
    assert [each.offset for each in known(shard_of(world).store)[0].values()] == [1]
    assert world.end().answer[0] == ErrorCode.NONE
    assert [each.offset for each in known(shard_of(world).store)[0].values()] == [2]


def test_a_group_without_members_or_offsets_goes() -> None:
    """When it is next looked for; one with a member stays."""
    world = Groups()
    left, _ = world.stable("a", "b")
    world.pass_time(LOOKS_EVERY_MS - 1)
    assert left.leave() == ErrorCode.UNKNOWN_MEMBER_ID  # its session is long over
    world.now()
    assert world.group().state is State.EMPTY
    world.pass_time(1)
    assert shard_of(world).groups.groups == {}
    assert records_in(partition_of(world))[-1] == GroupRecord("g", None)
