"""A broker that is paused, whose clock differs, or whose coordinators load slowly."""

from __future__ import annotations

import pytest

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.transactions.states import State
from fencepost.producer import wire
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.group_admin import ListGroupsRequest
from fencepost.producer.wire.messages.group_offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.producer.wire.messages.list_transactions import ListTransactionsRequest
from tests.broker_stub.cluster.test_controller_link import SESSION_MS, produce, read_values, three, told
from tests.broker_stub.stub_calls import Inside, Pending, Talker, batch, fetch_request, metadata_request, only
from tests.broker_stub.transactions.txn_calls import Transactions

HOUR_MS = 3_600_000
COMMIT = OffsetCommitRequest(
    group_id="g",
    generation_id_or_member_epoch=-1,
    topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)])],
)


def test_a_paused_leader_wakes_as_the_leader_that_it_was() -> None:
    """Another broker leads meanwhile. What has waited is served before the broker hears of that: acks=1 is acknowledged, and lost."""
    world, partition, old = three()
    world.cluster.pause_broker(old)
    waits = produce(world, old, b"lost", acks=1)
    asks = Pending(tick=world.cluster.tick)
    world.send(metadata_request("t"), 12, node=old, replies=asks.replies)
    world.pass_time(SESSION_MS)
    assert partition.leader != old
    assert waits.waits
    assert asks.waits
    assert produce(world, partition.leader, b"new", acks=-1).answer.error_code == ErrorCode.NONE
    world.cluster.resume_broker(old)
    assert waits.answer.error_code == ErrorCode.NONE
    assert asks.answer.topics[0].partitions[0].leader_id == old
    world.pass_time(1_000)
    assert told(world, old)[0] == partition.leader
    assert sorted(partition.isr) == [1, 2, 3]
    assert read_values(only(world.ask(fetch_request("t"), 12)).records) == [b"known", b"new"]
    assert {log.log_end_offset for log in partition.logs.values()} == {2}


def test_a_short_pause_changes_nothing() -> None:
    """The broker is not fenced, and what has waited is served."""
    world, partition, leader = three()
    world.cluster.pause_broker(leader)
    waits = produce(world, leader, b"late", acks=-1)
    world.pass_time(SESSION_MS - 1)
    world.cluster.resume_broker(leader)
    world.pass_time(500)
    assert waits.answer.error_code == ErrorCode.NONE
    assert (partition.leader, partition.leader_epoch, sorted(partition.isr)) == (leader, 0, [1, 2, 3])


def test_a_paused_follower_leaves_the_isr() -> None:
    """acks=all waits for it until it is fenced. Then it catches up."""
    world, partition, leader = three()
    follower = next(node for node in partition.replicas if node != leader)
    world.cluster.pause_broker(follower)
    waits = produce(world, leader, b"x", acks=-1)
    world.pass_time(SESSION_MS - 1)
    assert waits.waits
    world.pass_time(1)
    assert waits.answer.error_code == ErrorCode.NONE
    assert partition.logs[follower].log_end_offset == 1
    world.cluster.resume_broker(follower)
    world.pass_time(1_000)
    assert sorted(partition.isr) == [1, 2, 3]
    assert partition.logs[follower].log_end_offset == 2


def test_a_paused_broker_can_be_killed() -> None:
    """What has waited is not served."""
    world, partition, leader = three()
    world.cluster.pause_broker(leader)
    waits = produce(world, leader, b"x", acks=1)
    world.cluster.stop_broker(leader, clean=False)
    world.cluster.start_broker(leader)
    world.pass_time(1_000)
    assert waits.waits
    assert sorted(partition.isr) == [1, 2, 3]
    assert partition.log.log_end_offset == 1


def test_members_of_a_paused_coordinator_time_out_when_it_goes_on() -> None:
    """Nothing happens at a paused broker: an offset is committed when it goes on."""
    world = Inside()
    world.topic()
    find = wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    assert world.ask(find, 4).coordinators[0].node_id == 1
    world.cluster.pause_broker(1)
    pending = Pending(only, tick=world.cluster.tick)
    world.send(COMMIT, 8, node=1, replies=pending.replies)
    world.pass_time(HOUR_MS)
    assert pending.waits
    world.cluster.resume_broker(1)
    assert pending.answer.error_code == ErrorCode.NONE


@pytest.mark.parametrize("paused", ["coordinator", "leader"])
def test_markers_of_a_paused_broker(paused: str) -> None:
    """A transaction commits, though its coordinator, or the leader of a partition in it, is paused: when it goes on."""
    world = Transactions(brokers=2, partitions=2, replicas=1, config={"transaction.state.log.replication.factor": 1})
    world.given()
    coordinator = world.state_partition.leader
    index = next(each for each in (0, 1) if world.leader(partition=each) != coordinator)
    assert world.add(index).answer == ErrorCode.NONE
    world.write(0, partition=index)
    node = coordinator if paused == "coordinator" else world.leader(partition=index)
    world.cluster.pause_broker(node)
    end = world.end()
    world.pass_time(1_000)
    assert end.waits == (paused == "coordinator")
    assert [header.is_control for header, _ in world.partition(index).log.batches()] == [False]
    world.cluster.resume_broker(node)
    world.pass_time(500)
    assert end.answer[0] == ErrorCode.NONE
    assert [header.is_control for header, _ in world.partition(index).log.batches()] == [False, True]


def test_over_sockets() -> None:
    """A client connects to a paused broker, and hears nothing until it goes on."""
    with BrokerStub(brokers=2) as stub, Talker(stub, 1) as before:
        stub.pause_broker(1)
        before.send(metadata_request(), 12)
        with Talker(stub, 1) as later:
            later.send(metadata_request(), 12)
            assert not before.is_closed(within=0.1)
            stub.resume_broker(1)
            assert [type(each.receive(metadata_request(), 12)) for each in (before, later)] == [wire.MetadataResponse] * 2


# -- clocks that differ ----------------------------------------------------------------------------------------------------


def test_the_leaders_clock_is_the_append_time() -> None:
    """A leader whose clock is an hour ahead, and one whose clock is right: the time of the records goes back."""
    world = Inside(brokers=2)
    world.topic(replicas=2, message_timestamp_type="LogAppendTime")
    partition = world.topic_named().partitions[0]
    world.cluster.brokers[partition.leader].ahead_ms = HOUR_MS
    now_ms = world.clock.now_ms()
    assert world.produce(batch(b"x")).log_append_time_ms == now_ms + HOUR_MS
    world.pass_time(500)
    world.cluster.move_leader(partition)
    world.pass_time(500)
    assert world.produce(batch(b"x")).log_append_time_ms == now_ms + 1_000
    world.pass_time(500)
    assert [header.max_timestamp - now_ms for header, _ in partition.log.batches()] == [HOUR_MS, 1_000]


def test_timestamps_are_refused_by_the_leaders_clock() -> None:
    """A broker whose clock is two hours behind refuses what was written now, if its topic allows an hour."""
    world = Inside()
    world.topic(message_timestamp_after_max_ms=str(HOUR_MS))
    world.cluster.brokers[1].ahead_ms = -2 * HOUR_MS
    assert world.produce(batch(b"x")).error_code == ErrorCode.INVALID_TIMESTAMP
    world.cluster.brokers[1].ahead_ms = 0
    assert world.produce(batch(b"x")).error_code == ErrorCode.NONE


def test_a_transaction_times_out_by_its_coordinators_clock() -> None:
    """The coordinator moves to a broker whose clock is an hour ahead, which aborts the transaction at its next look."""
    world = Transactions(brokers=3)
    world.given()
    assert world.add().answer == ErrorCode.NONE
    world.pass_time(11_000)
    assert world.is_in(State.ONGOING)
    for node in (1, 2, 3):
        world.cluster.brokers[node].ahead_ms = 0 if node == world.state_partition.leader else HOUR_MS
    world.cluster.move_leader(world.state_partition)
    world.pass_time(11_000)
    world.pass_time(1_000)
    assert world.is_in(State.COMPLETE_ABORT)


# -- coordinators that load ------------------------------------------------------------------------------------------------


def test_a_coordinator_that_loads() -> None:
    """After an election it answers COORDINATOR_LOAD_IN_PROGRESS until it has loaded its partition; FindCoordinator names it at once."""
    world = Inside(brokers=3)
    world.topic(replicas=3)
    find = wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    old = world.ask(find, 4).coordinators[0].node_id
    assert only(world.ask(COMMIT, 8, node=old)).error_code == ErrorCode.NONE
    world.pass_time(500)
    for broker in world.cluster.brokers.values():
        broker.loading_ms = 2_000
    world.cluster.stop_broker(old)
    new = world.ask(find, 4, node=1 + old % 3).coordinators[0].node_id
    assert new != old
    assert only(world.ask(COMMIT, 8, node=new)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.ask(ListGroupsRequest(), 4, node=new).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.pass_time(1_999)
    assert only(world.ask(COMMIT, 8, node=new)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.pass_time(1)
    assert only(world.ask(COMMIT, 8, node=new)).error_code == ErrorCode.NONE
    assert world.ask(ListGroupsRequest(), 4, node=new).error_code == ErrorCode.NONE


def test_a_transaction_coordinator_that_loads() -> None:
    """Its ids are there after the time, and what was about to end ends then."""
    world = Transactions(brokers=3)
    world.given()
    assert world.add().answer == ErrorCode.NONE
    world.pass_time(500)
    for broker in world.cluster.brokers.values():
        broker.loading_ms = 2_000
    node = world.cluster.move_leader(world.state_partition)
    world.cluster.tick()
    assert world.end().answer[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.ask(ListTransactionsRequest(), 0, node=node).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.pass_time(2_000)
    assert world.end().answer[0] == ErrorCode.NONE


def test_from_the_stub() -> None:
    """The calls of a stub reach its brokers, and refuse what cannot be."""
    with BrokerStub(brokers=2, clock=VirtualClock()) as stub:
        stub.set_clock(1, -5)
        stub.slow_loading(2, 7)
        assert [(each.ahead_ms, each.loading_ms) for each in stub.cluster.brokers.values()] == [(-5, 0), (0, 7)]
        with pytest.raises(KeyError, match="there is no broker 3"):
            stub.pause_broker(3)
        with pytest.raises(ValueError, match="ms=-1: 0 or more"):
            stub.slow_loading(1, -1)
        with pytest.raises(ValueError, match="ms=2147483648: 0 or more, at most 2147483647"):
            stub.slow_down(1, 2, 1 << 31)
        with pytest.raises(ValueError, match="ahead_ms=-3153600000001: must be whole milliseconds from -3153600000000 to 3153600000000"):
            stub.set_clock(1, -3_153_600_000_001)
        with pytest.raises(TypeError, match="ahead_ms='1': must be whole milliseconds"):
            stub.set_clock(1, "1")  # type: ignore[arg-type]
        stub.pause_broker(1)
        stub.advance(SESSION_MS)
        assert stub.fenced == [1]
        stub.resume_broker(1)
        stub.advance(0)
        assert stub.fenced == []
