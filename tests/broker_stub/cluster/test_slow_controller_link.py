"""A broker whose link to the controller is slow: it hears late what was decided, and what it asks is late, too."""

from __future__ import annotations

from typing import Any

from fencepost.producer.wire import ErrorCode
from tests.broker_stub.cluster.test_controller_link import CONTROLLER, PRODUCE_MS, SESSION_MS, create, produce, read_values, three, told
from tests.broker_stub.stub_calls import Inside, batch, fetch_request, metadata_request, only

MS = 1_000


def slow_down(world: Inside, node: int, ms: int = MS) -> None:
    world.cluster.broker_links.slow_down(CONTROLLER, node, ms)


def knows(world: Inside, node: int, topic: str = "u") -> bool:
    return not world.ask(metadata_request(topic), 12, node=node).topics[0].error_code


def test_a_leader_that_hears_late_of_another_one() -> None:
    """Until then it serves as the leader that it was. acks=1 is acknowledged and lost, acks=all is not acknowledged."""
    world, partition, old = three()
    slow_down(world, old)
    new = world.cluster.move_leader(partition)
    world.cluster.tick()
    assert told(world, old)[:2] == (old, 0)
    assert told(world, new)[:2] == (new, 1)
    assert produce(world, old, b"lost", acks=1).answer.error_code == ErrorCode.NONE
    waits = produce(world, old, b"lost, too", acks=-1)
    assert produce(world, new, b"new", acks=1).answer.error_code == ErrorCode.NONE
    world.pass_time(MS - 1)
    assert waits.waits
    assert told(world, old)[:2] == (old, 0)
    world.pass_time(1)
    assert told(world, old)[:2] == (new, 1)
    assert waits.answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.pass_time(PRODUCE_MS)
    assert sorted(partition.isr) == [1, 2, 3]
    assert {log.log_end_offset for log in partition.logs.values()} == {2}
    assert read_values(only(world.ask(fetch_request("t"), 12)).records) == [b"known", b"new"]


def test_it_hears_of_each_change_after_the_same_time() -> None:
    """Of two elections it hears one after the other."""
    world, partition, _ = three()
    slow_down(world, 3)
    for _ in range(2):
        world.cluster.move_leader(partition)
        world.pass_time(MS // 2)
    assert told(world, 3)[1] == 1
    world.pass_time(MS // 2)
    assert told(world, 3)[1] == 2


def test_topics_come_and_go_late() -> None:
    """A broker that does not know a topic yet has no log of it, and one that does not know of the end still serves it."""
    world, _, _ = three(**{"auto.create.topics.enable": "false"})
    slow_down(world, 2)
    world.topic("u", replicas=3)
    world.cluster.tick()
    assert [knows(world, node) for node in (1, 2, 3)] == [True, False, True]
    assert ("u", 0) not in world.cluster.brokers[2].logs.logs
    world.pass_time(MS)
    assert knows(world, 2)
    assert ("u", 0) in world.cluster.brokers[2].logs.logs
    world.cluster.delete_topic(world.topic_named("u"))
    world.cluster.tick()
    assert [knows(world, node) for node in (1, 2, 3)] == [False, True, False]
    world.pass_time(MS)
    assert not knows(world, 2)
    assert ("u", 0) not in world.cluster.brokers[2].logs.logs


def test_what_it_asks_takes_the_way_there_and_back() -> None:
    """CreateTopics: the topic is there after the way to the controller, the response after both."""
    world, _, _ = three()
    slow_down(world, 2)
    pending = create(world, 2, num_partitions=1, replication_factor=1)
    world.pass_time(MS - 1)
    assert world.cluster.topics.named("u") is None
    world.pass_time(1)
    assert world.cluster.topics.named("u") is not None
    assert pending.waits
    world.pass_time(MS)
    assert pending.answer == ErrorCode.NONE
    assert knows(world, 2)


def test_what_is_sent_before_the_link_is_severed_is_lost() -> None:
    """It is sent again when the link is mended, and takes its time again."""
    world, _, _ = three()
    slow_down(world, 2)
    pending = create(world, 2, num_partitions=1, replication_factor=1)
    world.pass_time(MS // 2)
    world.cluster.broker_links.sever(CONTROLLER, 2)
    world.pass_time(MS)
    assert world.cluster.topics.named("u") is None
    world.cluster.broker_links.mend(CONTROLLER, 2)
    world.pass_time(MS - 1)
    assert world.cluster.topics.named("u") is None
    world.pass_time(1)
    world.pass_time(MS)
    assert pending.answer == ErrorCode.NONE


def test_the_isr_changes_late() -> None:
    """A follower joins when the controller has the leader's request. The high watermark waits for it from the request on: it may lead as
    soon as the controller has agreed."""
    world, partition, leader = three()
    follower = next(node for node in partition.replicas if node != leader)
    world.cluster.stop_broker(follower)
    slow_down(world, leader)
    world.cluster.start_broker(follower)
    world.pass_time(MS)  # the leader hears that the broker is back
    world.pass_time(500)
    assert follower not in partition.isr
    world.cluster.broker_links.sever(leader, follower)
    waits = produce(world, leader, b"x", acks=-1)
    world.pass_time(MS)
    assert follower in partition.isr
    assert follower not in told(world, leader)[2]
    assert waits.waits
    world.pass_time(MS)
    assert follower in told(world, leader)[2]
    assert waits.waits


def test_a_replica_that_lost_its_power_does_not_join_by_an_older_request() -> None:
    """The leader asked for it before that. What it had then it may not have any more (KIP-903)."""
    world, partition, leader = three()
    follower = next(node for node in partition.replicas if node != leader)
    world.cluster.stop_broker(follower)
    slow_down(world, leader)
    world.cluster.start_broker(follower)
    world.pass_time(MS)
    world.pass_time(500)
    assert follower in partition.leading.asking
    world.cluster.stop_broker(follower, clean=False, lost_power=True)
    world.cluster.broker_links.sever(leader, follower)
    world.cluster.start_broker(follower)
    for _ in range(4):
        world.pass_time(MS)
    assert follower not in partition.isr
    world.cluster.broker_links.mend(leader, follower)
    for _ in range(4):
        world.pass_time(MS)
    assert follower in partition.isr


def test_it_is_not_fenced() -> None:
    """Its heartbeats are late, and as frequent as before."""
    world, partition, leader = three()
    slow_down(world, leader, 2 * SESSION_MS)
    for _ in range(10):
        world.pass_time(SESSION_MS)
    assert (partition.leader, world.cluster.live) == (leader, [1, 2, 3])
    assert world.cluster.next_deadline() is None


def test_the_link_is_fast_again() -> None:
    """It hears at once what it did not hear yet; what is still on its way changes nothing."""
    world, partition, old = three()
    slow_down(world, old)
    new = world.cluster.move_leader(partition)
    world.cluster.tick()
    slow_down(world, old, 0)
    assert told(world, old)[:2] == (new, 1)
    last = world.cluster.move_leader(partition)
    assert told(world, old)[:2] == (last, 2)
    world.pass_time(MS)
    assert told(world, old)[:2] == (last, 2)
    assert world.cluster.broker_links.slow == []


def test_an_image_from_an_earlier_time_of_slowness_is_dropped() -> None:
    """The broker knows more already."""
    world, partition, old = three()
    slow_down(world, old)
    world.cluster.move_leader(partition)
    world.cluster.tick()
    slow_down(world, old, 0)
    last = world.cluster.move_leader(partition)
    slow_down(world, old, 10 * MS)
    world.pass_time(MS)
    assert told(world, old)[:2] == (last, 2)


def test_a_broker_that_starts_knows_everything() -> None:
    """It registers and catches up first. After that it hears late again."""
    world, partition, _ = three()
    slow_down(world, 2)
    world.cluster.stop_broker(2)
    world.topic("u", replicas=3)
    world.cluster.start_broker(2)
    assert knows(world, 2)
    world.topic("v")
    world.cluster.tick()
    assert not knows(world, 2, "v")
    world.pass_time(MS)
    assert knows(world, 2, "v")
    world.pass_time(MS)
    assert sorted(partition.isr) == [1, 2, 3]


def test_the_death_of_a_broker_is_heard_late() -> None:
    """Its Metadata has the dead broker as a leader, and as a broker."""
    world, partition, leader = three()
    other = next(node for node in partition.replicas if node != leader)
    slow_down(world, other)
    world.cluster.stop_broker(leader, clean=False)
    world.cluster.tick()
    assert told(world, other)[0] == leader
    assert leader in told(world, other)[3]
    world.pass_time(MS)
    assert told(world, other)[0] == partition.leader
    assert leader not in told(world, other)[3]
    values: list[Any] = [produce(world, partition.leader, b"x", acks=-1)]
    world.pass_time(500)
    assert [each.answer.error_code for each in values] == [ErrorCode.NONE]


def test_a_batch_is_written_once_by_a_producer_that_meets_both_leaders() -> None:
    """The old leader's copy of a batch that was not acknowledged by all goes away."""
    world, partition, old = three()
    slow_down(world, old)
    new = world.cluster.move_leader(partition)
    world.cluster.tick()
    data = batch(b"once", pid=7, epoch=0, sequence=0)
    first = world.produce(data, node=old, acks=1)
    second = world.produce(data, node=new, acks=1)
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    for _ in range(3):
        world.pass_time(MS)
    assert read_values(only(world.ask(fetch_request("t"), 12)).records) == [b"known", b"once"]
    assert {log.log_end_offset for log in partition.logs.values()} == {2}
