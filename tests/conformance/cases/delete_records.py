"""DeleteRecords: the start of a log moves, and how other requests see it."""

from tests.conformance.batches import Rec, plain
from tests.conformance.stage import Topic
from tests.conformance.world import World, case

TOPIC = 2  # as a kind of resource


def ten(w: World, **config: str) -> Topic:
    """A topic with five batches of two records."""
    topic = w.topic(config={key.replace("_", "."): value for key, value in config.items()})
    for number in range(5):
        w.produce(plain(Rec(), Rec()), topic, label=f"batch {number}")
    return topic


@case()
def moved_starts(w: World) -> None:
    """The response has the new start. Earlier offsets move nothing."""
    topic = ten(w)
    for version, offset in ((0, 2), (1, 3), (2, 4)):
        w.delete_records(topic, offset, version=version, label=f"v{version} to {offset}")
    w.delete_records(topic, 1, label="back to 1")
    w.delete_records(topic, 4, label="4 again")
    w.delete_records(topic, -1, label="to the high watermark")
    w.end_offset(topic)


@case()
def offsets_out_of_range(w: World) -> None:
    """Past the high watermark and below -1."""
    topic = ten(w)
    for offset in (11, 1000, -2, -1000):
        w.delete_records(topic, offset, label=str(offset))
    w.delete_records(topic, 10, label="10")
    empty = w.topic()
    w.delete_records(empty, 0, label="0 of an empty log")
    w.delete_records(empty, -1, label="-1 of an empty log")
    w.delete_records(empty, 1, label="1 of an empty log")


@case()
def what_is_read_afterwards(w: World) -> None:
    """Fetch before the start is out of range. ListOffsets and Produce return the new start."""
    topic = ten(w)
    w.delete_records(topic, 3, label="to 3")
    for offset in (0, 2, 3, 4):
        w.fetch(topic, offset, label=f"fetch {offset}")
    for version in (1, 7, 11):
        w.list_offsets(topic, -2, version=version, label=f"v{version} earliest")
        w.list_offsets(topic, -1, version=version, label=f"v{version} latest")
    w.list_offsets(topic, -4, version=11, label="earliest local")
    w.list_offsets(topic, 0, label="time 0")
    w.produce(plain(), topic, label="one more")


@case()
def wrong_places(w: World) -> None:
    """Unknown topics and partitions, and internal ones."""
    topic = ten(w)
    w.delete_records(w.missing_topic(), 0, label="unknown topic")
    w.delete_records(topic, 0, partition=1, label="unknown partition")
    w.delete_records(topic, 0, partition=-1, label="negative partition")
    w.group()
    w.delete_records("__consumer_offsets", 0, label="internal")


@case()
def policies(w: World) -> None:
    """Records of a compacted topic cannot be deleted. With compact and delete together they can."""
    for policy in ("compact", "delete", "compact,delete"):
        topic = w.topic(config={"cleanup.policy": policy})
        w.produce(plain(), topic, label=f"{policy} one")
        w.delete_records(topic, 1, label=policy)


@case(brokers=3)
def asked_of_a_follower(w: World) -> None:
    """Only the leader deletes; its followers move their starts, too."""
    topic = w.topic(replicas=3)
    w.produce(plain(Rec(), Rec(), Rec()), topic, label="three")
    w.delete_records(topic, 1, node=w.follower(topic), label="a follower")
    w.delete_records(topic, 2, label="the leader")
    w.move_leader(topic)
    w.list_offsets(topic, -2, label="earliest at the next leader")
    alone = w.topic(replicas=1)
    w.delete_records(alone, 0, node=w.follower(alone), label="a broker without a replica")


@case()
def a_policy_that_says_compact_twice(w: World) -> None:
    """The topic is compacted, as with one compact."""
    topic = ten(w, cleanup_policy="compact,compact")
    w.delete_records(topic, 1, label="delete")
    w.describe_configs(TOPIC, topic.name, keys=["cleanup.policy"], label="described")
    both = w.topic(config={"cleanup.policy": "delete,compact,delete"})
    w.produce(plain(Rec(), Rec()), both, label="into both")
    w.delete_records(both, 1, label="delete from both")
    w.describe_configs(TOPIC, both.name, keys=["cleanup.policy"], label="both described")


@case()
def the_beginning_of_an_open_transaction(w: World) -> None:
    """The first records of an open transaction are deleted. `read_committed` consumers stop at the batch with the log's new start, not
    before it.
    """
    topic = w.topic()
    txn = w.begun()
    w.write(txn, topic, 0, label="the first of a transaction")
    for number in range(3):
        w.produce(plain(Rec(), Rec()), topic, label=f"batch {number}")
    for offset in (1, 2, 4, -1):
        w.delete_records(topic, offset, label=f"to {offset}")
        w.list_offsets(topic, -1, isolation=1, label=f"the end for committed readers after {offset}")
        w.list_offsets(topic, -2, isolation=1, label=f"the start after {offset}")
        w.fetch(topic, 7, isolation=1, label=f"the end after {offset}")
    w.end(txn, label="commit")
    w.fetch(topic, 7, isolation=1, label="after the commit")
