"""The cluster below its sockets, under a virtual clock: leaders, restarts, waiting."""

from __future__ import annotations

import re

import pytest

from fencepost.broker_stub.requests.call import Fate
from fencepost.broker_stub.storage import memory
from fencepost.producer import wire
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.records import Codec, encode_batch, iter_batches
from tests.broker_stub.stub_calls import TIMESTAMP_MS, Inside, batch, fetch_request, metadata_request, numbered, only, produce_request


def five(world: Inside, pid: int) -> None:
    for sequence in range(5):
        assert world.produce(numbered(pid, sequence)).base_offset == sequence


def again(world: Inside, pid: int, sequences: range) -> list[int | str]:
    """What the leader says to these batches sent once more: the offset of the first time, or why not."""
    answers = [world.produce(numbered(pid, sequence)) for sequence in sequences]
    return [each.base_offset if each.error_code == 0 else wire.error_name(each.error_code) for each in answers]


FORGOTTEN = "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_new_leader_knows_the_whole_window() -> None:
    """After a leader move all five newest batches are still recognised."""
    world = Inside(brokers=3)
    world.topic(replicas=3)
    five(world, 7)
    partition = world.cluster.find("t", 0)
    assert partition is not None
    old = partition.leader
    new = world.cluster.move_leader(partition)
    assert new == world.leader() != old
    assert partition.leader_epoch == 1
    assert again(world, 7, range(5)) == [0, 1, 2, 3, 4]
    assert world.produce(numbered(7, 5)).base_offset == 5
    assert world.cluster.counters.duplicates == 5
    assert world.cluster.counters.leader_moves == 1


class CountedFile(memory.MemoryFile):
    """Counts the bytes that are read."""

    __slots__ = ()
    bytes_read = 0

    def read(self, position: int, size: int) -> bytes | memoryview:
        data = super().read(position, size)
        CountedFile.bytes_read += len(data)
        return data


def test_losing_a_broker_reads_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a stop, a kill, a return, a move, a severed link or an unclean election does not grow with the logs: their bytes are not
    read, but for the batch headers that a truncation reads after an index entry, and every broker goes on answering."""
    monkeypatch.setattr(memory, "MemoryFile", CountedFile)
    world = Inside(brokers=3, config={"unclean.leader.election.enable": "true"})
    world.topic(partitions=2, replicas=3)
    for partition in range(2):
        for sequence in range(50):
            world.produce(numbered(7, sequence), partition=partition)
        world.produce(batch(*[bytes(1000)] * 500), partition=partition)
    one = world.cluster.find("t", 0)
    assert one is not None
    assert isinstance(one.log.segments[0].file, CountedFile)
    before = CountedFile.bytes_read
    for clean in (True, False):
        for node in (1, 2, 3):
            world.cluster.stop_broker(node, clean=clean)
            world.cluster.tick()
            world.cluster.start_broker(node)
            world.cluster.tick()
    leader = world.cluster.move_leader(one)
    second, third = (node for node in one.replicas if node != leader)
    world.cluster.broker_links.sever(leader, second)
    world.cluster.broker_links.sever(leader, third)
    world.produce(numbered(7, 50), acks=1)
    world.cluster.stop_broker(leader, clean=False)
    world.cluster.tick()
    assert one.leader in (second, third)
    assert one.log.log_end_offset == 550
    assert CountedFile.bytes_read - before < 10_000, "no more than an index interval for a truncation"
    assert again(world, 7, range(50)) == [FORGOTTEN] * 49 + [49]
    assert world.produce(numbered(7, 50)).base_offset == 550


@pytest.mark.parametrize("clean", [True, False])
def test_a_restarted_leader_knows_the_newest_batch_only(clean: bool) -> None:
    """Kafka starts from a snapshot after a clean stop and after a kill alike, and a snapshot keeps one batch per producer."""
    world = Inside()
    world.topic()
    five(world, 7)
    world.cluster.stop_broker(1, clean=clean)
    world.cluster.tick()
    assert world.leader() == -1
    world.cluster.start_broker(1)
    world.cluster.tick()
    assert again(world, 7, range(5)) == [FORGOTTEN] * 4 + [4]
    assert world.produce(numbered(7, 5)).base_offset == 5


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_that_was_down_learns_what_it_missed(clean: bool) -> None:
    """When it leads again it knows the newest batch from before its stop and everything that came after."""
    world = Inside(brokers=2)
    world.topic(replicas=2)
    first = world.leader()
    five(world, 7)
    world.cluster.stop_broker(first, clean=clean)
    world.cluster.tick()
    for sequence in (5, 6):
        world.produce(numbered(7, sequence))
    world.cluster.start_broker(first)
    world.cluster.tick()
    assert again(world, 7, range(2, 7)) == [2, 3, 4, 5, 6]  # the other one was up all the time
    partition = world.cluster.find("t", 0)
    assert partition is not None
    world.cluster.move_leader(partition, to=first)
    world.cluster.tick()
    assert again(world, 7, range(2, 7)) == [FORGOTTEN, FORGOTTEN, 4, 5, 6]
    assert world.produce(numbered(7, 7)).base_offset == 7
    world.cluster.move_leader(partition)
    world.cluster.tick()
    assert again(world, 7, range(3, 8)) == [3, 4, 5, 6, 7]
    fetched = only(world.ask(fetch_request("t"), 12))
    assert fetched.high_watermark == 8


def test_the_last_in_sync_replica_is_waited_for() -> None:
    """With all replicas down there is no leader until the one returns that was in sync last; the others may not lead."""
    world = Inside(brokers=3)
    world.topic(replicas=2)
    partition = world.cluster.find("t", 0)
    assert partition is not None
    first, second = partition.replicas
    world.cluster.stop_broker(first)
    world.cluster.tick()
    assert (partition.leader, partition.isr) == (second, [second])
    world.cluster.stop_broker(second)
    world.cluster.tick()
    assert (partition.leader, partition.isr, partition.eligible) == (-1, [], [second])
    world.cluster.start_broker(first)
    world.cluster.tick()
    assert (partition.leader, partition.isr, partition.eligible) == (-1, [], [second])
    third = ({1, 2, 3} - {first, second}).pop()
    known = world.ask(metadata_request("t"), 12, node=third).topics[0].partitions[0]
    assert known.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (known.leader_id, known.replica_nodes, known.isr_nodes, known.offline_replicas) == (-1, [first, second], [], [second])
    world.cluster.start_broker(second)
    world.cluster.tick()
    assert partition.leader == second
    assert sorted(partition.isr) == sorted([first, second])


def test_leader_moves_that_cannot_be_are_refused() -> None:
    """A partition with one replica, and a node that is down or holds no replica, cannot be moved to."""
    world = Inside(brokers=3)
    world.topic("alone")
    world.topic("t", replicas=2)
    alone, pair = world.cluster.find("alone", 0), world.cluster.find("t", 0)
    assert alone is not None
    assert pair is not None
    stranger = ({1, 2, 3} - set(pair.replicas)).pop()
    with pytest.raises(ValueError, match="no in-sync replica"):
        world.cluster.move_leader(alone)
        world.cluster.tick()
    able = [node for node in pair.replicas if node != pair.leader]
    for node in (stranger, pair.leader):
        with pytest.raises(
            ValueError, match=rf"^to={node}: must be one of {re.escape(str(able))}, the in-sync replicas of t-0 that do not"
        ):
            world.cluster.move_leader(pair, to=node)
            world.cluster.tick()
    world.cluster.stop_broker(next(node for node in pair.replicas if node != pair.leader))
    world.cluster.tick()
    with pytest.raises(ValueError, match="no in-sync replica"):
        world.cluster.move_leader(pair)
        world.cluster.tick()


def test_leaders_and_replicas_go_round_the_brokers() -> None:
    """Six partitions on three brokers: each leads two, each holds its share, no replica twice."""
    world = Inside(brokers=3)
    world.topic(partitions=6, replicas=2)
    topic = world.cluster.topics.named("t")
    assert topic is not None
    leaders = [partition.leader for partition in topic.partitions]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(partition.replicas)) == 2 for partition in topic.partitions)
    world.cluster.add_partitions(topic, 8)
    assert [partition.index for partition in topic.partitions] == list(range(8))
    with pytest.raises(ValueError, match="INVALID_PARTITIONS"):
        world.cluster.add_partitions(topic, 8)


def test_a_broker_that_does_not_lead_names_the_leader_and_its_address() -> None:
    """NOT_LEADER_OR_FOLLOWER carries the leader from Produce 10 and Fetch 16 on, and not before."""
    world = Inside(brokers=2)
    topic_id = world.topic(replicas=1)  # a follower with a replica answers a Fetch
    leader = world.leader()
    follower = 3 - leader
    for version, tells in ((9, False), (10, True), (12, True)):
        answer = world.ask(produce_request("t", batch()), version, node=follower)
        assert only(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert only(answer).current_leader.leader_id == (leader if tells else -1)
        assert [(each.node_id, each.port) for each in answer.node_endpoints] == ([(leader, 9000 + leader)] if tells else [])
    by_id = wire.FetchTopic(topic_id=topic_id, partitions=[wire.FetchPartition(partition_max_bytes=100)])
    fetched = world.ask(wire.FetchRequest(max_wait_ms=0, topics=[by_id]), 16, node=follower)
    assert only(fetched).current_leader == wire.LeaderIdAndEpoch(leader_id=leader, leader_epoch=0)
    assert [each.node_id for each in fetched.node_endpoints] == [leader]


def test_too_few_in_sync_replicas_hold_the_high_watermark() -> None:
    """Below min.insync.replicas acks=all is refused, acks=1 is written and not readable until a replica is back."""
    world = Inside(brokers=2)
    world.topic(replicas=2, min_insync_replicas="2")
    follower = 3 - world.leader()
    world.produce(batch())
    world.cluster.stop_broker(follower)
    world.cluster.tick()
    assert world.produce(batch()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.produce(batch(), acks=1).base_offset == 1
    assert only(world.ask(fetch_request("t"), 12)).high_watermark == 1
    world.send(fetch_request("t", 1, wait_ms=60_000), 12)
    assert len(world.replies) == 4
    world.cluster.start_broker(follower)
    world.cluster.tick()
    world.pass_time(0)
    reply = world.replies[-1].response
    assert reply is not None
    assert only(reply).high_watermark == 2
    assert only(reply).records


def test_a_waiting_fetch_is_answered_by_bytes_or_by_time_and_by_nothing_else() -> None:
    """It waits through appends that are too small, is answered with the one that fills min_bytes, and at its deadline otherwise."""
    world = Inside()
    world.topic()
    size = len(batch(b"x" * 100))
    world.send(fetch_request("t", wait_ms=500, min_bytes=2 * size), 12)
    world.produce(batch(b"x" * 100))
    world.pass_time(499)
    assert [reply.fate for reply in world.replies] == [Fate.ANSWER]  # the Produce only
    world.produce(batch(b"x" * 100))
    world.pass_time(0)
    answered = world.replies[-1].response
    assert answered is not None
    assert len(only(answered).records) == 2 * size
    assert world.cluster.next_deadline() is None

    world.send(fetch_request("t", 2, wait_ms=500), 12)
    assert world.cluster.next_deadline() == world.clock.now_ms() + 500
    world.pass_time(499)
    count = len(world.replies)
    world.pass_time(1)
    assert len(world.replies) == count + 1
    empty = world.replies[-1].response
    assert empty is not None
    assert (only(empty).error_code, bytes(only(empty).records), only(empty).high_watermark) == (0, b"", 2)
    assert world.cluster.next_deadline() is None


def test_a_waiting_fetch_counts_what_is_stored() -> None:
    """Where the topic has a codec of its own, it is the stored bytes that fill min_bytes, not those that the producer sent."""
    world = Inside()
    world.topic(compression_type="uncompressed")
    small = encode_batch([(TIMESTAMP_MS, None, b"x" * 10_000)], codec=Codec.ZSTD)
    world.send(fetch_request("t", wait_ms=500, min_bytes=10_000), 12)
    assert len(small) < 200
    world.produce(small)
    world.pass_time(0)
    answered = world.replies[-1].response
    assert answered is not None
    assert len(only(answered).records) > 10_000


def test_a_waiting_fetch_hears_of_a_new_leader_and_of_deletion() -> None:
    """It does not wait out its time when the partition has another leader or is gone. An id stands for the name that it had at first."""
    world = Inside(brokers=2)
    topic_id = world.topic(replicas=2)
    partition = world.cluster.find("t", 0)
    assert partition is not None
    world.send(fetch_request("t", wait_ms=60_000), 10)
    in_epoch_0 = wire.FetchPartition(current_leader_epoch=0, partition_max_bytes=100)
    world.send(wire.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[wire.FetchTopic(topic="t", partitions=[in_epoch_0])]), 12)
    world.cluster.move_leader(partition)
    world.cluster.tick()
    world.pass_time(0)
    moved, fenced = [reply.response for reply in world.replies[-2:]]
    assert moved is not None
    assert only(moved).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fenced is not None
    assert only(fenced).error_code == ErrorCode.FENCED_LEADER_EPOCH
    by_id = wire.FetchTopic(topic_id=topic_id, partitions=[wire.FetchPartition(partition_max_bytes=100)])
    for version, topic in ((12, fetch_request("t").topics[0]), (13, by_id)):
        if world.cluster.topics.named("t") is None:
            topic_id = world.topic(replicas=2)
            topic = wire.FetchTopic(topic_id=topic_id, partitions=topic.partitions)
        world.send(wire.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]), version)
        found = world.cluster.topics.named("t")
        assert found is not None
        world.cluster.delete_topic(found)
        world.pass_time(0)
        gone = world.replies[-1].response
        assert gone is not None
        assert only(gone).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_deleted_and_made_again_is_another_one() -> None:
    """Same name, new id, empty log; the old id is unknown."""
    world = Inside()
    old = world.topic()
    world.produce(batch())
    found = world.cluster.topics.named("t")
    assert found is not None
    world.cluster.delete_topic(found)
    assert world.ask(metadata_request("t"), 12, node=1).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    new = world.ask(metadata_request("t"), 12, node=1).topics[0].topic_id  # asking made it anew
    assert new != old
    asked = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(topic_id=old, name=None)])
    (unknown,) = world.ask(asked, 12, node=1).topics
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    data = wire.PartitionProduceData(index=0, records=batch())
    request = wire.ProduceRequest(acks=-1, timeout_ms=1, topic_data=[wire.TopicProduceData(topic_id=old, partition_data=[data])])
    assert only(world.ask(request, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.produce(batch()).base_offset == 0


def test_topics_come_into_being_by_being_asked_for_only_where_allowed() -> None:
    """Auto-creation needs the cluster's and the request's consent, and a legal name."""
    world = Inside(default_partitions=3)
    quiet = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name="a")], allow_auto_topic_creation=False)
    for request, name, exists in ((quiet, "a", False), (metadata_request("a"), "a", True), (metadata_request("a b"), "a b", False)):
        answer = world.ask(request, 12, node=1).topics[0]
        assert answer.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert (world.cluster.topics.named(name) is not None) is exists
    assert len(world.ask(metadata_request("a"), 12, node=1).topics[0].partitions) == 3
    never = Inside(auto_create_topics=False)
    never.ask(metadata_request("a"), 12, node=1)
    assert never.cluster.topics.named("a") is None


def test_idle_producers_are_forgotten_by_the_clock() -> None:
    """After producer.id.expiration.ms an unknown producer may start with any sequence, as on Kafka."""
    world = Inside(config={"producer.id.expiration.ms": "3600000"})
    world.topic()
    world.produce(numbered(7, 0))
    assert world.produce(numbered(7, 9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    world.pass_time(3_600_000)
    assert world.clock.now_ms() - TIMESTAMP_MS == 3_600_000
    assert world.produce(numbered(7, 9)).base_offset == 1


def test_producer_ids_are_unique_and_survive_restarts() -> None:
    """Every broker gives out each producer id only once, also after restarts."""
    world = Inside(brokers=3)
    seen = []
    for round_ in range(3):
        for node in (1, 2, 3):
            answer = world.ask(wire.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 5, node=node)
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            seen.append(answer.producer_id)
        world.cluster.stop_broker(round_ + 1, clean=bool(round_ % 2))
        world.cluster.tick()
        world.cluster.start_broker(round_ + 1)
        world.cluster.tick()
    assert len(set(seen)) == len(seen) == 9


def test_a_seed_decides_ids() -> None:
    """A seed always gives its own cluster and topic ids, and another seed gives others."""
    same, same_again, other = Inside(seed=5), Inside(seed=5), Inside(seed=6)
    assert same.cluster.cluster_id == same_again.cluster.cluster_id != other.cluster.cluster_id
    assert same.topic() == same_again.topic() != other.topic()


def test_a_stopped_broker_does_nothing_more() -> None:
    """What waited there is never answered, a connection to it is refused, and time passes without it."""
    world = Inside(brokers=2)
    world.topic(replicas=2)
    leader = world.leader()
    world.send(fetch_request("t", wait_ms=100), 12, node=leader)
    world.cluster.stop_broker(leader)
    world.cluster.tick()
    world.pass_time(1000)
    assert world.replies == []
    with pytest.raises(ConnectionRefusedError):
        world.acceptor.connect(leader, wire=None)  # type: ignore[arg-type]  # it must not get that far


def test_impossible_clusters_are_refused() -> None:
    """No broker at all, and configs that Kafka does not have, are mistakes that name themselves."""
    with pytest.raises(ValueError, match="at least one broker"):
        Inside(brokers=0)
    with pytest.raises(ValueError, match=r"num\.partitions"):
        Inside(config={"num.partition": "3"})
    with pytest.raises(ValueError, match=r"message\.max\.bytes|max\.message\.bytes"):
        Inside(config={"message.max.bytes": "much"})


def test_blanks_around_the_value_of_a_config_mean_nothing() -> None:
    """A topic's or a broker's is heeded, and described without them."""
    of_brokers = Inside(config={"compression.type": " gzip", "log.message.timestamp.type": "LogAppendTime "})
    of_topics = Inside()
    of_brokers.topic()
    of_topics.topic(compression_type=" gzip", message_timestamp_type="LogAppendTime ")
    for world in (of_brokers, of_topics):
        assert world.produce(batch()).log_append_time_ms == world.clock.now_ms()
        (stored,) = iter_batches(only(world.ask(fetch_request("t"), 12)).records)
        assert stored[0].attributes & 7 == 1
        topic = world.cluster.topics.named("t")
        assert topic is not None
        assert (topic.config["compression.type"], topic.config["message.timestamp.type"]) == ("gzip", "LogAppendTime")
