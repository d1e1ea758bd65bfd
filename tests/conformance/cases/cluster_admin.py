"""DescribeCluster, DescribeTopicPartitions, ElectLeaders and OffsetForLeaderEpoch."""

from tests.conformance.batches import Rec, plain
from tests.conformance.world import World, case


@case()
def the_cluster(w: World) -> None:
    """Brokers, controller and id, in every version; authorized operations on request."""
    for version in range(3):
        w.describe_cluster(version=version, label=f"v{version}")
        w.describe_cluster(version=version, include_cluster_authorized_operations=True, label=f"v{version} with operations")
    w.describe_cluster(include_fenced_brokers=True, label="with fenced brokers")


@case()
def endpoint_types(w: World) -> None:
    """1 means brokers, 2 means controllers. Other numbers are refused."""
    for version in (1, 2):
        for kind in (1, 2, 0, 3, -1):
            w.describe_cluster(version=version, endpoint_type=kind, label=f"v{version} type {kind}")


@case()
def topics_page_by_page(w: World) -> None:
    """In the order of their names, so many partitions per page."""
    one, two = w.topic(partitions=3), w.topic(partitions=2)
    w.describe_topics(one.name, two.name, label="all")
    w.describe_topics(two.name, one.name, label="in another order")
    for limit in (1, 2, 3, 4, 5, 6, 0, -1):
        w.describe_topics(one.name, two.name, limit=limit, label=f"limit {limit}")
    for cursor in ((one.name, 0), (one.name, 2), (one.name, 3), (one.name, 9), (two.name, 0), (two.name, 1)):
        w.describe_topics(one.name, two.name, cursor=cursor, label=f"from {w.show_topic(cursor[0])} {cursor[1]}")
    w.describe_topics(one.name, two.name, cursor=(one.name, 1), limit=2, label="from the middle, two")
    w.describe_topics(hide_others=True, label="every topic")


@case()
def pages_of_what_is_not_there(w: World) -> None:
    """Unknown topics, illegal names, cursors to unknown positions."""
    topic, missing = w.topic(), w.missing_topic().name
    w.describe_topics(missing, label="unknown")
    w.describe_topics("a b", label="illegal")
    w.describe_topics("", label="empty")
    w.describe_topics(topic.name, missing, label="known and unknown")
    w.describe_topics(topic.name, missing, limit=1, label="known and unknown, one")
    w.describe_topics(topic.name, topic.name, label="twice")
    w.describe_topics(topic.name, cursor=(topic.name, -1), label="negative cursor")
    w.describe_topics(topic.name, cursor=(missing, 0), label="a cursor to a topic that was not asked for")
    w.describe_topics(missing, cursor=(missing, 0), label="a cursor to an unknown topic")


@case()
def elections_of_one_replica(w: World) -> None:
    """If the first replica leads, no election is needed. An unknown partition cannot have one."""
    topic = w.topic(partitions=2)
    for version in range(3):
        w.elect({topic.name: [0, 1]}, version=version, label=f"v{version} preferred")
        w.elect({topic.name: [7]}, version=version, label=f"v{version} unknown partition")
        w.elect({w.missing_topic().name: [0]}, version=version, label=f"v{version} unknown topic")
    for kind in (1, 2, -1):
        w.elect({topic.name: [0]}, kind=kind, label=f"type {kind}")
    w.elect(None, only=topic, label="every partition")
    w.elect({}, label="none")


@case(brokers=3)
def elections_of_three(w: World) -> None:
    """After a move the first replica leads again, once."""
    topic = w.topic(replicas=3)
    w.elect({topic.name: [0]}, label="before")
    w.move_leader(topic)
    w.elect({topic.name: [0]}, kind=1, label="unclean")
    w.until_in_sync(topic)
    w.elect({topic.name: [0]}, label="after")
    w.elect({topic.name: [0]}, label="again")


@case()
def ends_of_epochs(w: World) -> None:
    """The only epoch ends where the log does; others are unknown."""
    topic = w.topic()
    for version in range(2, 5):
        w.epoch_end(topic, 0, version=version, label=f"v{version} empty log")
    w.produce(plain(Rec(), Rec()), topic, label="two")
    for version in range(2, 5):
        for epoch in (-1, 0, 1, 5):
            w.epoch_end(topic, epoch, version=version, label=f"v{version} epoch {epoch}")


@case()
def epochs_that_clients_believe_in(w: World) -> None:
    """An older current epoch is fenced, a newer one is unknown. Also unknown partitions, and replica ids."""
    topic = w.topic()
    for current in (-1, 0, 1, -2):
        w.epoch_end(topic, 0, current=current, label=f"current {current}")
    w.epoch_end(topic, 0, partition=1, label="unknown partition")
    w.epoch_end(w.missing_topic(), 0, label="unknown topic")
    for replica in (-2, 0, 7):
        w.epoch_end(topic, 0, replica_id=replica, label=f"replica {replica}")


@case(brokers=3)
def ends_of_several_epochs(w: World) -> None:
    """Each new leader ends the epoch before it. A follower gives no answer."""
    topic = w.topic(replicas=3)
    w.produce(plain(Rec(), Rec()), topic, label="two")
    w.move_leader(topic)
    w.produce(plain(), topic, label="one")
    for epoch in (0, 1, 2, 3):
        w.epoch_end(topic, epoch, label=f"epoch {epoch}")
    w.epoch_end(topic, 0, node=w.follower(topic), label="a follower")
    alone = w.topic(replicas=1)
    w.epoch_end(alone, 0, node=w.follower(alone), label="a broker without a replica")
