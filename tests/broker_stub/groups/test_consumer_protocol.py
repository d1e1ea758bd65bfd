"""The consumer group protocol (KIP-848): joining, rebalances step by step, static members, timers, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.groups.state.consumer_group import GroupState, MemberState
from fencepost.broker_stub.security.acls import Acl
from fencepost.producer.wire import ErrorCode, FindCoordinatorRequest
from fencepost.producer.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from fencepost.producer.wire.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from fencepost.producer.wire.messages.groups import LeaveGroupRequest, MemberIdentity
from tests.broker_stub.groups.consumer_calls import Consumer, ConsumerWorld
from tests.broker_stub.stub_calls import Talker

SESSION_MS = 45_000


def world(partitions: int = 4, config: dict[str, str] | None = None) -> ConsumerWorld:
    found = ConsumerWorld(config=config or {})
    found.topic("t", partitions=partitions)
    return found


def all_of(topic: str, count: int) -> set[tuple[str, int]]:
    return {(topic, index) for index in range(count)}


def test_the_first_member_gets_everything_at_once() -> None:
    """The response to the join has the whole assignment; a heartbeat without a change has none."""
    w = world()
    first = w.joined("m1", "t")
    assert first.partitions == all_of("t", 4)
    assert first.epoch == w.consumer_group().epoch
    assert first.heartbeat().assignment is None
    assert w.consumer_group().state is GroupState.STABLE


def test_a_full_request_gets_the_assignment_again() -> None:
    """A member that tells everything, as after an error, is told everything."""
    first = world().joined("m1", "t")
    answer = first.heartbeat(rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=first.owning())
    assert answer.assignment is not None


def test_a_second_member_waits_for_what_the_first_one_gives_up() -> None:
    """UNRELEASED until the first member, which is UNREVOKED, has confirmed. No partition is owned by both."""
    w = world()
    first, second = w.joined("m1", "t"), w.joined("m2", "t")
    group = w.consumer_group()
    assert second.partitions == set()
    assert group.members["m2"].state is MemberState.UNRELEASED_PARTITIONS
    before = first.epoch
    told = first.heartbeat(topic_partitions=first.owning())
    assert (told.member_epoch, len(first.partitions)) == (before, 2)
    assert group.members["m1"].state is MemberState.UNREVOKED_PARTITIONS
    assert second.heartbeat().assignment is None
    confirmed = first.heartbeat(topic_partitions=first.owning())
    assert (confirmed.member_epoch, confirmed.assignment) == (group.epoch, None)
    second.heartbeat()
    assert first.partitions | second.partitions == all_of("t", 4)
    assert not first.partitions & second.partitions
    assert group.state is GroupState.STABLE


def test_a_leave_gives_the_rest_to_those_who_stay() -> None:
    """The group's epoch is one more, and the next heartbeat brings the assignment."""
    w = world()
    first, second = w.joined("m1", "t"), w.joined("m2", "t")
    w.settle(first, second)
    epoch = w.consumer_group().epoch
    assert second.leave().member_epoch == -1
    assert w.consumer_group().epoch == epoch + 1
    first.live()
    assert first.partitions == all_of("t", 4)


def test_the_last_member_leaves_an_empty_group() -> None:
    """It stays, with its epoch."""
    w = world()
    first = w.joined("m1", "t")
    first.leave()
    assert (w.consumer_group().state, w.consumer_group().members) == (GroupState.EMPTY, {})


def test_members_that_are_fenced() -> None:
    """An epoch that is too high or too low. The previous one is accepted from a member that owns no more than it may."""
    w = world()
    first, second = w.joined("m1", "t"), w.joined("m2", "t")
    w.settle(first, second)
    epoch, before = first.epoch, w.consumer_group().members["m1"].previous_epoch
    codes = {
        sent: first.send(member_epoch=sent, topic_partitions=first.owning()).answer.error_code for sent in (1, before, epoch, epoch + 1)
    }
    assert codes == {
        1: ErrorCode.FENCED_MEMBER_EPOCH,
        before: ErrorCode.NONE,
        epoch: ErrorCode.NONE,
        epoch + 1: ErrorCode.FENCED_MEMBER_EPOCH,
    }
    assert first.send(member_epoch=before).answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send(member_epoch=before, topic_partitions=second.owning()).answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.join().error_code == ErrorCode.NONE
    assert len(first.partitions) == 2


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"member_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": 5}, 0, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ({"instance_id": " "}, 1, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, 1, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, 1, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, 1, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, 1, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, 1, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, 1, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "["}, 1, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a(?=b)"}, 1, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a{99999999999}"}, 1, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, 1, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, 1, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_requests_that_are_refused(fields: dict[str, Any], version: int, code: ErrorCode) -> None:
    """Each with its code and a message, and without a group."""
    w = world()
    answer = w.consumer("m1", "t", version=version).join(**fields)
    assert answer.error_code == code
    assert answer.error_message
    assert w.services.groups.shard_for("g", w.coordinator()).consumers.groups == {}


def test_the_server_makes_an_id_for_an_old_client() -> None:
    """In version 0 a member may join without one."""
    w = world()
    first = w.joined("", "t", version=0)
    assert list(w.consumer_group().members) == [first.id]
    assert first.id


def test_unknown_members() -> None:
    """In a known group."""
    w = world()
    w.joined("m1", "t")
    stranger = w.consumer("m2", "t")
    assert stranger.send(member_epoch=3).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.send(member_epoch=-1).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


# Static members


def test_a_static_member_keeps_its_place() -> None:
    """It leaves for a while, comes back under another id, and owns the same; the group's epoch stays."""
    w = world()
    first, second = w.joined("m1", "t", instance="i1"), w.joined("m2", "t")
    w.settle(first, second)
    epoch, owned = w.consumer_group().epoch, first.partitions
    assert first.leave(for_a_while=True).member_epoch == -2
    assert w.consumer_group().members["m1"].epoch == -2
    again = w.joined("m3", "t", instance="i1")
    assert (again.partitions, again.epoch, w.consumer_group().epoch) == (owned, epoch, epoch)
    assert w.consumer_group().static == {"i1": "m3"}


def test_an_instance_id_that_is_in_use() -> None:
    """A newcomer is refused; a member with another id is fenced; an unknown one is unknown."""
    w = world()
    first = w.joined("m1", "t", instance="i1")
    other = w.consumer("m2", "t", instance="i1")
    assert other.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert other.send(member_epoch=first.epoch).answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert other.send(member_epoch=-1).answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    unknown = w.consumer("m1", "t", instance="i9")
    assert unknown.send(member_epoch=first.epoch).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back() -> None:
    """It is removed after the session timeout."""
    w = world()
    first = w.joined("m1", "t", instance="i1")
    first.leave(for_a_while=True)
    w.pass_time(SESSION_MS)
    assert w.consumer_group().members == {}


# Timers and configs


def test_a_member_without_a_heartbeat_is_removed() -> None:
    """After group.consumer.session.timeout.ms. Every heartbeat begins it again."""
    w = world(config={"group.consumer.session.timeout.ms": "1000"})
    first, second = w.joined("m1", "t"), w.joined("m2", "t")
    w.settle(first, second)
    w.pass_time(999)
    first.live()
    w.pass_time(1)
    assert list(w.consumer_group().members) == ["m1"]
    first.live()
    assert first.partitions == all_of("t", 4)
    assert second.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_gives_nothing_up_is_removed() -> None:
    """After its rebalance timeout, though it sends heartbeats."""
    w = world()
    first, second = w.joined("m1", "t", rebalance_ms=3_000), w.joined("m2", "t")
    keeps = first.owning()
    first.heartbeat(topic_partitions=keeps)
    for _ in range(3):
        w.pass_time(1_000)
        answer = first.heartbeat(topic_partitions=keeps)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    second.live()
    assert second.partitions == all_of("t", 4)


def test_the_heartbeat_interval_is_told() -> None:
    """As group.consumer.heartbeat.interval.ms says."""
    assert world(config={"group.consumer.heartbeat.interval.ms": "123"}).joined("m1", "t").last.heartbeat_interval_ms == 123


def test_a_full_group_refuses_a_new_member() -> None:
    """group.consumer.max.size. A known member, and a static one that comes back, have their place."""
    w = world(config={"group.consumer.max.size": "1"})
    first = w.joined("m1", "t", instance="i1")
    assert w.consumer("m2", "t").join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    first.leave(for_a_while=True)
    w.joined("m3", "t", instance="i1")


def test_the_assignors_of_the_broker() -> None:
    """The first one of group.consumer.assignors counts, and others are refused. Most members decide."""
    w = world(3, config={"group.consumer.assignors": "range"})
    assert w.consumer("m1", "t", assignor="uniform").join().error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    w.joined("m1", "t")
    assert w.describe("g")[0].assignor_name == "range"
    w = world(3)
    w.joined("m1", "t", assignor="range")
    assert w.describe("g")[0].assignor_name == "range"


def test_an_assignment_waits_for_the_interval() -> None:
    """With group.consumer.assignment.interval.ms a second assignment is computed with a later heartbeat (KIP-1263)."""
    w = world(config={"group.consumer.assignment.interval.ms": "1000"})
    w.joined("m1", "t")
    second = w.joined("m2", "t")
    assert w.consumer_group().state is GroupState.ASSIGNING
    w.pass_time(1_000)
    second.heartbeat()
    assert w.consumer_group().assignment_epoch == w.consumer_group().epoch


# Subscriptions and topics


def test_a_topic_that_comes_grows_and_goes() -> None:
    """Each changes the group's epoch at the next heartbeat, and the assignment with it."""
    w = world(2)
    first = w.joined("m1", "t", "u")
    assert first.partitions == all_of("t", 2)
    w.topic("u", partitions=1)
    first.live()
    assert first.partitions == all_of("t", 2) | all_of("u", 1)
    w.cluster.add_partitions(w.topic_named("u"), 3)
    first.live()
    assert first.partitions == all_of("t", 2) | all_of("u", 3)
    w.cluster.delete_topic(w.topic_named("u"))
    first.live()
    first.live()
    assert first.partitions == all_of("t", 2)


def test_a_subscription_that_changes() -> None:
    """The member gives up what it subscribes to no longer."""
    w = world(2)
    w.topic("u", partitions=2)
    first = w.joined("m1", "t")
    first.heartbeat(subscribed_topic_names=["u"], topic_partitions=first.owning())
    w.settle(first)
    assert first.partitions == all_of("u", 2)


def test_a_regular_expression() -> None:
    """It is resolved after the join. A topic that comes later is found, ten seconds after the last time."""
    w = world(2)
    w.topic("t2", partitions=1)
    w.topic("not", partitions=1)
    first = w.joined("m1", regex="t.*")
    assert first.partitions == set()
    w.now()
    first.live()
    assert first.partitions == all_of("t", 2) | all_of("t2", 1)
    w.topic("t3", partitions=1)
    w.pass_time(10_001)
    first.live()
    w.now()
    first.live()
    assert first.partitions == all_of("t", 2) | all_of("t2", 1) | all_of("t3", 1)
    assert w.describe("g")[0].members[0].subscribed_topic_regex == "t.*"


def test_a_regular_expression_beside_names() -> None:
    """A member gets the topics of both. Without its expression it keeps the named ones."""
    w = world(1)
    w.topic("u", partitions=1)
    first = w.joined("m1", "t", regex="u")
    w.now()
    first.live()
    assert first.partitions == {("t", 0), ("u", 0)}
    first.heartbeat(subscribed_topic_regex="", topic_partitions=first.owning())
    w.settle(first)
    assert first.partitions == {("t", 0)}
    assert w.consumer_group().resolved == {}


def test_different_subscriptions() -> None:
    """No member gets a topic to which it does not subscribe, and all partitions are owned. Each topic is balanced by itself."""
    w = world(3)
    w.topic("u", partitions=3)
    members = [w.joined("m1", "t"), w.joined("m2", "t", "u"), w.joined("m3", "u")]
    w.settle(*members)
    assert sorted(len(each.partitions) for each in members) == [1, 2, 3]
    assert {topic for topic, _ in members[0].partitions} == {"t"}
    assert set().union(*(each.partitions for each in members)) == all_of("t", 3) | all_of("u", 3)


# Beside the classic protocol


def test_groups_of_both_protocols() -> None:
    """ListGroups has both types. With group.consumer.migration.policy=disabled, a classic request to a consumer group is refused while it
    has members."""
    w = world(config={"group.consumer.migration.policy": "disabled"})
    w.joined("m1", "t")
    classic = w.member("c1")
    assert classic.join().answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    classic.id, classic.generation = "m1", 1
    assert classic.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert classic.sync().answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert w.start(DescribeGroupsRequest(groups=["g"]), 6).answer.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    listed = [each for node in w.cluster.brokers for each in w.start(ListGroupsRequest(), 5, node=node).answer.groups]
    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed] == [
        ("g", "consumer", "Stable", "consumer")
    ]
    only = ListGroupsRequest(types_filter=["classic"])
    assert not any(w.start(only, 5, node=node).answer.groups for node in w.cluster.brokers)


def test_a_classic_group_with_members_is_no_consumer_group() -> None:
    """GROUP_ID_NOT_FOUND, with group.consumer.migration.policy=disabled."""
    w = world(config={"group.consumer.migration.policy": "disabled"})
    w.stable("c1")
    assert w.consumer("m1", "t").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert w.consumer("m1", "t").send(member_epoch=2).answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert w.describe("g")[0].error_message == "Group g is not a consumer group."


def test_empty_groups_change_their_protocol() -> None:
    """And keep their offsets."""
    w = world()
    (classic,) = w.stable("c1")
    assert w.commit("t", 5, member=classic) == ErrorCode.NONE
    classic.leave()
    first = w.joined("m1", "t")
    assert w.services.groups.shard_for("g", w.coordinator()).groups.groups == {}
    assert w.committed("t") == 5
    first.leave()
    w.stable("c1")
    assert w.services.groups.shard_for("g", w.coordinator()).consumers.groups == {}
    assert w.committed("t") == 5


def test_an_administrator_removes_a_member() -> None:
    """By a LeaveGroup with the member's id, or with its instance id alone."""
    w = world()
    first, second, static = w.joined("m1", "t"), w.joined("m2", "t"), w.joined("m3", "t", instance="i3")
    w.settle(first, second, static)
    leavers = [MemberIdentity(member_id="m2"), MemberIdentity(member_id="", group_instance_id="i3"), MemberIdentity(member_id="x")]
    answer = w.start(LeaveGroupRequest(group_id="g", members=leavers), 5).answer
    assert [each.error_code for each in answer.members] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    first.live()
    assert first.partitions == all_of("t", 4)


def test_a_described_group() -> None:
    """Members with what they own and what they will own; groups that are missing."""
    w = world(2)
    first, second = w.joined("m1", "t", rack="r"), w.joined("m2", "t", instance="i2")
    described, missing = w.describe("g", "missing")
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group missing not found.")
    assert (described.group_state, described.assignor_name) == ("Reconciling", "uniform")
    one, two = described.members
    assert (one.member_id, one.rack_id, one.member_type, one.client_id, one.client_host) == ("m1", "r", 1, "m1", "/127.0.0.1")
    assert [each.partitions for each in one.assignment.topic_partitions] == [[0, 1]]
    assert sum(len(each.partitions) for member in (one, two) for each in member.target_assignment.topic_partitions) == 2
    assert (two.instance_id, two.assignment.topic_partitions) == ("i2", [])
    assert first.epoch < second.epoch == described.group_epoch == described.assignment_epoch


# A coordinator that moves


def test_a_moved_coordinator_goes_on() -> None:
    """The next one has the members, their epochs and their partitions, and their sessions begin again."""
    w = ConsumerWorld(brokers=2)
    w.topic("t", partitions=4)
    members: list[Consumer] = [w.joined("m1", "t", instance="i1"), w.joined("m2", "t")]
    w.joined("m3", regex="t", group="g")
    w.now()
    before = w.describe("g")[0]
    w.move_coordinator()
    assert w.describe("g")[0] == before
    w.pass_time(SESSION_MS - 1)
    for member in members:
        member.live()
    w.pass_time(1)
    assert sorted(w.consumer_group().members) == ["m1", "m2"]
    w.settle(*members)
    assert set().union(*(each.partitions for each in members)) == all_of("t", 4)


def test_a_stub_that_is_started_again_goes_on(tmp_path: Path) -> None:
    """With its data directory: the member heartbeats with the epoch that it had."""

    def beat(stub: BrokerStub, **fields: Any) -> Any:
        with Talker(stub) as talker:
            found: Any = talker.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            assert found.coordinators[0].error_code == ErrorCode.NONE
            return talker.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m1", **fields), 1)

    with BrokerStub(data_dir=tmp_path / "data") as stub:
        stub.create_topic("t", partitions=3)
        joined = beat(stub, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[])
        assert [each.partitions for each in joined.assignment.topic_partitions] == [[0, 1, 2]]
    with BrokerStub(data_dir=tmp_path / "data") as stub:
        owned = joined.assignment.topic_partitions
        again = beat(stub, member_epoch=joined.member_epoch, topic_partitions=owned)
        assert (again.error_code, again.member_epoch, again.assignment) == (ErrorCode.NONE, joined.member_epoch, None)


def test_a_regular_expression_finds_what_the_member_may_describe() -> None:
    """Topics without that permission are left out. A named one refuses the request."""
    acls = [Acl.allow("ANONYMOUS", "READ", group="g"), Acl.allow("ANONYMOUS", "DESCRIBE", topic="t")]
    w = ConsumerWorld(super_users=["admin"], acls=acls)
    w.topic("t", partitions=2)
    w.topic("u", partitions=2)
    first = w.joined("m1", regex=".*")
    w.now()
    first.live()
    assert first.partitions == all_of("t", 2)
    assert w.consumer("m2", "t", "u").join().error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert w.consumer("m2", "t", group="other").join().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
