"""Three brokers: requests to a broker that does not lead, and missing replicas."""

from tests.conformance.batches import of, plain
from tests.conformance.stage import Topic
from tests.conformance.world import World, case


@case(brokers=3)
def produce_to_a_follower(w: World) -> None:
    """NOT_LEADER_OR_FOLLOWER, and from version 10 on the leader and its address."""
    topic = w.topic(replicas=3)
    for version in range(3, 14):
        w.produce(plain(), topic, version=version, node=w.follower(topic), label=f"v{version}")
    w.produce_unanswered(plain(), topic, node=w.follower(topic), label="acks 0")
    w.end_offset(topic)


@case(brokers=3)
def produce_to_a_broker_without_a_replica(w: World) -> None:
    """A broker without a replica of the topic answers NOT_LEADER_OR_FOLLOWER, and from version 10 on with the leader and its address."""
    topic = w.topic(replicas=1)
    for version in (9, 10, 12, 13):
        w.produce(plain(), topic, version=version, node=w.follower(topic), label=f"v{version}")


@case(brokers=3)
def fetch_from_a_follower(w: World) -> None:
    """A follower may refuse a consumer. The response names the leader from version 12 on, its address from 16 on."""
    alone = w.topic(replicas=1)
    w.produce(plain(), alone, label="one")
    for version in (4, 11, 12, 15, 16, 18):
        w.fetch(alone, 0, version=version, node=w.follower(alone), label=f"v{version}")


@case(brokers=3)
def what_a_follower_answers(w: World) -> None:
    """A follower returns its records to consumers (KIP-392), from Fetch 11 on, and names the producers that it knows."""
    topic, pid = w.topic(replicas=3), w.pid()
    w.produce(of(pid, 0, 0), topic, label="one")
    follower = w.follower(topic)
    for version in (10, 11, 12, 15, 16, 18):
        # It hears a moment later than the leader that the record is replicated.
        w.fetch(topic, 0, version=version, node=follower, max_wait_ms=10_000, label=f"v{version}")
    w.fetch(topic, 0, isolation=1, node=follower, label="read_committed")
    w.fetch(topic, 1, node=follower, label="at the end")
    w.fetch(topic, 9, node=follower, label="past the end")
    w.fetch(topic, 0, leader_epoch=0, node=follower, label="the right leader epoch")
    w.fetch(topic, 0, leader_epoch=1, node=follower, label="a leader epoch to come")
    w.fetch(topic, 0, partition=1, node=follower, label="no such partition")
    w.describe(topic, node=follower, label="DescribeProducers")
    w.list_offsets(topic, -1, node=follower, label="ListOffsets")


@case(brokers=3)
def the_other_questions_to_a_follower(w: World) -> None:
    """A broker without a replica answers neither ListOffsets nor DescribeProducers."""
    topic = w.topic(replicas=1)
    w.list_offsets(topic, -1, node=w.follower(topic), label="ListOffsets")
    w.list_offsets(topic, -1, version=3, node=w.follower(topic), label="ListOffsets v3")
    w.describe(topic, node=w.follower(topic), label="DescribeProducers")
    # It has no leader epoch to compare with.
    w.fetch(topic, 0, version=18, leader_epoch=1, node=w.follower(topic), label="Fetch in a leader epoch to come")
    w.list_offsets(topic, -1, leader_epoch=1, node=w.follower(topic), label="ListOffsets in a leader epoch to come")
    w.epoch_end(topic, 0, current=1, node=w.follower(topic), label="OffsetForLeaderEpoch in a leader epoch to come")


@case(brokers=3)
def replica_counts(w: World) -> None:
    """More replicas than brokers are refused; -1 is the broker's default."""
    w.create(w.fresh_name(), replicas=3, label="three")
    w.create(w.fresh_name(), replicas=4, label="four")
    w.create(w.fresh_name(), partitions=-1, replicas=-1, label="defaults")
    w.create(w.fresh_name(), partitions=-1, replicas=-1, assignments={0: [1, 2], 1: [3, 1]}, label="by hand")
    w.create(w.fresh_name(), partitions=-1, replicas=-1, assignments={0: [1, 2], 1: [3]}, label="by hand, uneven")


@case(brokers=3)
def a_duplicate_at_every_leader(w: World) -> None:
    """A new leader knows the whole window, because it read the same bytes."""
    topic, pid = w.topic(replicas=3), w.pid()
    for sequence in range(5):
        w.produce(of(pid, 0, sequence), topic, label=f"send {sequence}")
    w.move_leader(topic)
    for sequence in range(5):
        w.produce(of(pid, 0, sequence), topic, label=f"again {sequence}")
    w.produce(of(pid, 0, 5), topic, label="next")


@case(brokers=3, restarts=True)
def too_few_replicas(w: World) -> None:
    """acks=all needs min.insync.replicas in sync, at most the number of replicas. acks=1 does not."""
    capped = w.topic(replicas=1, config={"min.insync.replicas": "2"})
    topic = w.topic(replicas=2, config={"min.insync.replicas": "2"})
    pid = w.pid()
    w.produce(plain(), capped, label="one replica of two")
    w.produce(of(pid, 0, 0), topic, label="both in sync")
    with w.without_a_follower(topic):
        w.produce(of(pid, 0, 1), topic, acks=-1, label="one missing, acks all")
        w.produce(of(pid, 0, 0), topic, acks=-1, label="one missing, a duplicate")
        w.produce(plain(), topic, acks=1, label="one missing, acks 1")
        w.end_offset(topic, label="end offset with one")
    w.produce(of(pid, 0, 1), topic, label="both again, a resend of what was refused and then taken", settled=False)
    w.end_offset(topic)


def _had_by_both(w: World) -> tuple[str, Topic]:
    """A topic with two replicas. Both must be in sync, and have its first record."""
    name = w.fresh_name()
    w.create(name, partitions=-1, replicas=-1, assignments={0: [2, 3]}, config={"min.insync.replicas": "2"}, label="created")
    topic = w.known_topic(name)
    w.produce(plain(), topic, label="both have it")
    return name, topic


@case(brokers=3, restarts=True)
def eligible_to_lead(w: World) -> None:
    """A replica that left the ISR while it was too small may lead again when no in-sync replica is up (KIP-966).

    It has all acknowledged records. Records of the leader alone are lost.
    """
    name, topic = _had_by_both(w)
    with w.abandoned(topic):
        w.until_led(topic)
        w.describe_topics(name, label="the follower leads")
        w.elect({name: [0]}, kind=1, label="unclean")
        w.produce(plain(), topic, acks=-1, label="too few in sync")
    w.until_in_sync(topic)
    w.describe_topics(name, label="both again")
    w.produce(plain(), topic, label="in place of what was lost", settled=False)


@case(brokers=3, restarts=True)
def killed_and_eligible_no_more(w: World) -> None:
    """A killed replica may have lost records, so the controller does not elect it automatically."""
    name, topic = _had_by_both(w)
    with w.abandoned(topic, clean=False):
        w.describe_topics(name, label="the follower is back")
    w.until_in_sync(topic)
    w.describe_topics(name, label="both again")
    w.produce(plain(), topic, label="after what the leader wrote alone", settled=False)


@case(brokers=3, restarts=True)
def alone_and_gone(w: World) -> None:
    """The only replica leaves the ISR as soon as its broker is down."""
    name = w.fresh_name()
    w.create(name, partitions=-1, replicas=-1, assignments={0: [2]}, label="created")
    topic = w.known_topic(name)
    for clean in (True, False):
        with w.without_the_leader(topic, clean=clean):
            w.describe_topics(name, label=f"{'stopped' if clean else 'killed'}")
        w.until_led(topic)
        w.describe_topics(name, label=f"{'stopped' if clean else 'killed'}, and back")


@case(brokers=3, restarts=True)
def an_unclean_election(w: World) -> None:
    """An administrator's request succeeds with every config of the topic: the replica that is up leads, and the records that it lacks are
    lost.
    """
    name = w.fresh_name()
    w.create(name, partitions=-1, replicas=-1, assignments={0: [2, 3]}, label="created")
    topic = w.known_topic(name)
    w.produce(plain(), topic, label="both have it")
    with w.abandoned(topic):
        w.elect({topic.name: [0]}, kind=0, label="preferred")
        w.elect({topic.name: [0]}, kind=1, label="unclean")
        w.until_led(topic)
        w.elect({topic.name: [0]}, kind=1, label="unclean again")
        w.produce(plain(), topic, label="after it")
        w.end_offset(topic, label="end offset after it")
