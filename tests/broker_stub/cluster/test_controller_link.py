"""A broker whose link to the controller is severed: it serves clients with what it knows, and is fenced."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.cluster.producer_ids import BLOCK
from fencepost.broker_stub.replication.partition import Partition
from fencepost.producer import wire
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.cluster import DescribeClusterRequest
from fencepost.producer.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from fencepost.producer.wire.messages.group_offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.producer.wire.messages.topic_admin import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from fencepost.producer.wire.records import iter_batches, read_records
from tests.broker_stub.stub_calls import Inside, Pending, batch, fetch_request, metadata_request, only, produce_request

CONTROLLER = 0
SESSION_MS, FORWARDING_MS, PRODUCE_MS = 9_000, 60_000, 30_000


def three(**config: Any) -> tuple[Inside, Partition, int]:
    """A topic on three brokers with one record, which every replica has, and its leader."""
    world = Inside(brokers=3, config={"log.retention.ms": -1, **config})
    world.topic(replicas=3)
    partition = world.topic_named().partitions[0]
    leader = partition.leader
    assert world.produce(batch(b"known"), node=leader).error_code == ErrorCode.NONE
    world.pass_time(500)
    return world, partition, leader


def cut_off(world: Inside, node: int, *, one_way: bool = False) -> None:
    world.cluster.broker_links.sever(*((CONTROLLER, node) if one_way else (node, CONTROLLER)), one_way=one_way)


def mend(world: Inside, node: int) -> None:
    world.cluster.broker_links.mend(CONTROLLER, node)
    world.cluster.tick()


def told(world: Inside, node: int, topic: str = "t") -> tuple[int, int, list[int], list[int]]:
    """What a broker's Metadata says: leader, epoch and ISR of the topic's first partition, and the brokers."""
    response = world.ask(metadata_request(topic), 12, node=node)
    partition = response.topics[0].partitions[0]
    return partition.leader_id, partition.leader_epoch, partition.isr_nodes, sorted(each.node_id for each in response.brokers)


def produce(world: Inside, node: int, value: bytes, *, acks: int) -> Pending:
    pending = Pending(only, tick=world.cluster.tick)
    request = replace(produce_request("t", batch(value), acks=acks), timeout_ms=PRODUCE_MS)
    world.send(request, 9, node=node, replies=pending.replies)
    return pending


def read_values(records: bytes | memoryview) -> list[bytes | None]:
    return [record.value for _, blob in iter_batches(bytes(records)) for record in read_records(blob)]


def test_a_leader_that_is_cut_off_serves_until_it_hears_of_another_one() -> None:
    """acks=1 is acknowledged, and lost when the broker follows the new leader; acks=all times out. Consumers of the old leader see what was
    below its high watermark, and no more."""
    world, partition, old = three()
    others = [node for node in partition.replicas if node != old]
    cut_off(world, old)
    assert produce(world, old, b"replicated", acks=-1).answer.error_code == ErrorCode.NONE, "its followers still fetch from it"
    world.pass_time(SESSION_MS)
    assert partition.leader in others
    assert partition.isr == others
    assert told(world, old) == (old, 0, [1, 2, 3], [1, 2, 3])
    assert told(world, partition.leader) == (partition.leader, 1, others, others)
    assert produce(world, old, b"lost", acks=1).answer.error_code == ErrorCode.NONE
    waits = produce(world, old, b"lost too", acks=-1)
    new = produce(world, partition.leader, b"new", acks=-1)
    assert new.answer.error_code == ErrorCode.NONE
    world.pass_time(PRODUCE_MS)
    assert waits.answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    stale = only(world.ask(fetch_request("t"), 12, node=old))
    assert (stale.high_watermark, read_values(stale.records)) == (2, [b"known", b"replicated"])
    mend(world, old)
    world.pass_time(500)
    assert sorted(partition.isr) == [1, 2, 3]
    assert {log.log_end_offset for log in partition.logs.values()} == {3}
    assert read_values(only(world.ask(fetch_request("t"), 12)).records) == [b"known", b"replicated", b"new"]
    assert produce(world, old, b"x", acks=1).answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_is_fenced_after_its_session() -> None:
    """Its partitions get other leaders in the millisecond in which the session ends, not before."""
    world, partition, old = three()
    cut_off(world, old)
    world.pass_time(SESSION_MS - 1)
    assert (partition.leader, world.cluster.live) == (old, [1, 2, 3])
    world.pass_time(1)
    assert partition.leader != old
    assert old not in world.cluster.live


def test_a_short_cut_changes_nothing() -> None:
    """It is mended before the session ends."""
    world, partition, old = three()
    for _ in range(3):
        cut_off(world, old)
        world.pass_time(SESSION_MS - 1)
        mend(world, old)
    world.pass_time(SESSION_MS)
    assert (partition.leader, partition.leader_epoch, sorted(partition.isr)) == (old, 0, [1, 2, 3])


def test_a_leader_that_is_cut_off_cannot_shrink_the_isr() -> None:
    """A follower stops fetching. acks=all waits, though replica.lag.time.max.ms passes, because the controller hears nothing of it."""
    world, partition, old = three(**{"broker.session.timeout.ms": 1_000_000})
    follower = next(node for node in partition.replicas if node != old)
    cut_off(world, old)
    world.cluster.broker_links.sever(old, follower)
    waits = produce(world, old, b"x", acks=-1)
    world.pass_time(PRODUCE_MS)
    world.pass_time(PRODUCE_MS)
    assert waits.answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert sorted(partition.isr) == [1, 2, 3]
    mend(world, old)
    world.pass_time(PRODUCE_MS)
    assert follower not in partition.isr
    assert partition.log.high_watermark == 2


def test_a_follower_that_is_cut_off_cannot_join_the_isr() -> None:
    """It is fenced, and goes on fetching from the leader that it knows. It joins when its link is mended."""
    world, partition, leader = three()
    follower = next(node for node in partition.replicas if node != leader)
    cut_off(world, follower)
    world.pass_time(SESSION_MS)
    assert produce(world, leader, b"x", acks=-1).answer.error_code == ErrorCode.NONE
    world.pass_time(1_000)
    assert partition.logs[follower].log_end_offset == 2
    assert follower not in partition.isr
    mend(world, follower)
    world.pass_time(500)
    assert sorted(partition.isr) == [1, 2, 3]


def test_a_leader_that_hears_nothing_and_is_heard_is_not_fenced() -> None:
    """Its heartbeats arrive. It does not hear that another broker leads now, and its Metadata is old."""
    world, partition, old = three()
    cut_off(world, old, one_way=True)
    world.pass_time(10 * SESSION_MS)
    assert partition.leader == old
    new = world.cluster.move_leader(partition)
    world.cluster.tick()
    assert told(world, old)[:2] == (old, 0)
    assert produce(world, old, b"lost", acks=1).answer.error_code == ErrorCode.NONE
    assert produce(world, new, b"new", acks=1).answer.error_code == ErrorCode.NONE
    world.pass_time(PRODUCE_MS + 1)
    assert old not in partition.isr, "it does not follow the new leader"
    mend(world, old)
    world.pass_time(500)
    assert told(world, old) == (new, 1, partition.isr, [1, 2, 3])
    assert read_values(only(world.ask(fetch_request("t"), 12)).records) == [b"known", b"new"]
    assert {log.log_end_offset for log in partition.logs.values()} == {2}


def test_topics_come_and_go_while_a_broker_hears_nothing() -> None:
    """It serves a topic that was deleted, and does not know one that was created, also under the same name. Then it does."""
    world, partition, node = three()
    cut_off(world, node, one_way=True)
    old_id = partition.topic_id
    world.cluster.delete_topic(world.topic_named())
    new_id = world.topic(replicas=3)
    assert new_id != old_id
    world.cluster.tick()
    assert world.ask(metadata_request("t"), 12, node=node).topics[0].topic_id == old_id
    assert produce(world, node, b"gone", acks=1).answer.error_code == ErrorCode.NONE
    mend(world, node)
    world.pass_time(1_000)
    assert world.ask(metadata_request("t"), 12, node=node).topics[0].topic_id == new_id
    created = world.topic_named().partitions[0]
    assert produce(world, created.leader, b"new", acks=-1).answer.error_code == ErrorCode.NONE
    world.pass_time(1_000)
    assert {log.log_end_offset for log in created.logs.values()} == {1}
    assert created.logs[node] is world.cluster.brokers[node].logs.logs["t", 0]


@pytest.mark.parametrize("mended", [True, False])
def test_what_the_controller_decides_waits_for_the_link(mended: bool) -> None:
    """A broker forwards CreateTopics for 60 seconds. The same is true of a topic that a client asks for in Metadata."""
    world, _, node = three()
    cut_off(world, node)
    pending = create(world, node, num_partitions=1, replication_factor=1)
    assert world.ask(metadata_request("v"), 12, node=node).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.pass_time(FORWARDING_MS - 1)
    assert pending.waits
    if mended:
        mend(world, node)
    world.pass_time(1)
    assert pending.answer == (ErrorCode.NONE if mended else ErrorCode.REQUEST_TIMED_OUT)
    assert (world.cluster.topics.named("u") is not None) == mended
    assert (world.cluster.topics.named("v") is not None) == mended


def create(world: Inside, node: int, **how: Any) -> Pending:
    pending = Pending(lambda response: response.topics[0].error_code, tick=world.cluster.tick)
    request = CreateTopicsRequest(topics=[CreatableTopic(name="u", **how)], timeout_ms=1_000)
    world.send(request, 5, node=node, replies=pending.replies)
    return pending


def test_what_a_stopped_broker_had_to_forward_is_lost() -> None:
    """The client gets no answer, and the topic does not come to be."""
    world, _, node = three()
    cut_off(world, node)
    pending = create(world, node, num_partitions=1, replication_factor=1)
    world.cluster.stop_broker(node)
    world.cluster.broker_links.mend(CONTROLLER, node)
    world.cluster.start_broker(node)
    world.pass_time(FORWARDING_MS)
    assert pending.waits
    assert world.cluster.topics.named("u") is None


def test_a_broker_that_only_hears_nothing_forwards_requests() -> None:
    """The controller answers it. The broker does not know the new topics yet."""
    world, _, node = three()
    cut_off(world, node, one_way=True)
    assert create(world, node, num_partitions=1, replication_factor=1).answer == ErrorCode.NONE
    for name in ("u", "v"):
        assert world.ask(metadata_request(name), 12, node=node).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert world.cluster.topics.named(name) is not None


def test_the_first_coordinator_waits_for_the_link() -> None:
    """FindCoordinator asks for the topic of coordinators, which does not exist yet."""
    world, _, node = three()
    cut_off(world, node)
    find = wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    assert world.ask(find, 4, node=node).coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.cluster.topics.named("__consumer_offsets") is None
    mend(world, node)
    assert world.ask(find, 4, node=node).coordinators[0].error_code == ErrorCode.NONE


def test_a_fenced_broker_is_described_as_fenced() -> None:
    """The others describe it so, where they are asked for fenced brokers. The broker itself does not know."""
    world, partition, node = three()
    cut_off(world, node)
    world.pass_time(SESSION_MS)

    def fenced(at: int, *, included: bool) -> dict[int, bool]:
        answer = world.ask(DescribeClusterRequest(include_fenced_brokers=included), 2, node=at)
        return {each.broker_id: each.is_fenced for each in answer.brokers}

    assert fenced(partition.leader, included=True) == {each: each == node for each in (1, 2, 3)}
    assert fenced(partition.leader, included=False) == {each: False for each in (1, 2, 3) if each != node}
    assert fenced(node, included=True) == dict.fromkeys((1, 2, 3), False), "it does not know"


def test_a_fenced_broker_cannot_be_the_only_replica() -> None:
    """CreateTopics refuses such an assignment."""
    world, partition, node = three()
    cut_off(world, node)
    world.pass_time(SESSION_MS)
    alone = [CreatableReplicaAssignment(broker_ids=[node])]
    pending = create(world, partition.leader, num_partitions=-1, replication_factor=-1, assignments=alone)
    assert pending.answer == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("transactional_id", [None, "txn"])
def test_producer_ids_of_a_broker_that_is_cut_off(transactional_id: str | None) -> None:
    """It gives out those that it has, and gets no others."""
    world, _, _ = three()
    find = wire.FindCoordinatorRequest(key_type=1, coordinator_keys=["txn"])
    node = world.ask(find, 4).coordinators[0].node_id
    init = wire.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1_000)
    cut_off(world, node)
    assert world.ask(init, 4, node=node).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    mend(world, node)
    assert world.ask(init, 4, node=node).error_code == ErrorCode.NONE
    cut_off(world, node)
    idempotent = wire.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    codes = [world.ask(idempotent, 4, node=node).error_code for _ in range(BLOCK)]
    assert codes == [ErrorCode.NONE] * (BLOCK - 1) + [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_records_that_an_old_leader_deletes() -> None:
    """Its followers do not learn of it. The response has the smallest log start that it knows."""
    world, _, old = three()
    cut_off(world, old)
    world.pass_time(SESSION_MS)
    pending = Pending(lambda response: response.topics[0].partitions[0], tick=world.cluster.tick)
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=1_000)
    world.send(request, 2, node=old, replies=pending.replies)
    world.pass_time(1_000)
    assert (pending.answer.error_code, pending.answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)


@pytest.mark.parametrize(("hears", "code"), [(True, ErrorCode.NONE), (False, ErrorCode.REQUEST_TIMED_OUT)])
def test_a_leader_waits_for_the_followers_that_it_knows_as_live(hears: bool, code: ErrorCode) -> None:
    """DeleteRecords needs no follower that is down. A leader that has not heard of the stop waits until the request times out."""
    world, _, leader = three()
    if not hears:
        cut_off(world, leader, one_way=True)
    world.cluster.stop_broker(leader % 3 + 1)
    pending = Pending(lambda response: response.topics[0].partitions[0], tick=world.cluster.tick)
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=5_000)
    world.send(request, 2, node=leader, replies=pending.replies)
    for _ in range(10):
        world.pass_time(500)
    assert pending.answer.error_code == code


def test_a_broker_starts_only_when_it_reaches_the_controller() -> None:
    """The error says how to mend the link. Afterwards the broker comes back into the ISR."""
    world, partition, node = three()
    cut_off(world, node)
    world.cluster.stop_broker(node)
    assert partition.leader != node
    with pytest.raises(
        ValueError, match=rf"broker {node} cannot start, because its link to the controller is severed: mend\({node}, 'controller'\)"
    ):
        world.cluster.start_broker(node)
    world.cluster.broker_links.mend(CONTROLLER, node)
    world.cluster.start_broker(node)
    world.pass_time(1_000)
    assert sorted(partition.isr) == [1, 2, 3]


def test_a_broker_that_heard_nothing_stops() -> None:
    """While it heard nothing, a topic with a replica on it was deleted, and another one was created. It starts with the right logs."""
    world, _, node = three()
    cut_off(world, node, one_way=True)
    world.cluster.delete_topic(world.topic_named())
    world.topic("u", replicas=3)
    world.cluster.stop_broker(node)
    world.cluster.broker_links.mend(CONTROLLER, node)
    world.cluster.start_broker(node)
    world.pass_time(1_000)
    assert world.cluster.brokers[node].logs.logs.keys() == {("u", 0)}
    assert sorted(world.topic_named("u").partitions[0].isr) == [1, 2, 3]


def test_a_coordinator_that_is_cut_off() -> None:
    """It goes on, because no other broker can tell it not to: it answers what it has in memory. A commit is not written, and times out. The
    next coordinator has only what was replicated."""
    world, _, _ = three()
    find = wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    old = world.ask(find, 4).coordinators[0].node_id
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)])],
    )
    assert only(world.ask(commit, 8, node=old)).error_code == ErrorCode.NONE
    world.pass_time(500)
    cut_off(world, old)
    world.pass_time(SESSION_MS)
    other = next(node for node in (1, 2, 3) if node != old)
    new = world.ask(find, 4, node=other).coordinators[0].node_id
    assert new != old
    assert world.ask(find, 4, node=old).coordinators[0].node_id == old
    pending = Pending(only, tick=world.cluster.tick)
    world.send(commit, 8, node=old, replies=pending.replies)
    world.pass_time(5_000)
    assert pending.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert only(world.ask(commit, 8, node=new)).error_code == ErrorCode.NONE
    mend(world, old)
    world.pass_time(1_000)
    assert only(world.ask(commit, 8, node=old)).error_code == ErrorCode.NOT_COORDINATOR
