"""Followers that fetch from their leader: what they know when, what holds them back, and what that does to the ISR."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.replica import Replica
from fencepost.producer.wire import Api, ErrorCode
from tests.broker_stub.stub_calls import Inside, Pending, batch, fetch_request, numbered, only, produce_request

LAG_MS = 30_000
WAIT_MS = 500


def world_of(brokers: int = 2, **config: Any) -> tuple[Inside, Partition, int]:
    """A topic on every broker, and its first follower."""
    world = Inside(brokers=brokers)
    world.topic(replicas=brokers, **config)
    world.cluster.tick()
    partition = world.topic_named().partitions[0]
    return world, partition, next(node for node in partition.replicas if node != partition.leader)


def ends(partition: Partition) -> list[tuple[int, int]]:
    """(log end offset, high watermark) of each replica."""
    return [(log.log_end_offset, log.high_watermark) for log in partition.logs.values()]


def on_fetches(world: Inside, follower: int) -> Any:
    """A rule about the fetches of that follower."""
    return world.cluster.faults.on(Api.FETCH).where(client_id=f"broker-{follower}-fetcher-0")


def test_the_high_watermark_is_one_round_behind() -> None:
    """A follower that waits at the end learns it within replica.fetch.wait.max.ms, or with the next records."""
    world, partition, _ = world_of()
    for sequence in range(2):
        assert world.produce(numbered(7, sequence)).error_code == 0
    assert ends(partition) == [(2, 2), (2, 1)]
    world.pass_time(WAIT_MS)
    assert ends(partition) == [(2, 2), (2, 2)]


def test_a_consumer_waits_at_a_follower() -> None:
    """It gets a record when the follower has learned that this is replicated."""
    world, _, follower = world_of()
    pending = Pending(only, tick=world.cluster.tick)
    world.send(fetch_request("t", wait_ms=60_000), 12, node=follower, replies=pending.replies)
    assert world.produce(batch(b"x")).error_code == 0
    assert pending.waits
    world.pass_time(WAIT_MS)
    assert (pending.answer.error_code, pending.answer.high_watermark, bool(pending.answer.records)) == (0, 1, True)


def test_a_truncation_to_the_high_watermark_fails() -> None:
    """Without leader epochs a new follower truncates at once. On a disk that fails its broker halts, and the cluster goes on."""
    world = Inside(brokers=2, leader_epochs=False)
    world.topic(replicas=2)
    world.cluster.tick()
    leader = world.leader()
    world.cluster.broker_links.sever(leader, 3 - leader)
    assert world.produce(batch(b"x"), acks=1).error_code == 0
    partition = world.topic_named().partitions[0]
    world.cluster.brokers[leader].logs.dirs[0].disk.fault = "full"
    world.cluster.move_leader(partition, to=3 - leader)
    world.cluster.tick()
    assert (partition.leader, world.cluster.brokers[leader].alive) == (3 - leader, False)


def test_an_idle_cluster_has_no_deadline() -> None:
    """Followers wait for records without a timer."""
    world, partition, _ = world_of(brokers=3)
    assert world.cluster.next_deadline() is None
    assert world.produce(batch(b"x")).error_code == 0
    world.pass_time(WAIT_MS)
    assert world.cluster.next_deadline() is None
    world.pass_time(10 * LAG_MS)
    assert sorted(partition.isr) == [1, 2, 3]
    assert world.produce(batch(b"y"), acks=1).error_code == 0
    world.cluster.watch_lag()
    world.pass_time(LAG_MS + 1)
    assert sorted(partition.isr) == [1, 2, 3]


def test_fetches_are_not_in_the_journal_and_rules_about_clients_do_not_meet_them() -> None:
    """Both are for what clients do. A follower's fetch is the cluster's own."""
    world, partition, _ = world_of()
    fault = world.cluster.faults.on(Api.FETCH).drop()
    assert world.produce(batch(b"x")).error_code == 0
    assert ends(partition)[1][0] == 1
    assert fault.hits == 0
    assert {exchange.api for exchange in world.services.journal.requests()} == {Api.PRODUCE}


@pytest.mark.parametrize("point", ["before", "after_append", "reply"])
def test_a_slow_follower_leaves_the_isr_and_comes_back(point: str) -> None:
    """Its fetches are held for longer than replica.lag.time.max.ms: acks=all waits for that long, and no longer."""
    world, partition, follower = world_of()
    held = getattr(on_fetches(world, follower), point)().hold()
    assert world.produce(batch(b"x"), acks=1).error_code == 0
    assert world.produce(batch(b"y"), acks=1).error_code == 0
    world.pass_time(LAG_MS // 2)
    assert (follower in partition.isr, partition.log.high_watermark < 2) == (True, True)
    world.pass_time(LAG_MS + 1)
    assert (partition.isr, partition.log.high_watermark) == ([partition.leader], 2)
    held.release()
    held.remove()
    world.pass_time(0)
    assert follower in partition.isr
    assert [end for end, _ in ends(partition)] == [2, 2]


@pytest.mark.parametrize(("kind", "after_ms"), [("disconnect", 0), ("drop", 30_000)])
def test_a_fetch_that_is_lost_is_sent_again(kind: str, after_ms: int) -> None:
    """After replica.fetch.backoff.ms; without an answer after the socket's timeout."""
    world, partition, follower = world_of()
    getattr(on_fetches(world, follower).times(1), kind)()
    assert world.produce(batch(b"x"), acks=1).error_code == 0
    world.cluster.tick()
    assert world.produce(batch(b"y"), acks=1).error_code == 0
    world.pass_time(after_ms)
    world.pass_time(999)
    assert ends(partition)[1][0] < 2
    world.pass_time(1)
    assert ends(partition)[1][0] == 2


def test_a_request_that_always_fails_is_repeated_once_a_second() -> None:
    """It does not keep the cluster busy."""
    world, partition, follower = world_of()
    for broker in world.cluster.brokers.values():
        broker.sessions._limit = 0  # followers have theirs
    fault = on_fetches(world, follower).reply().forever().error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    for _ in range(3):
        assert world.produce(batch(b"x"), acks=1).error_code == 0
        world.pass_time(1_000)
    assert 3 <= fault.hits <= 5
    fault.remove()
    world.pass_time(1_000)
    assert ends(partition)[1][0] == 3


def test_a_slow_link_delays_replication_and_markers() -> None:
    """acks=all waits for the leader's response, the next fetch, and no longer. A link that is slower than replica.lag.time.max.ms costs the
    follower its place in the ISR."""
    world, partition, follower = world_of()
    world.cluster.broker_links.slow_down(partition.leader, follower, 100)
    world.send(produce_request("t", batch(b"x")), 12)
    world.cluster.tick()  # the fetch that waited was sent before
    assert ends(partition)[1][0] == 1
    world.pass_time(99)
    assert world.replies == []
    world.pass_time(1)
    assert [only(reply.response).error_code for reply in world.replies] == [0]
    world.cluster.broker_links.slow_down(partition.leader, follower, 2 * LAG_MS)
    for _ in range(3):
        assert world.produce(batch(b"y"), acks=1).error_code == 0
        world.pass_time(LAG_MS // 2)
    world.pass_time(LAG_MS + 1)
    assert partition.isr == [partition.leader]
    world.cluster.broker_links.slow_down(partition.leader, follower, 0)
    for _ in range(4):
        world.pass_time(2 * LAG_MS)
    assert follower in partition.isr


def test_a_follower_joins_the_isr_of_a_leader_that_never_rests() -> None:
    """Records come faster than a fetch goes to and fro. The high watermark waits for the follower, which then has reached it."""
    world, partition, follower = world_of()
    leader = partition.leader
    world.cluster.broker_links.sever(leader, follower)
    assert world.produce(batch(b"x"), acks=1).error_code == 0
    for _ in range(3):
        world.pass_time(LAG_MS // 2 + 1)
    assert partition.isr == [leader]
    world.cluster.broker_links.slow_down(leader, follower, 100)
    world.cluster.broker_links.mend(leader, follower)
    for number in range(40):
        world.send(produce_request("t", batch(b"%d" % number), acks=-1), 12)
        world.pass_time(50)
    assert sorted(partition.isr) == sorted((leader, follower))
    for _ in range(20):
        world.pass_time(50)
    assert {only(reply.response).error_code for reply in world.replies} == {0}
    assert ends(partition) == [(41, 41)] * 2


def test_a_follower_that_was_about_to_join_is_not_waited_for_in_vain() -> None:
    """It is cut off again, or its broker stops: after replica.lag.time.max.ms, or at once, the high watermark goes on without it."""
    for stops in (False, True):
        world, partition, follower = world_of()
        leader = partition.leader
        world.cluster.broker_links.sever(leader, follower)
        assert world.produce(batch(b"x"), acks=1).error_code == 0
        for _ in range(3):
            world.pass_time(LAG_MS // 2 + 1)
        world.cluster.broker_links.slow_down(leader, follower, 100)
        world.cluster.broker_links.mend(leader, follower)
        for number in range(7):
            world.send(produce_request("t", batch(b"%d" % number), acks=1), 12)
            world.pass_time(50)
        assert partition.isr == [leader]
        assert partition.log.high_watermark < partition.log.log_end_offset
        if stops:
            world.cluster.stop_broker(follower)
        else:
            world.cluster.broker_links.sever(leader, follower)
            for _ in range(3):
                world.pass_time(LAG_MS // 2 + 1)
        assert partition.log.high_watermark == partition.log.log_end_offset


@pytest.mark.parametrize("how", ["slow", "delayed"])
def test_a_fetch_that_comes_late_tells_the_leader_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower has connected again meanwhile, and has fetched more. The leader keeps to that: nothing would tell it the truth again."""
    world, partition, follower = world_of()
    leader, told, fetched = partition.leader, list[int](), Replica.fetched

    def tell(self: Replica, node: int, offset: int, log_start_offset: int) -> None:
        told.append(offset)
        fetched(self, node, offset, log_start_offset)

    monkeypatch.setattr(Replica, "fetched", tell)
    if how == "slow":
        world.cluster.broker_links.slow_down(leader, follower, 700)
    else:
        on_fetches(world, follower).before().times(1).delay(700)
    world.produce(batch(b"x"), acks=1)
    world.cluster.tick()  # the next fetch, from offset 1, is on its way
    world.cluster.broker_links.slow_down(leader, follower, 0)
    world.cluster.broker_links.sever(leader, follower)
    world.cluster.broker_links.mend(leader, follower)
    assert world.produce(batch(b"y")).error_code == 0
    assert told == [1, 2]
    world.pass_time(700)
    assert world.produce(batch(b"z")).error_code == 0
    assert told == sorted(told)


def test_a_copy_takes_time_over_a_slow_link() -> None:
    """A new replica catches up step by step, by replica.fetch.max.bytes in each round."""
    world = Inside(brokers=2, config={"replica.fetch.max.bytes": 300})
    world.cluster.create_assigned("t", [(1, 2)])
    world.cluster.stop_broker(2)
    for _ in range(20):
        world.produce(batch(b"x" * 200))
    world.cluster.broker_links.slow_down(1, 2, 50)
    world.cluster.start_broker(2)
    ends_seen = []
    for _ in range(25):
        for _ in range(2):
            world.pass_time(50)
        ends_seen.append(world.topic_named().partitions[0].logs[2].log_end_offset)
    assert ends_seen[:3] == [1, 2, 3]
    assert ends_seen[-1] == 20


def test_an_error_holds_back_one_partition() -> None:
    """Others that the same broker fetches from the same leader go on. It is tried again after a second."""
    world = Inside(brokers=2)
    for name in ("t", "other"):
        world.cluster.create_assigned(name, [(1, 2)])
    about = world.cluster.faults.on(Api.FETCH).where(client_id="broker-2-fetcher-0", topic="t")
    fault = about.times(1).error(ErrorCode.UNKNOWN_SERVER_ERROR)
    for name in ("t", "other"):
        assert world.produce(batch(b"x"), topic=name, acks=1).error_code == 0
    world.cluster.tick()
    assert fault.hits == 1
    behind, other = (world.topic_named(name).partitions[0].logs[2].log_end_offset for name in ("t", "other"))
    assert (behind, other) == (0, 1)
    world.pass_time(1_000)
    assert world.topic_named("t").partitions[0].logs[2].log_end_offset == 1


def test_an_answer_of_an_earlier_leader_epoch_is_dropped() -> None:
    """It was on its way when another broker became leader, and would bring what the new leader lacks."""
    world, partition, follower = world_of()
    old = partition.leader
    held = on_fetches(world, follower).reply().hold()
    assert world.produce(batch(b"lost"), acks=1).error_code == 0
    world.cluster.tick()
    world.cluster.move_leader(partition, to=follower)
    held.release()
    world.cluster.tick()
    assert partition.log.log_end_offset == 0
    assert world.produce(batch(b"kept"), acks=-1).base_offset == 0
    assert ends(partition) == [(1, 0), (1, 1)] if partition.replicas[0] == old else [(1, 1), (1, 0)]


def test_an_epoch_in_which_a_leader_wrote_nothing_is_forgotten() -> None:
    """It was begun at the end of a log that now follows, and its leader never wrote it to another one."""
    world, partition, follower = world_of()
    assert world.produce(batch(b"x")).error_code == 0
    first = partition.leader
    world.cluster.move_leader(partition, to=follower)
    world.cluster.move_leader(partition, to=first)
    world.cluster.tick()
    assert world.produce(batch(b"y")).error_code == 0
    assert partition.logs[follower].epochs == [(0, 0), (2, 1)]
