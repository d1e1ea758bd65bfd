"""Share groups (KIP-932): joining, assignments, leaving, timers, refusals, describing, and a coordinator that moves."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker_stub.groups.share.simple_assignor import Subscriber, assign_simple
from fencepost.broker_stub.groups.state.share_group import GroupState
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages import consumer_group_admin, group_admin, groups, share_groups, share_offsets
from tests.broker_stub.groups.consumer_calls import Consumer
from tests.broker_stub.share.share_calls import ShareWorld

SESSION_MS = 45_000


def world(partitions: int = 2, **options: Any) -> ShareWorld:
    found = ShareWorld(**options)
    found.topic("t", partitions=partitions)
    return found


def test_partitions_are_assigned_once_they_are_kept() -> None:
    """The first heartbeat has none, because the share coordinator learns of them only then. A later one has them."""
    w = world()
    first = w.sharer("m1", "t")
    joined = first.join()
    assert (joined.error_code, joined.member_epoch, first.partitions) == (ErrorCode.NONE, 2, set())
    assert first.live().member_epoch == 3
    assert first.partitions == {("t", 0), ("t", 1)}
    assert first.live().assignment is None
    assert w.share_group().state is GroupState.STABLE


def test_members_share_partitions() -> None:
    """More members than partitions: each has one. Fewer: each partition has one member."""
    first, second, third = world().sharers("m1", "m2", "m3")
    owned = [*first.partitions, *second.partitions, *third.partitions]
    assert sorted(owned) in ([("t", 0), ("t", 0), ("t", 1)], [("t", 0), ("t", 1), ("t", 1)], [("t", 0), ("t", 0), ("t", 1), ("t", 1)])
    assert all(each.partitions for each in (first, second, third))
    one, two = world(partitions=4).sharers("m1", "m2")
    assert (len(one.partitions), len(two.partitions)) == (2, 2)
    assert one.partitions.isdisjoint(two.partitions)


def test_a_leave_gives_its_partitions_to_the_others() -> None:
    """They have all partitions after their next heartbeats."""
    w = world()
    first, second = w.sharers("m1", "m2")
    epoch = w.share_group().epoch
    assert second.leave().member_epoch == -1
    assert w.share_group().epoch == epoch + 1
    first.live()
    assert first.partitions == {("t", 0), ("t", 1)}
    first.leave()
    assert w.share_group().state is GroupState.EMPTY


def test_new_partitions_and_topics_are_assigned() -> None:
    """A topic that comes later, and one that grows."""
    w = world()
    member = w.sharer("m", "t", "later")
    member.join()
    member.live()
    w.topic("later")
    w.cluster.add_partitions(w.topic_named("t"), 3)
    for _ in range(3):
        member.live()
    assert member.partitions == {("t", 0), ("t", 1), ("t", 2), ("later", 0)}


def test_a_deleted_topic_goes_from_the_assignment() -> None:
    """Its partitions are with no member any more."""
    w = world()
    w.topic("u")
    member = w.sharer("m", "t", "u")
    member.join()
    member.live()
    w.cluster.delete_topic(w.topic_named("t"))
    member.live()
    assert member.partitions == {("u", 0)}
    kept = w.share_group().kept
    assert kept is not None
    assert [each.name for each in kept.initialized.values()] == ["u"]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, None),
        ({"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST, None),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        ({"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, "Share group s not found."),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group s not found."),
    ],
)
def test_odd_heartbeats_are_refused(fields: dict[str, Any], code: int, words: str | None) -> None:
    """With Kafka's codes and messages."""
    answer = world().sharer("m", "t").join(**fields)
    assert (answer.error_code, answer.error_message) == (code, words)


def test_epochs_are_checked() -> None:
    """The last epoch is good too, because the response with the new one may have been lost."""
    w = world()
    (member,) = w.sharers("m")
    assert member.heartbeat(member_epoch=member.epoch - 1).error_code == ErrorCode.NONE
    assert member.heartbeat(member_epoch=member.epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.heartbeat(member_epoch=1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert w.sharer("other", "t").heartbeat(member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.join().error_code == ErrorCode.NONE


def test_groups_of_other_types_are_refused() -> None:
    """And a share group is refused to the protocols of others."""
    w = world()
    w.stable("a")
    assert w.sharer("m", "t", group="g").join().error_message == "Group g is not a share group."
    w.sharers("m")
    consumer = Consumer(w, "c", ("t",), group="s")  # type: ignore[arg-type]  # needs only what groups have
    assert consumer.join().error_message == "Group s is not a consumer group."
    protocols = [groups.JoinGroupRequestProtocol(name="range")]
    join = groups.JoinGroupRequest(group_id="s", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
    assert w.start(join, 9, node=w.coordinator("s")).answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    describe = consumer_group_admin.ConsumerGroupDescribeRequest(group_ids=["s"])
    assert w.start(describe, 1, node=w.coordinator("s")).answer.groups[0].error_message == "Group s is not a consumer group."
    classic = group_admin.DescribeGroupsRequest(groups=["s"])
    assert w.start(classic, 6, node=w.coordinator("s")).answer.groups[0].error_message == "Group s is not a classic group."


def test_groups_are_listed_and_described() -> None:
    """With type, state, epochs, assignor and members."""
    w = world()
    (member,) = w.sharers("m1")
    (listed,) = w.start(group_admin.ListGroupsRequest(types_filter=["share"]), 5).answer.groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == ("s", "share", "Stable", "share")
    request = share_groups.ShareGroupDescribeRequest(group_ids=["s", "missing"], include_authorized_operations=True)
    found, missing = w.start(request, 1, node=w.coordinator("s")).answer.groups
    assert (found.group_state, found.assignor_name, found.group_epoch, found.assignment_epoch) == ("Stable", "simple", 3, 3)
    (told,) = found.members
    assert (told.member_id, told.client_id, told.client_host, told.subscribed_topic_names) == ("m1", "m1", "/127.0.0.1", ["t"])
    assert [(each.topic_name, each.partitions) for each in told.assignment.topic_partitions] == [("t", [0, 1])]
    assert found.authorized_operations > 0
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group missing not found.")
    assert member.partitions


@pytest.mark.parametrize("moved", [True, False])
def test_a_coordinator_that_loads_the_log_knows_the_group(moved: bool) -> None:
    """Members, epochs, assignments and kept partitions, by a move or by a restart."""
    w = world(brokers=2)
    first, second = w.sharers("m1", "m2")
    before = w.share_group()
    if moved:
        w.move_coordinator("s")
    else:
        node = w.coordinator("s")
        w.cluster.stop_broker(node)
        w.cluster.start_broker(node)
    after = w.share_group()
    assert after is not before
    assert (after.members, after.epoch, after.target, after.metadata_hash) == (
        before.members,
        before.epoch,
        before.target,
        before.metadata_hash,
    )
    assert before.kept is not None
    assert after.kept is not None
    assert after.kept.initialized.keys() == before.kept.initialized.keys()
    assert first.live().error_code == ErrorCode.NONE
    w.clock.advance(SESSION_MS)
    w.now()
    assert not w.share_group().members
    assert second.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_deleted_with_its_state() -> None:
    """Not while it has members."""
    w = world()
    (member,) = w.sharers("m")
    delete = group_admin.DeleteGroupsRequest(groups_names=["s"])
    assert w.start(delete, 2, node=w.coordinator("s")).answer.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert w.start(delete, 2, node=w.coordinator("s")).answer.results[0].error_code == ErrorCode.NONE
    assert w.start(delete, 2, node=w.coordinator("s")).answer.results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert w.start(group_admin.ListGroupsRequest(types_filter=["share"]), 5).answer.groups == []
    assert w.share_offsets(topics=[share_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]) == {
        ("t", 0): (-1, -1)
    }


def test_the_assignor_gives_every_partition_to_as_many_members() -> None:
    """Of members with different subscriptions only those that subscribe. Members keep what they have."""
    t, u = ZERO_UUID, type(ZERO_UUID)(int=1)
    both, one = frozenset((t, u)), frozenset((t,))
    assignable = {t: frozenset(range(3)), u: frozenset(range(2))}
    alone = assign_simple({"a": Subscriber(both, {})}, assignable)
    assert alone == {"a": {t: frozenset(range(3)), u: frozenset(range(2))}}
    two = assign_simple({"a": Subscriber(both, alone["a"]), "b": Subscriber(both, {})}, assignable)
    assert sum(map(len, two["a"].values())) + sum(map(len, two["b"].values())) == 5
    assert {abs(sum(map(len, two["a"].values())) - sum(map(len, two["b"].values())))} == {1}
    mixed = assign_simple({"a": Subscriber(both, {}), "b": Subscriber(one, {})}, assignable)
    assert mixed["a"][u] == frozenset(range(2))
    assert u not in mixed["b"]
    assert mixed["a"].get(t, frozenset()) | mixed["b"][t] == frozenset(range(3))
    many = assign_simple({f"m{at}": Subscriber(one, {}) for at in range(7)}, {t: frozenset(range(3))})
    assert all(sum(map(len, each.values())) in (1, 2) for each in many.values())
    counts = [sum(index in each[t] for each in many.values()) for index in range(3)]
    assert counts == [3, 3, 3]


def test_assignments_do_not_depend_on_the_order_of_sets() -> None:
    """Python's sets order these topics by their insertion, because their hashes fall into one bucket."""
    topics = [type(ZERO_UUID)(int=64 * number) for number in range(1, 5)]
    found = []
    for order in (topics, topics[::-1]):
        given = frozenset(order)
        held = {topic: frozenset(range(2)) for topic in order}
        less = frozenset(topic for topic in order if topic != topics[0])
        members = {"a": Subscriber(given, held), "b": Subscriber(given, {}), "c": Subscriber(given, {})}
        mixed = {**members, "c": Subscriber(less, {})}
        found.append([assign_simple(each, {topic: frozenset(range(2)) for topic in order}) for each in (members, mixed)])
    assert found[0] == found[1]


def test_nothing_is_assigned_without_subscriptions_that_exist() -> None:
    """Members have an empty assignment."""
    w = world()
    member = w.sharer("m", "nothing")
    member.join()
    assert member.live().error_code == ErrorCode.NONE
    assert member.partitions == set()
