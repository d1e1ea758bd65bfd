"""Which broker coordinates which group, what the next coordinator knows, and what goes with a topic or a group."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.embedded_protocol import read_topics
from fencepost.producer.wire import ErrorCode, Message
from fencepost.producer.wire.messages.group_admin import DeleteGroupsRequest, ListGroupsRequest
from fencepost.producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from fencepost.producer.wire.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from fencepost.producer.wire.messages.list_transactions import ListTransactionsRequest
from tests.broker_stub.groups.group_calls import REBALANCE_MS, SESSION_MS, Groups
from tests.broker_stub.groups.offsets_calls import code_of, offset_delete
from tests.broker_stub.stub_calls import Inside


def test_a_coordinator_that_moves_keeps_what_was_assigned() -> None:
    """Waiting members are told NOT_COORDINATOR. The next coordinator knows the last assignment and the offsets, and begins the sessions
    anew."""
    world = Groups(brokers=3)
    world.topic()
    first, second = world.stable("a", "b")
    assert world.commit("t", 7, member=first) == ErrorCode.NONE
    waiting = second.join(protocols={"range": b"new"})
    assert waiting.waits
    old = world.coordinator()
    world.move_coordinator()
    assert waiting.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert world.coordinator() != old
    world.pass_time(SESSION_MS - 1)
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert second.sync().answer.assignment == b"b"
    assert world.committed("t") == 7
    world.pass_time(SESSION_MS)
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_waiting_sync_group_is_answered_when_the_coordinator_moves() -> None:
    """A SyncGroup that waits is told NOT_COORDINATOR; the generation that was never assigned is forgotten."""
    world = Groups(brokers=3)
    first, second = world.stable("a", "b")
    generation = first.generation
    joined = [first.join(), second.join()]
    for member, pending in zip((first, second), joined, strict=True):
        member.heard(pending.answer)
    waiting = second.sync()
    world.move_coordinator()
    assert waiting.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert (world.group().state, world.group().generation) == (State.STABLE, generation)
    assert second.heartbeat() == ErrorCode.ILLEGAL_GENERATION


def test_a_coordinator_that_stops_keeps_what_was_assigned() -> None:
    """A single coordinator has its groups again after its restart. Until then the groups have no coordinator, and waiting requests are
    lost."""
    world = Groups()
    (first,) = world.stable("a")
    second = world.member("b").join()
    assert second.waits
    world.cluster.stop_broker(1)
    assert world.coordinator() == -1
    world.cluster.start_broker(1)
    assert second.waits
    assert first.heartbeat() == ErrorCode.NONE
    assert list(world.group().members) == [first.id]


def test_a_group_that_was_deleted_is_gone() -> None:
    """Neither its timers nor a new coordinator bring it back."""
    world = Groups(brokers=3)
    (first,) = world.stable("a")
    assert first.leave() == ErrorCode.NONE
    shard = world.services.groups.shard_for("g", world.coordinator())
    shard.groups.delete("g")
    world.now()
    world.move_coordinator()
    world.pass_time(10 * REBALANCE_MS)
    assert world.services.groups.shard_for("g", world.coordinator()).groups.groups == {}


@pytest.mark.parametrize("emulate", ["4.3", "3.9"])
def test_a_group_that_was_never_assigned_anything_is_gone_when_it_was_deleted(emulate: str) -> None:
    """Its only member left before the first generation began; the next coordinator does not bring it back."""
    world = Groups(brokers=3, emulate=emulate, config={"group.initial.rebalance.delay.ms": "3000"})
    member = world.member("a")
    member.join()
    assert member.leave() == ErrorCode.NONE
    world.pass_time(3_000)
    assert (world.group().state, world.group().generation) == (State.EMPTY, 1)
    world.move_coordinator()
    assert world.group().generation == 1
    assert [each.error_code for each in world.start(DeleteGroupsRequest(groups_names=["g"]), 2).answer.results] == [ErrorCode.NONE]
    world.move_coordinator()
    assert world.services.groups.shard_for("g", world.coordinator()).groups.groups == {}


@pytest.mark.parametrize(
    ("generation", "version", "code"),
    [
        (0, 9, ErrorCode.GROUP_ID_NOT_FOUND),
        (0, 8, ErrorCode.ILLEGAL_GENERATION),
        (1, 9, ErrorCode.GROUP_ID_NOT_FOUND),
        (1, 8, ErrorCode.ILLEGAL_GENERATION),
        (-1, 9, ErrorCode.NONE),
    ],
)
def test_a_commit_of_a_generation_makes_no_group(generation: int, version: int, code: ErrorCode) -> None:
    """A commit with a member or a generation is told that there is no such group. A commit without them creates the group."""
    world = Groups()
    world.topic()
    member = world.member("a")
    member.id, member.generation = "a" if generation >= 0 else "", generation
    assert world.commit("t", 7, member=member, version=version) == code
    assert world.committed("t") == (-1 if code else 7)
    assert list(world.services.groups.shard_for("g", world.coordinator()).groups.groups) == ([] if code else ["g"])


@pytest.mark.parametrize(("emulate", "code"), [("3.9", ErrorCode.NONE), ("4.3", ErrorCode.GROUP_ID_NOT_FOUND)])
def test_what_a_commit_leaves_of_which_everything_is_refused(emulate: str, code: ErrorCode) -> None:
    """Before Kafka 4.0 a group begins with the attempt to commit, since then with the first offset."""
    world = Groups(emulate=emulate)
    world.topic()
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(committed_offset=1, committed_metadata="x" * 5_000)]
            )
        ],
    )
    assert code_of(world.start(request, 8)) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert [each.error_code for each in world.start(DeleteGroupsRequest(groups_names=["g"]), 2).answer.results] == [code]


def test_offsets_of_a_deleted_topic_are_gone() -> None:
    """A topic of the same name begins without offsets; those of other topics stay."""
    world = Groups()
    for name in ("t", "other"):
        world.topic(name)
        assert world.commit(name, 3) == ErrorCode.NONE
    topic = world.cluster.topics.named("t")
    assert topic is not None
    world.cluster.delete_topic(topic)
    world.topic("t")
    assert (world.committed("t"), world.committed("other")) == (-1, 3)


def test_all_offsets_of_a_group_name_no_topic_without_one() -> None:
    """When the only offset of a topic was deleted, the group has nothing of that topic."""
    world = Groups()
    for name in ("t", "other"):
        world.topic(name)
        assert world.commit(name, 3) == ErrorCode.NONE
    assert code_of(world.start(offset_delete(topic="t"), 0)) == ErrorCode.NONE
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (group,) = world.start(asked, 9).answer.groups
    assert [(topic.name, len(topic.partitions)) for topic in group.topics] == [("other", 1)]


@pytest.mark.parametrize(
    ("request_", "version", "listed"),
    [(ListGroupsRequest(), 5, "groups"), (ListTransactionsRequest(), 1, "transaction_states")],
    ids=["groups", "transactions"],
)
def test_nothing_is_listed_before_there_is_a_coordinator(request_: Message, version: int, listed: str) -> None:
    """On a cluster without any group or transaction so far, lists are empty and no error, and listing creates no topic."""
    world = Inside(brokers=2)
    for node in world.cluster.brokers:
        answer = world.ask(request_, version, node=node)
        assert (answer.error_code, getattr(answer, listed)) == (ErrorCode.NONE, [])
    assert [world.cluster.topics.named(name) for name in (OFFSETS_TOPIC, STATE_TOPIC)] == [None, None]


def test_groups_of_different_partitions_are_apart() -> None:
    """Each group lives with the leader of its own partition, and only there."""
    world = Groups(brokers=3)
    names = [f"g{number}" for number in range(30)]
    for name in names:
        member = world.member("a", group=name)
        pending = world.start(
            JoinGroupRequest(
                group_id=name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range")],
            ),
            3,
            node=world.coordinator(name),
        )
        world.now()
        member.heard(pending.answer)
    found = {
        node: sorted(group for shard in world.services.groups.shards_of(node) for group in shard.groups.groups)
        for node in world.cluster.brokers
    }
    assert found == {node: sorted(name for name in names if world.coordinator(name) == node) for node in world.cluster.brokers}
    assert all(found.values())


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x01\x00\x09t", b"\x00\x00\x00\x00\x00\x01\xff\xfft"]
)
def test_a_subscription_that_is_none(data: bytes) -> None:
    """Metadata that no consumer wrote is refused, and a group with such a member counts as subscribed to everything."""
    with pytest.raises(Exception, match="bytes"):
        read_topics(data)
    world = Groups()
    member = world.member("a")
    pending = member.join(protocols={"range": data})
    world.now()
    assert pending.answer.error_code == 0
    assert world.group().is_subscribed("anything")


def test_what_a_group_reads_is_known_of_its_newest_generation_only() -> None:
    """If the coordinator no longer knows what a member reads, every topic of the group may be read, and keeps its offset."""
    world = Groups()
    for name in ("t", "other"):
        world.topic(name)
        assert world.commit(name, 3) == ErrorCode.NONE
    member = world.member("a")
    for metadata, code in ((b"\0\0\0\0\0\1\0\1t", ErrorCode.NONE), (b"", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)):
        pending = member.join(protocols={"range": metadata})
        world.now()
        member.heard(pending.answer)
        assert code_of(world.start(offset_delete(topic="other"), 0)) == code


def test_the_partition_of_a_name_is_javas() -> None:
    """`String.hashCode` over UTF-16, and `Utils.abs`, which takes the smallest int for 0."""
    names = ("", "hello", "Aa", "BB", "ж", "polygenelubricants")
    assert [partition_for(name, 50) for name in names] == [hash_code % 50 for hash_code in (0, 99_162_322, 2_112, 2_112, 1_078, 0)]
