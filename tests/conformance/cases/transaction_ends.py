"""Rare ends of transactions: empty ones, ends before the markers are written, and the last epoch of a producer id."""

from tests.conformance.stage import Topic
from tests.conformance.world import World, case

LAST_EPOCH = 32_766
"""The highest epoch of a producer. Kafka uses the epoch above it only to fence."""


@case("E7", "F6")
def of_nothing(w: World) -> None:
    """If nothing was ever written, a commit is refused. An abort is refused, too, unless it raises the epoch."""
    for version in range(6):
        txn = w.begun()
        w.end(txn, version=version, label=f"v{version} commit")
        w.end(txn, version=version, commit=False, label=f"v{version} abort")
        w.describe_txn(txn, label=f"v{version} in the end")


def led_elsewhere(w: World, topic: Topic) -> tuple[int, int]:
    """A partition that the first node does not lead, and its leader."""
    return next((index, node) for index, node in topic.leaders.items() if node != w.nodes[0])


@case("A6", "F4", brokers=3, restarts=True)
def without_a_leader(w: World) -> None:
    """A partition without a leader at the commit of its transaction never gets a marker: Kafka treats it as deleted."""
    topic, txn = w.topic(partitions=3), w.coordinated_by(w.nodes[0])
    index, gone = led_elsewhere(w, topic)
    w.write(txn, topic, 0, partition=index, label="a record")
    with w.without(gone, topic, index):
        w.end(txn, label="commit")
    w.describe_txn(txn, label="in the end")
    w.list_offsets(topic, -1, partition=index, label="high watermark")
    w.list_offsets(topic, -1, partition=index, isolation=1, label="last stable offset")


@case("I4", "I2", "I7")
def of_the_last_epoch(w: World) -> None:
    """A producer that registers after the last epoch gets another producer id. A producer with the old id gets the new one, once."""
    txn = w.begun()
    w.wear(txn, LAST_EPOCH)
    old = txn.identity
    w.describe_txn(txn, label="the last epoch")
    w.init(txn, expected=old, label="its own")
    w.init(txn, expected=old, label="its own again")
    w.init(txn, expected=(old[0], 5), label="one of its earlier epochs")
    w.describe_txn(txn, label="rotated")


@case("F4", "F2", "F7")
def of_the_last_epoch_with_bumps(w: World) -> None:
    """The response to EndTxn has the next producer id, and has it again if the request is repeated."""
    topic, txn = w.topic(), w.begun()
    w.wear(txn, LAST_EPOCH)
    old = txn.identity
    w.write(txn, topic, 0, label="a record")
    w.end(txn, label="commit")
    w.describe_txn(txn, label="the next producer id")
    w.describe(topic, label="the marker")
    w.end(txn, identity=old, label="the commit again")
    w.end(txn, identity=old, commit=False, label="an abort")
    w.write(txn, topic, 1, identity=old, label="a record of the old one")
    w.write(txn, topic, 0, label="a record of the new one")
    w.end(txn, identity=old, label="the commit again, in the next transaction")
    w.end(txn, commit=False, label="abort")
