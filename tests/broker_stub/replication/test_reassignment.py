"""Reassignments: when the old replicas leave, which replica leads then, what a cancellation does, and what lasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.topics import STATE_TOPIC
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.transactions.states import State
from fencepost.producer import Producer, wire
from fencepost.producer.wire import ErrorCode, error_name
from fencepost.producer.wire.messages import replicas
from fencepost.producer.wire.records import encode_batch
from tests.broker_stub.stub_calls import Inside, batch, metadata_request, only, produce_request
from tests.broker_stub.transactions.txn_calls import Transactions
from tests.producer.stub_helpers import QUICK


def world_of(brokers: int, factor: int, **config: Any) -> tuple[Inside, Partition]:
    """A topic with a record, unless it is compacted: those have keys."""
    world = Inside(brokers=brokers)
    world.topic(replicas=factor, **config)
    if config.get("cleanup_policy") != "compact":
        assert world.produce(batch(b"x")).error_code == 0
    partition = world.cluster.find("t", 0)
    assert partition is not None
    return world, partition


def reassign(world: Inside, *target: int, cancel: bool = False, factor_may_change: bool = True) -> str:
    """What the request for the topic's first partition is answered."""
    wanted = replicas.ReassignablePartition(partition_index=0, replicas=None if cancel else list(target))
    request = replicas.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=factor_may_change, topics=[replicas.ReassignableTopic(name="t", partitions=[wanted])]
    )
    world.cluster.tick()
    code = world.ask(request, 1, node=world.cluster.live[0]).responses[0].partitions[0].error_code
    world.cluster.tick()
    return error_name(code)


def ongoing(world: Inside) -> list[tuple[list[int], list[int], list[int]]]:
    """All replicas, those that are being added, and those that are being removed."""
    answer = world.ask(replicas.ListPartitionReassignmentsRequest(topics=None), 0, node=world.cluster.live[0])
    return [(each.replicas, each.adding_replicas, each.removing_replicas) for topic in answer.topics for each in topic.partitions]


def with_a_log(world: Inside) -> list[int]:
    return [node for node, broker in world.cluster.brokers.items() if ("t", 0) in broker.logs.logs]


def state(partition: Partition) -> tuple[tuple[int, ...], int, int, list[int]]:
    return partition.replicas, partition.leader, partition.leader_epoch, sorted(partition.isr)


def test_new_replicas_copy_the_log_and_the_old_ones_leave() -> None:
    """A removed leader is followed by the first new replica. Removed replicas have no log any more."""
    world, partition = world_of(4, 2)
    assert state(partition) == ((1, 2), 1, 0, [1, 2])
    assert reassign(world, 4, 3) == "NONE"
    assert state(partition) == ((4, 3), 4, 1, [3, 4])
    assert ongoing(world) == []
    assert with_a_log(world) == [3, 4]
    assert [log.log_end_offset for log in partition.logs.values()] == [1, 1]
    assert partition.log.high_watermark == 1
    assert world.produce(batch(b"y")).base_offset == 1
    assert world.produce(batch(b"y"), node=1).error_code == wire.ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("target", "epoch"), [((2, 1), 0), ((1, 2), 0), ((1, 2, 3), 0), ((3, 1, 2), 0), ((1,), 1), ((3, 1), 1)])
def test_the_leader_stays_if_it_can(target: tuple[int, ...], epoch: int) -> None:
    """Another order and more replicas change neither leader nor epoch. When a replica leaves, an epoch begins with the same leader."""
    world, partition = world_of(3, 2)
    assert reassign(world, *target) == "NONE"
    assert state(partition) == (target, 1, epoch, sorted(target))


def test_a_replica_that_is_down_keeps_it_in_progress() -> None:
    """All replicas are described until the new one is back and has caught up."""
    world, partition = world_of(3, 1)
    world.cluster.stop_broker(3)
    world.cluster.tick()
    assert reassign(world, 3) == "NONE"
    assert ongoing(world) == [([3, 1], [3], [1])]
    told = world.ask(metadata_request("t"), 12).topics[0].partitions[0]
    assert (told.replica_nodes, told.isr_nodes, told.offline_replicas) == ([3, 1], [1], [3])
    assert world.produce(batch(b"y")).error_code == 0
    world.cluster.start_broker(3)
    world.cluster.tick()
    assert ongoing(world) == []
    assert state(partition) == ((3,), 3, 1, [3])
    assert (with_a_log(world), partition.log.log_end_offset) == ([3], 2)


def test_a_replica_that_is_cut_off_keeps_it_in_progress() -> None:
    """It ends when the link is mended."""
    world, partition = world_of(3, 1)
    world.cluster.broker_links.sever(1, 3)
    assert reassign(world, 3, 2) == "NONE"
    assert ongoing(world) == [([3, 2, 1], [2, 3], [1])]
    assert sorted(partition.isr) == [1, 2]
    world.cluster.broker_links.mend(1, 3)
    world.cluster.tick()
    assert state(partition) == ((3, 2), 3, 1, [2, 3])


def test_fewer_replicas_wait_for_all_that_stay() -> None:
    """A partition whose number of replicas falls keeps the old ones until every other one is in sync."""
    world, partition = world_of(3, 3)
    world.cluster.stop_broker(2)
    world.cluster.tick()
    assert reassign(world, 1, 2) == "NONE"
    assert ongoing(world) == [([1, 2, 3], [], [3])]
    assert sorted(partition.isr) == [1, 3]
    world.cluster.start_broker(2)
    world.cluster.tick()
    assert state(partition) == ((1, 2), 1, 1, [1, 2])


def test_a_cancellation_removes_the_added_replicas() -> None:
    """Also one that is in sync already. Then there is nothing more to cancel."""
    world, partition = world_of(4, 1)
    world.cluster.stop_broker(4)
    world.cluster.tick()
    assert reassign(world, 3, 4) == "NONE"
    assert ongoing(world) == [([3, 4, 1], [3, 4], [1])]
    assert sorted(partition.isr) == [1, 3]
    assert reassign(world, cancel=True) == "NONE"
    assert state(partition) == ((1,), 1, 1, [1])
    assert (ongoing(world), with_a_log(world)) == ([], [1])
    assert reassign(world, cancel=True) == "NO_REASSIGNMENT_IN_PROGRESS"
    world.cluster.start_broker(4)
    world.cluster.tick()
    assert state(partition) == ((1,), 1, 1, [1])


@pytest.mark.parametrize("unclean", [False, True])
def test_a_cancellation_that_loses_records_needs_a_config(unclean: bool) -> None:
    """If only added replicas are in sync, it is refused, unless unclean elections are allowed."""
    world, partition = world_of(4, 1, unclean_leader_election_enable=str(unclean).lower(), min_insync_replicas="1")
    world.cluster.stop_broker(4)
    world.cluster.tick()
    assert reassign(world, 3, 4) == "NONE"
    world.cluster.stop_broker(1)
    world.cluster.tick()
    assert (partition.leader, partition.isr) == (3, [3])
    assert reassign(world, cancel=True) == ("NONE" if unclean else "INVALID_REPLICA_ASSIGNMENT")
    assert (len(ongoing(world)), partition.replicas) == ((0, (1,)) if unclean else (1, (3, 4, 1)))
    world.cluster.start_broker(1)
    world.cluster.tick()
    assert partition.leader == (1 if unclean else 3)


def test_another_reassignment_replaces_one_in_progress() -> None:
    """The replicas that only the first one added leave with the others."""
    world, partition = world_of(4, 1)
    world.cluster.stop_broker(4)
    world.cluster.tick()
    assert reassign(world, 4) == "NONE"
    assert reassign(world, 2) == "NONE"
    assert state(partition) == ((2,), 2, 1, [2])
    assert with_a_log(world) == [2]


def test_back_to_the_replicas_of_before() -> None:
    """As in Kafka, a new reassignment to the old replicas waits for the one that it removes. A cancellation ends it."""
    world, partition = world_of(4, 2)
    world.cluster.stop_broker(4)
    world.cluster.tick()
    assert reassign(world, 1, 4) == "NONE"
    assert ongoing(world) == [([1, 4, 2], [4], [2])]
    assert reassign(world, 1, 2) == "NONE"
    assert (ongoing(world), state(partition)) == ([([1, 2, 4], [4], [4])], ((1, 2, 4), 1, 0, [1, 2]))
    world.cluster.start_broker(4)
    world.cluster.tick()
    assert (len(ongoing(world)), partition.isr) == (1, [1, 2, 4])
    assert reassign(world, cancel=True) == "NONE"
    assert (ongoing(world), state(partition)) == ([], ((1, 2), 1, 1, [1, 2]))


@pytest.mark.parametrize(
    ("target", "error"),
    [((), "INVALID_REPLICA_ASSIGNMENT"), ((1, 1), "INVALID_REPLICA_ASSIGNMENT"), ((1, 9), "INVALID_REPLICA_ASSIGNMENT")],
)
def test_replicas_that_cannot_be(target: tuple[int, ...], error: str) -> None:
    """None at all, one twice, and one that is no broker."""
    world, partition = world_of(2, 1)
    assert reassign(world, *target) == error
    assert state(partition) == ((1,), 1, 0, [1])


def test_the_number_of_replicas_can_be_kept() -> None:
    """A request may say that it must not change. In progress it is the number that is aimed for."""
    world, _ = world_of(4, 1)
    assert reassign(world, 1, 2, factor_may_change=False) == "INVALID_REPLICATION_FACTOR"
    world.cluster.stop_broker(4)
    world.cluster.tick()
    assert reassign(world, 3, 4) == "NONE"
    assert reassign(world, 1, factor_may_change=False) == "INVALID_REPLICATION_FACTOR"
    assert reassign(world, 1, 2, factor_may_change=False) == "NONE"


def test_a_waiting_write_outlives_the_new_epoch() -> None:
    """acks=all waits for a cut-off replica while others leave, and is answered by the same leader in the next epoch."""
    world, partition = world_of(3, 3)
    world.cluster.broker_links.sever(1, 2)
    world.send(produce_request("t", batch(b"y")), 9)
    waiting = len(world.replies)
    assert reassign(world, 1, 2) == "NONE"
    assert (partition.leader_epoch, len(world.replies)) == (1, waiting + 1)
    world.cluster.broker_links.mend(1, 2)
    world.cluster.tick()
    world.cluster.tick()
    (reply,) = world.replies[waiting + 1 :]
    answer = only(reply.response)
    assert (answer.error_code, answer.base_offset) == (0, 1)


def test_a_log_with_gaps_is_copied() -> None:
    """A new replica has the offsets that compaction left, from the log's start to its end."""
    world, partition = world_of(2, 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="1000")
    for _ in range(4):
        world.pass_time(1001)
        assert world.produce(encode_batch([(world.cluster.now_ms(), b"k", b"v")])).error_code == 0
    assert world.cluster.clean_logs() > 0
    before = [(header.base_offset, bytes(data)) for header, data in partition.log.batches()]
    assert (len(before), partition.log.log_end_offset) == (2, 4)
    assert reassign(world, 2) == "NONE"
    assert [(header.base_offset, bytes(data)) for header, data in partition.log.batches()] == before
    assert partition.log.log_end_offset == 4


def test_a_copy_of_a_log_that_starts_in_the_middle_of_a_batch() -> None:
    """Records were deleted up to there. The new replica has the whole batch, and the same log start."""
    world, partition = world_of(2, 1)
    assert world.produce(batch(b"a", b"b", b"c")).base_offset == 1
    partition.leading.advance_log_start(3)
    assert reassign(world, 2) == "NONE"
    assert state(partition)[:2] == ((2,), 2)
    log = partition.log
    assert [(header.base_offset, header.last_offset) for header, _ in log.batches()] == [(1, 3)]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (3, 4, 4)


def test_a_reassignment_lasts_in_a_data_directory(tmp_path: Path) -> None:
    """It goes on after a restart of the cluster, and ends with the logs where they belong."""
    with BrokerStub(brokers=3, data_dir=tmp_path) as stub:
        stub.create_topic("t", replication_factor=1)
        with Producer(bootstrap_servers=stub.bootstrap, **QUICK) as producer:
            producer.send("t", b"x").result()
        stub.cluster.stop_broker(3)
        topic = stub.cluster.topics.named("t")
        assert topic is not None
        stub.cluster.reassign(topic, topic.partitions[0], [3])
        stub.cluster.stop_broker(2)
        assert topic.partitions[0].assignment == ((3, 1), (3,), (1,))
    with BrokerStub(brokers=3, data_dir=tmp_path) as stub:
        assert (stub.leader("t", 0), [record.value for record in stub.records("t", 0)]) == (3, [b"x"])
        assert stub.cluster.find("t", 0).assignment == ((3,), (), ())  # type: ignore[union-attr]
    assert sorted(each.parent.name for each in tmp_path.glob("broker-*/t-0")) == ["broker-3"]


def test_a_coordinators_partition_leaves_and_comes_back() -> None:
    """The broker gets another replica. It coordinates the transactional id with that one, and commits what the one before began."""
    world = Transactions(brokers=2, config={"transaction.state.log.replication.factor": 1})
    world.given()
    assert world.add().answer == ErrorCode.NONE
    partition, topic = world.state_partition, world.cluster.topics.named(STATE_TOPIC)
    assert topic is not None
    first = partition.leader
    for target in (3 - first, first):
        world.cluster.reassign(topic, partition, [target])
        world.pass_time(1_000)
        assert (partition.replicas, partition.leader) == ((target,), target)
        assert world.is_in(State.ONGOING)
        kept = world.services.transactions._shards
        assert [each.node for each in kept if each.partition is partition] == [target]  # nothing stays of the replica that has left
    assert world.end().answer[0] == ErrorCode.NONE
    world.pass_time(1_000)
    assert world.is_in(State.COMPLETE_COMMIT)
