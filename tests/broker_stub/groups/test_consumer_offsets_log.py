"""What groups have in `__consumer_offsets`: all that a coordinator knows could be read there again, and it answers when it is there."""

from __future__ import annotations

import random

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.internal_append import append
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.broker_stub.requests.call import Reply
from fencepost.producer.wire import ErrorCode, RequestHeader
from fencepost.producer.wire.messages.group_admin import DeleteGroupsRequest, DeleteGroupsResponse
from fencepost.producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from fencepost.producer.wire.messages.groups import LeaveGroupRequest, MemberIdentity
from fencepost.producer.wire.records import encode_batch
from tests.broker_stub.groups.group_calls import Groups
from tests.broker_stub.groups.offsets_calls import code_of, known, offset_commit, offset_delete, partition_of, records_in, shard_of
from tests.broker_stub.stub_calls import Talker
from tests.broker_stub.transactions.txn_calls import Transactions

COMMIT_TIMEOUT_MS = 5_000


# What the next coordinator reads


@pytest.mark.parametrize("seed", range(8))
def test_the_log_is_what_the_coordinator_knows(seed: int) -> None:
    """After any run of commits, deletions, transactions, deleted topics and moved coordinators, a reader of the log knows the same as the
    coordinator."""
    rng = random.Random(seed)
    world = Transactions(brokers=3, config={"offsets.topic.num.partitions": 1})
    world.topic("other")
    world.given()
    replies: list[Reply] = []

    def ask(request: OffsetCommitRequest | OffsetDeleteRequest | DeleteGroupsRequest, version: int) -> None:
        header = RequestHeader(api_key=request.api, api_version=version, correlation_id=1, client_id="inside")
        world.dispatcher.handle(partition_of(world).leader, 1, header, request, replies.append)

    def do_commit() -> None:
        ask(offset_commit(rng.randrange(100), group=rng.choice("gh"), topic=rng.choice(("t", "other"))), 9)

    def do_delete() -> None:
        ask(offset_delete(rng.choice("gh"), rng.choice(("t", "other"))), 0)

    def do_delete_group() -> None:
        ask(DeleteGroupsRequest(groups_names=[rng.choice("gh")]), 2)

    def do_transaction() -> None:
        assert world.commit_offset(rng.randrange(100), group=rng.choice("gh")).answer == ErrorCode.NONE

    def do_end() -> None:
        code, pid, epoch = world.end(commit=rng.random() < 0.6).answer
        if code == ErrorCode.NONE:
            world.identity = type(world.identity)(pid, epoch)

    def do_move() -> None:
        world.cluster.move_leader(partition_of(world))

    def do_recreate() -> None:
        topic = world.cluster.topics.named("other")
        assert topic is not None
        world.cluster.delete_topic(topic)
        world.topic("other")

    for _ in range(60):
        rng.choice((do_commit, do_commit, do_delete, do_delete_group, do_transaction, do_transaction, do_end, do_move, do_recreate))()
        world.cluster.tick()
        assert known(Store(world.cluster, partition_of(world).leading)) == known(shard_of(world).store)
    assert any(record is not None for record in records_in(partition_of(world)))


def test_offsets_survive_the_brokers_restart() -> None:
    """A broker that goes down, with a warning or without, comes back with what its groups have committed, plainly and in transactions."""
    with BrokerStub() as stub, Talker(stub) as talker:
        stub.create_topic("t")
        stub.cluster.internal_topic("__consumer_offsets")
        answer = talker.ask(offset_commit(7), 9)
        assert isinstance(answer, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        for clean in (True, False):
            stub.restart_broker(1, clean=clean)
            found = stub._call(lambda: stub.services.groups.shard_for("g", 1).offsets.find("g", "t", 0))
            assert found is not None
            assert found.offset == 7


def test_a_group_is_read_as_it_was_assigned() -> None:
    """Members, their assignments and their leader, the generation and the protocol; a group that was deleted is not there."""
    world = Groups(brokers=3)
    first, second = world.stable("a", "b", static=True)
    before = world.group()
    world.move_coordinator()
    after = world.group()
    assert after is not before
    assert (after.state, after.generation, after.protocol, after.leader) == (State.STABLE, before.generation, "range", first.id)
    for member in (first, second):
        was, now = before.members[member.id], after.members[member.id]
        assert (now.assignment, now.instance_id, now.client_id, now.session_timeout_ms) == (
            was.assignment,
            was.instance_id,
            was.client_id,
            was.session_timeout_ms,
        )
    assert [first.leave(), second.leave()] == [ErrorCode.NONE] * 2
    world.now()
    world.move_coordinator()
    assert (world.group().state, world.group().members) == (State.EMPTY, {})
    answer = world.start(DeleteGroupsRequest(groups_names=["g"]), 2).answer
    assert isinstance(answer, DeleteGroupsResponse)
    assert answer.results[0].error_code == ErrorCode.NONE
    world.move_coordinator()
    assert shard_of(world).groups.groups == {}


def test_groups_of_newer_protocols_are_passed_over() -> None:
    """A coordinator that reads a record of one in the log knows the groups and offsets beside it, and does not stop there."""
    world = Groups(brokers=3)
    world.topic()
    assert world.commit("t", 3) == ErrorCode.NONE
    told: list[int] = []
    newer = encode_batch([(world.clock.now_ms(), b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x07\x00")], base_sequence=0)
    append(world.cluster, partition_of(world).leading, newer, timeout_ms=COMMIT_TIMEOUT_MS, then=told.append)
    world.cluster.tick()
    assert told == [ErrorCode.NONE]
    assert world.commit("t", 4) == ErrorCode.NONE
    world.move_coordinator()
    assert records_in(partition_of(world))[1] is None
    assert world.committed("t") == 4


def test_a_deleted_topic_loses_its_committed_offsets() -> None:
    """A deleted topic loses its committed offsets, even if its group's coordinator has just begun, or if an open transaction has still to
    decide about them."""
    world = Transactions(brokers=3)
    world.given()
    assert world.commit_offset(5).answer == ErrorCode.NONE
    world.cluster.move_leader(world.offsets_partition())
    topic = world.cluster.topics.named("t")
    assert topic is not None
    world.cluster.delete_topic(topic)
    assert known(Store(world.cluster, world.offsets_partition().leading)) == ({}, {})


# When it answers


def severed(world: Groups) -> int:
    """The group's partition has a follower that falls behind: which."""
    partition = partition_of(world)
    follower = next(node for node in partition.replicas if node != partition.leader)
    world.cluster.broker_links.sever(partition.leader, follower)
    return follower


def mend(world: Groups, follower: int) -> None:
    world.cluster.broker_links.mend(partition_of(world).leader, follower)
    world.cluster.tick()


def test_a_commit_waits_for_every_replica() -> None:
    """It does not count before, and is answered when it does."""
    world = Groups(brokers=3)
    world.topic()
    follower = severed(world)
    waiting = world.start(offset_commit(7), 9)
    assert waiting.waits
    assert world.committed("t") == -1
    mend(world, follower)
    assert (code_of(waiting), world.committed("t")) == (ErrorCode.NONE, 7)


def test_what_changes_nothing_is_not_written() -> None:
    """A commit of which everything is refused, and a deletion of an offset that is not there, are answered at once though a replica is
    behind, and leave no trace in the log."""
    world = Groups(brokers=3)
    for name in ("t", "other"):
        world.topic(name)
    assert world.commit("t", 3) == ErrorCode.NONE
    severed(world)
    log = partition_of(world).log
    before = log.log_end_offset, log.size
    assert code_of(world.start(offset_commit(7, metadata="x" * 5_000), 9)) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert code_of(world.start(offset_delete(topic="other"), 0)) == ErrorCode.NONE
    assert (log.log_end_offset, log.size) == before
    assert world.committed("t") == 3


def test_a_commit_that_could_not_be_written_does_not_count() -> None:
    """With too few replicas the committer is told to try again, what counted before counts still, and the offset does not come back; a
    commit counts again once there are enough."""
    world = Groups(brokers=3, config={"min.insync.replicas": "2"})
    world.topic(replicas=3)
    assert world.commit("t", 3) == ErrorCode.NONE
    others = [node for node in world.cluster.brokers if node != world.coordinator()]
    for node in others:
        world.cluster.stop_broker(node)
    assert world.commit("t", 7) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.committed("t") == 3
    for node in others:
        world.cluster.start_broker(node)
    world.now()
    assert world.committed("t") == 3
    assert (world.commit("t", 8), world.committed("t")) == (ErrorCode.NONE, 8)


def test_a_commit_that_took_too_long_counts_all_the_same() -> None:
    """Its committer is told to try again after offsets.commit.timeout.ms; the record is in the log, and counts once it is everywhere."""
    world = Groups(brokers=3)
    world.topic()
    follower = severed(world)
    waiting = world.start(offset_commit(7), 9)
    world.pass_time(COMMIT_TIMEOUT_MS - 1)
    assert waiting.waits
    world.pass_time(1)
    assert (code_of(waiting), world.committed("t")) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    mend(world, follower)
    assert world.committed("t") == 7


def test_a_commit_that_only_its_coordinator_has_is_lost_with_it() -> None:
    """The next coordinator never got it; the committer is told that this one is none any more."""
    world = Groups(brokers=3)
    world.topic()
    assert world.commit("t", 3) == ErrorCode.NONE
    follower = severed(world)
    waiting = world.start(offset_commit(7), 9)
    world.cluster.move_leader(partition_of(world), to=follower)
    world.cluster.tick()
    assert (code_of(waiting), world.committed("t")) == (ErrorCode.NOT_COORDINATOR, 3)


def test_an_assignment_waits_for_every_replica() -> None:
    """No member gets its assignment before every replica has it. Then the assignments are sent, and the group is stable."""
    world = Groups(brokers=3)
    (member,) = world.stable("a")
    joining = member.join()
    world.now()
    member.heard(joining.answer)
    follower = severed(world)
    waiting = member.sync({member.id: b"new"})
    assert waiting.waits
    assert world.group().state is State.COMPLETING_REBALANCE
    mend(world, follower)
    assert (waiting.answer.error_code, waiting.answer.assignment) == (ErrorCode.NONE, b"new")
    assert world.group().state is State.STABLE


def test_an_assignment_that_cannot_be_written_is_made_again() -> None:
    """Its members are told why, and a rebalance begins."""
    world = Groups(brokers=3)
    (member,) = world.stable("a")
    joining = member.join()
    world.now()
    member.heard(joining.answer)
    severed(world)
    waiting = member.sync({member.id: b"new"})
    world.pass_time(COMMIT_TIMEOUT_MS)
    assert waiting.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.group().state is State.PREPARING_REBALANCE


def test_a_static_member_whose_return_cannot_be_written() -> None:
    """The client that came back is told to try again, without an id. The one before it is the member, and not fenced."""
    world = Groups(brokers=3)
    (before,) = world.stable("a", static=True)
    follower = severed(world)
    waiting = world.member("a", instance="a").join()
    assert before.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    world.pass_time(COMMIT_TIMEOUT_MS)
    assert (waiting.answer.error_code, waiting.answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert before.heartbeat() == ErrorCode.NONE
    mend(world, follower)
    after = world.member("a", instance="a")
    after.heard(after.join().answer)
    assert (before.heartbeat(), after.heartbeat()) == (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE)


@pytest.mark.parametrize("mended", [True, False])
def test_the_last_member_leaves_when_every_replica_has_it(mended: bool) -> None:
    """The first of two members leaves at once, because nothing is written."""
    world = Groups(brokers=3)
    first, last = world.stable("a", "b")
    follower = severed(world)
    assert first.leave() == ErrorCode.NONE
    leaving = world.start(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=last.id)]), 5)
    assert leaving.waits
    assert world.group().state is State.EMPTY
    if mended:
        mend(world, follower)
    else:
        world.pass_time(COMMIT_TIMEOUT_MS)
    assert leaving.answer.error_code == (ErrorCode.NONE if mended else ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [each.error_code for each in leaving.answer.members] == ([ErrorCode.NONE] if mended else [])


def test_deletions_wait_for_every_replica() -> None:
    """OffsetDelete and DeleteGroups are answered when the tombstones are everywhere."""
    world = Groups(brokers=3)
    world.topic()
    assert world.commit("t", 3) == ErrorCode.NONE
    follower = severed(world)
    offsets, groups = world.start(offset_delete(), 0), world.start(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert (offsets.waits, groups.waits) == (True, True)
    assert world.committed("t") == 3
    mend(world, follower)
    assert isinstance(offsets.answer, OffsetDeleteResponse)
    assert offsets.answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert [each.error_code for each in groups.answer.results] == [ErrorCode.NONE]
    assert known(shard_of(world).store) == ({}, {})
