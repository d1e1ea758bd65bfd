"""Followers that do not reach their leader, under a virtual clock: which requests wait, which replica may lead, and what is lost."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.release import NEWEST
from fencepost.broker_stub.log.checkpoint_text import RECOVERY_POINTS
from fencepost.broker_stub.replication.partition import Partition
from fencepost.producer import Producer, wire
from fencepost.producer.wire import ErrorCode, RequestHeader, error_name
from fencepost.producer.wire.messages import replicas
from fencepost.producer.wire.records import iter_batches
from tests.broker_stub.stub_calls import Inside, batch, fetch_request, numbered, only, produce_request
from tests.producer.stub_helpers import QUICK, values

LAG_MS = 30_000


def three(emulate: str = NEWEST, **config: Any) -> tuple[Inside, Partition]:
    """A topic on three brokers."""
    world = Inside(brokers=3, emulate=emulate)
    world.topic(replicas=3, **config)
    partition = world.cluster.find("t", 0)
    assert partition is not None
    return world, partition


def followers(partition: Partition) -> list[int]:
    return [node for node in partition.replicas if node != partition.leader]


def cut_off(world: Inside, partition: Partition, *nodes: int) -> None:
    """These followers no longer reach their leader."""
    for node in nodes:
        world.cluster.broker_links.sever(partition.leader, node)


def written(world: Inside) -> list[str]:
    """What the Produce requests that were answered by now have heard."""
    world.cluster.tick()
    answers = [only(reply.response) for reply in world.replies]
    return [f"{error_name(each.error_code)} @{each.base_offset}" for each in answers]


def test_acks_all_waits_for_every_in_sync_replica() -> None:
    """It is answered when the follower has caught up, no sooner, and then with the offset that it had all the time."""
    world, partition = three()
    follower = followers(partition)[0]
    cut_off(world, partition, follower)
    world.send(produce_request("t", batch(b"x")), 9)
    assert written(world) == []
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 0)
    world.cluster.broker_links.mend(partition.leader, follower)
    world.cluster.tick()
    assert written(world) == ["NONE @0"]
    assert partition.log.high_watermark == 1


def test_a_repeated_batch_waits_as_the_first_one_does() -> None:
    """A duplicate is acknowledged only when what it repeats is on every in-sync replica: it could still be lost."""
    world, partition = three()
    follower = followers(partition)[0]
    cut_off(world, partition, follower)
    for _ in range(2):
        world.send(produce_request("t", numbered(7, 0)), 9)
    assert written(world) == []
    world.cluster.broker_links.mend(partition.leader, follower)
    world.cluster.tick()
    assert written(world) == ["NONE @0", "NONE @0"]


def test_a_follower_is_given_up_after_a_while() -> None:
    """After replica.lag.time.max.ms it leaves the ISR, and what waited for it is answered; acks=1 never waited."""
    world, partition = three()
    follower = followers(partition)[0]
    cut_off(world, partition, follower)
    world.send(produce_request("t", batch(b"x")), 9)
    world.send(produce_request("t", batch(b"y"), acks=1), 9)
    assert written(world) == ["NONE @1"]
    world.replies.clear()
    world.pass_time(LAG_MS // 2)
    assert written(world) == ["REQUEST_TIMED_OUT @0"]
    assert follower in partition.isr
    world.pass_time(LAG_MS // 2 + 1)
    assert follower not in partition.isr
    assert partition.log.high_watermark == 2
    world.cluster.broker_links.mend(partition.leader, follower)
    world.cluster.tick()
    assert follower in partition.isr


def test_a_follower_stays_for_the_whole_time() -> None:
    """It leaves when more than replica.lag.time.max.ms has passed, not at that time."""
    world, partition = three()
    follower = followers(partition)[0]
    cut_off(world, partition, follower)
    world.produce(batch(b"x"), acks=1)
    world.clock.advance(LAG_MS)
    partition.shrink_isr(lag_max_ms=LAG_MS)
    assert follower in partition.isr
    world.clock.advance(1)
    partition.shrink_isr(lag_max_ms=LAG_MS)
    assert follower not in partition.isr


def test_a_leader_that_is_alone_soon_has_too_few() -> None:
    """With min.insync.replicas=2: first it waits in vain, then, when both followers have been given up, it refuses before it writes."""
    world, partition = three(min_insync_replicas="2")
    cut_off(world, partition, *followers(partition))
    world.send(produce_request("t", batch(b"x")), 9)
    world.pass_time(1_000)
    assert written(world) == ["REQUEST_TIMED_OUT @0"]
    world.pass_time(LAG_MS + 1)
    assert partition.isr == [partition.leader]
    assert partition.log.high_watermark == 0
    assert world.produce(batch(b"y")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_new_leader_has_only_the_records_that_it_received() -> None:
    """A follower is cut off while it is in sync, and leads after the leader's end. Records of the old leader alone are lost. Requests that
    waited for the follower were never acknowledged. The old leader truncates what no other replica has."""
    world, partition = three()
    old, ours = partition.leader, followers(partition)
    assert world.produce(batch(b"kept")).error_code == 0
    cut_off(world, partition, *ours)
    world.send(produce_request("t", numbered(7, 0)), 9)
    world.cluster.stop_broker(old, clean=False)
    world.cluster.tick()
    assert partition.leader in ours
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 1)
    assert partition.log.active_producers() == []
    world.cluster.start_broker(old)
    world.cluster.tick()
    assert partition.log.log_end_offset == 1
    assert world.produce(numbered(7, 0)).base_offset == 1


def test_a_leader_that_is_moved_away_from_its_lead() -> None:
    """All brokers run, and a follower that was cut off is made the leader. It lacks the end of the log, which is lost, even if a Produce
    with acks=1 was acknowledged. A Produce with acks=all is told the new leader."""
    world, partition = three()
    follower, other = followers(partition)
    cut_off(world, partition, follower)
    assert world.produce(batch(b"lost"), acks=1).error_code == 0
    world.send(produce_request("t", batch(b"waits")), 9)
    world.replies.clear()
    world.cluster.move_leader(partition, to=follower)
    world.cluster.tick()
    assert written(world) == ["NOT_LEADER_OR_FOLLOWER @1"]
    assert partition.log.log_end_offset == 0
    assert sorted(partition.isr) == [1, 2, 3]
    assert other in partition.isr


def test_a_truncation_is_in_the_checkpoint_at_once() -> None:
    """Else the next start after a loss of power would trust what is written after it."""
    world, partition = three()
    old, (follower, _) = partition.leader, followers(partition)
    (log_dir,) = world.cluster.brokers[old].logs.dirs
    cut_off(world, partition, follower)
    assert world.produce(batch(b"lost"), acks=1).error_code == 0
    partition.logs[old].flush()
    log_dir.checkpoint(RECOVERY_POINTS)
    assert b"t 0 1" in (log_dir.directory.read(RECOVERY_POINTS) or b"")
    world.cluster.move_leader(partition, to=follower)
    world.cluster.broker_links.mend(old, follower)
    world.cluster.tick()
    assert b"t 0 0" in (log_dir.directory.read(RECOVERY_POINTS) or b"")


def test_what_a_leader_that_was_replaced_has_alone_does_not_count() -> None:
    """It is still in the ISR, and its log is as long, but with other records. So nothing is acknowledged until it has left the ISR, or has
    caught up, which costs its own records."""
    world, partition = three()
    old, ours = partition.leader, followers(partition)
    cut_off(world, partition, *ours)
    for record in (b"alone", b"too"):
        assert world.produce(batch(record), acks=1).error_code == 0
    world.cluster.move_leader(partition, to=ours[0])
    world.cluster.tick()
    world.replies.clear()
    world.send(produce_request("t", batch(b"new")), 9)
    assert written(world) == []
    assert (partition.log.log_end_offset, partition.logs[old].log_end_offset, partition.log.high_watermark) == (1, 2, 0)
    for node in ours:
        world.cluster.broker_links.mend(old, node)
        world.cluster.tick()
    assert written(world) == ["NONE @0"]
    assert len({bytes(batch) for log in partition.logs.values() for _, batch in log.batches()}) == 1


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_an_unclean_leader_costs_what_was_acknowledged(unclean: str) -> None:
    """Only replicas that are in sync may lead; where unclean.leader.election.enable lets another one, what that one lacks is lost."""
    world, partition = three(unclean_leader_election_enable=unclean)
    old, (behind, gone) = partition.leader, followers(partition)
    world.cluster.stop_broker(gone)
    world.cluster.tick()
    cut_off(world, partition, behind)
    assert world.produce(batch(b"alone"), acks=1).error_code == 0
    world.pass_time(LAG_MS + 1)
    assert partition.isr == [old]
    assert world.produce(batch(b"acknowledged")).error_code == 0
    world.cluster.stop_broker(old)
    world.cluster.tick()
    if unclean == "false":
        assert partition.leader == -1
        world.cluster.start_broker(old)
        world.cluster.tick()
        assert (partition.leader, partition.log.log_end_offset) == (old, 2)
    else:
        assert (partition.leader, partition.log.log_end_offset) == (behind, 0)
        world.cluster.start_broker(old)
        world.cluster.tick()
        assert partition.log.log_end_offset == 0
        world.cluster.broker_links.mend(old, behind)
        world.cluster.tick()
        assert old in partition.isr


def leaderless(**config: str) -> tuple[Inside, Partition, int]:
    """A partition whose leader wrote one record alone and is down, and the follower that is back."""
    world, partition = three(**config)
    old, (back, gone) = partition.leader, followers(partition)
    world.cluster.stop_broker(gone)
    world.cluster.tick()
    assert world.produce(batch(b"both")).error_code == 0
    world.cluster.stop_broker(back)
    world.cluster.tick()
    assert world.produce(batch(b"one")).error_code == 0
    world.cluster.stop_broker(old)
    world.cluster.tick()
    world.cluster.start_broker(back)
    world.cluster.tick()
    assert (partition.leader, partition.isr, partition.eligible, partition.log.log_end_offset) == (-1, [], [old], 2)
    return world, partition, back


def elect(world: Inside, kind: int, *, node: int, topic: str = "t") -> str:
    asked = replicas.ElectLeadersRequest(election_type=kind, topic_partitions=[replicas.TopicPartitions(topic=topic, partitions=[0])])
    return error_name(world.ask(asked, 2, node=node).replica_election_results[0].partition_result[0].error_code)


def test_an_administrator_has_an_unclean_election() -> None:
    """For every config the replica that is up becomes leader, and the records that it lacks are lost. If no replica is up, there is no
    leader."""
    world, partition, back = leaderless()
    assert elect(world, 0, node=back) == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert elect(world, 1, node=back) == "NONE"
    assert (partition.leader, partition.isr, partition.log.log_end_offset) == (back, [back], 1)
    assert elect(world, 1, node=back) == "ELECTION_NOT_NEEDED"
    assert world.produce(batch(b"new")).base_offset == 1
    for node in partition.replicas:
        world.cluster.start_broker(node)
        world.cluster.tick()
    assert (partition.leader, sorted(partition.isr), partition.log.log_end_offset) == (back, [1, 2, 3], 2)
    world, partition, back = leaderless()
    (bystander,) = {1, 2, 3} - set(partition.eligible) - {back}
    world.cluster.create_assigned("u", [(back,)])
    world.cluster.stop_broker(back)
    world.cluster.tick()
    world.cluster.start_broker(bystander)
    world.cluster.tick()
    assert elect(world, 1, node=bystander, topic="u") == "ELIGIBLE_LEADERS_NOT_AVAILABLE"


@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_that_left_below_min_insync_replicas_may_lead(clean: bool) -> None:
    """It has every record that all replicas acknowledged. A killed replica may have lost records: it leads only if no other replica may,
    and if it was the last leader (KIP-966)."""
    world, partition = three(min_insync_replicas="2")
    old, (first, second) = partition.leader, followers(partition)
    world.cluster.stop_broker(first, clean=clean)
    world.cluster.tick()
    assert (sorted(partition.isr), partition.eligible) == (sorted([old, second]), [])
    assert world.produce(batch(b"without the first")).error_code == 0
    world.cluster.stop_broker(second, clean=clean)
    world.cluster.tick()
    assert world.produce(batch(b"the leader's alone"), acks=1).error_code == 0
    assert (partition.isr, partition.eligible) == ([old], [second])
    world.cluster.stop_broker(old, clean=clean)
    world.cluster.tick()
    assert (partition.leader, partition.isr, sorted(partition.eligible)) == (-1, [], sorted([old, second]))
    world.cluster.start_broker(first)
    world.cluster.tick()
    assert partition.leader == -1
    world.cluster.start_broker(second)
    world.cluster.tick()
    if clean:
        # The first one catches up at once, and then two are enough.
        assert (partition.leader, partition.log.log_end_offset, sorted(partition.isr)) == (second, 1, sorted([first, second]))
    else:
        assert (partition.leader, partition.eligible) == (-1, [old])
        world.cluster.start_broker(old)
        world.cluster.tick()
        assert (partition.leader, partition.log.log_end_offset, sorted(partition.isr)) == (old, 2, [1, 2, 3])
    assert partition.eligible == []


def test_older_releases_have_no_eligible_leader_replicas() -> None:
    """Before Kafka 4.1 the last in-sync replica stays in the ISR when it goes, and it alone may lead again."""
    world, partition = three(min_insync_replicas="2", emulate="3.9")
    old, (first, second) = partition.leader, followers(partition)
    for node in (first, second, old):
        world.cluster.stop_broker(node)
        world.cluster.tick()
    assert (partition.isr, partition.eligible) == ([old], [])
    world.cluster.start_broker(second)
    world.cluster.tick()
    assert partition.leader == -1
    world.cluster.start_broker(old)
    world.cluster.tick()
    assert (partition.leader, sorted(partition.isr)) == (old, sorted([old, second]))


def test_a_replica_gains_no_records_without_a_leader() -> None:
    """A replica gains no records while the partition has no leader, however often it restarts."""
    world, partition, back = leaderless()
    world.cluster.stop_broker(back)
    world.cluster.tick()
    world.cluster.start_broker(back)
    world.cluster.tick()
    assert elect(world, 1, node=back) == "NONE"
    assert partition.log.log_end_offset == 1


def test_a_leaderless_topic_that_allows_unclean_elections_later_gets_one() -> None:
    """Kafka's controller looks at intervals, here a second after the change; until then nothing happens."""
    world, partition, back = leaderless()
    world.cluster.configure(world.topic_named(), {"unclean.leader.election.enable": "true"})
    world.pass_time(999)
    assert partition.leader == -1
    world.pass_time(1)
    assert (partition.leader, partition.log.log_end_offset) == (back, 1)
    world, partition, back = leaderless()
    world.cluster.configure(world.topic_named(), {"unclean.leader.election.enable": "true"})
    world.cluster.configure(world.topic_named(), {})
    world.pass_time(1_000)
    assert partition.leader == -1


def test_a_broker_that_comes_back_behind_a_severed_link_stays_behind() -> None:
    """It was down, missed some, and does not reach the leader: it is no replica to rely on."""
    world, partition = three()
    follower = followers(partition)[0]
    world.cluster.stop_broker(follower)
    world.cluster.tick()
    assert world.produce(batch(b"x")).error_code == 0
    cut_off(world, partition, follower)
    world.cluster.start_broker(follower)
    world.cluster.tick()
    assert follower not in partition.isr
    assert world.produce(batch(b"y")).error_code == 0
    world.cluster.broker_links.mend(partition.leader, follower)
    world.cluster.tick()
    assert follower in partition.isr


def test_a_follower_gives_what_it_has() -> None:
    """One that reaches its leader has all that is replicated; one that does not gives what it got before, says how far that goes, and knows
    the producers of that and no others."""
    world, partition = three()
    reached, lost = followers(partition)

    def read(node: int, offset: int = 0) -> tuple[str, int, int]:
        answer = only(world.ask(fetch_request("t", offset), 12, node=node))
        return error_name(answer.error_code), answer.high_watermark, len(list(iter_batches(answer.records)))

    def producers(node: int) -> list[int]:
        request = wire.DescribeProducersRequest(topics=[wire.TopicRequest(name="t", partition_indexes=[0])])
        return sorted(each.producer_id for each in only(world.ask(request, 0, node=node)).active_producers)

    assert world.produce(numbered(7, 0)).error_code == 0
    assert [read(node) for node in (partition.leader, reached, lost)] == [("NONE", 1, 1), ("NONE", 0, 0), ("NONE", 0, 0)]
    world.pass_time(500)  # with the next fetch the followers learn the high watermark
    assert [read(node) for node in (partition.leader, reached, lost)] == [("NONE", 1, 1)] * 3
    cut_off(world, partition, lost)
    assert world.produce(numbered(8, 0), acks=1).error_code == 0
    world.pass_time(LAG_MS + 1)
    assert lost not in partition.isr
    world.pass_time(500)
    assert [read(node) for node in (partition.leader, reached, lost)] == [("NONE", 2, 2), ("NONE", 2, 2), ("NONE", 1, 1)]
    assert [read(node, 2)[0] for node in (reached, lost)] == ["NONE", "OFFSET_OUT_OF_RANGE"]
    assert [producers(node) for node in (partition.leader, reached, lost)] == [[7, 8], [7, 8], [7]]
    world.cluster.broker_links.mend(partition.leader, lost)
    world.cluster.tick()
    assert read(lost) == ("NONE", 2, 2)
    assert producers(lost) == [7, 8]


def test_a_client_that_leaves_is_not_waited_for() -> None:
    """A waiting Produce ends when its connection ends. Its batch stays."""
    world, partition = three()
    cut_off(world, partition, followers(partition)[0])
    request = produce_request("t", batch(b"x"))
    header = RequestHeader(api_key=request.api, api_version=9, correlation_id=1, client_id="leaves")
    call = world.dispatcher.handle(partition.leader, 1, header, request, world.replies.append)
    assert partition.leading.watchers
    call.abandon()
    assert not partition.leading.watchers
    assert partition.log.log_end_offset == 1


def test_links_of_a_running_stub() -> None:
    """`sever` and `mend`: a record waits until its followers are back, and is there once; brokers that are not there are refused."""
    with BrokerStub(brokers=3) as stub:
        stub.create_topic("t", replication_factor=3)
        leader = stub.leader("t", 0)
        others = [node for node in stub.addresses if node != leader]
        with Producer(bootstrap_servers=stub.bootstrap, **QUICK) as producer:
            producer.send("t", b"0").result(20)
            stub.sever(leader, others[0])
            future = producer.send("t", b"1")
            with pytest.raises(TimeoutError):
                future.result(0.2)
            stub.mend(leader, others[0])
            assert future.result(20).offset == 1
        assert values(stub, "t") == [b"0", b"1"]
        assert sorted(stub.isr("t", 0)) == [1, 2, 3]
        with pytest.raises(KeyError, match="there is no broker 9"):
            stub.sever(leader, 9)
        with pytest.raises(ValueError, match=f"broker {leader} has no link to itself"):
            stub.mend(leader, leader)
