"""WriteTxnMarkers: how an administrator ends a hanging transaction, and which markers a partition accepts."""

from tests.conformance.world import World, case


@case("M1", "M2", "M3", "M4", "M7", "M8")
def with_bumps(w: World) -> None:
    """A marker of transaction version 2 has an epoch above its data's."""
    topic, txn = w.topic(), w.begun()
    pid, epoch = txn.identity
    w.write(txn, topic, 0, label="a record")
    w.mark((pid, epoch), topic, transaction_version=2, label="at its epoch")
    w.mark((pid, epoch + 1), topic, transaction_version=2, label="above")
    w.mark((pid, epoch + 1), topic, transaction_version=2, label="again")
    w.mark((pid, epoch), topic, transaction_version=2, label="below")
    w.describe(topic)
    w.end(txn, commit=False, label="the producer aborts")
    w.describe(topic, label="after that")


@case("M5", "M6", "M7", "M8")
def without_bumps(w: World) -> None:
    """Before transaction version 2 a marker has its data's epoch, or a later one."""
    topic, txn = w.topic(), w.begun()
    pid, epoch = txn.identity
    w.write(txn, topic, 0, label="a record")
    for version in (1, 2):
        w.mark((pid, epoch), topic, commit=version == 1, version=version, coordinator_epoch=3, label=f"v{version} at its epoch")
    w.mark((pid, epoch), topic, coordinator_epoch=2, label="of an older coordinator")
    w.mark((pid, epoch + 2), topic, coordinator_epoch=3, label="above")
    w.mark((pid, epoch + 1), topic, coordinator_epoch=3, label="below")
    w.mark((pid, epoch + 1), topic, coordinator_epoch=2, label="below, of an older coordinator")
    w.describe(topic)


@case("M8")
def of_nobody(w: World) -> None:
    """A marker for a producer that never wrote to the partition is written. One for an unknown partition is not."""
    topic = w.topic(partitions=2)
    pid = w.pid()
    w.mark((pid, 0), topic, partitions=[0, 1, 2], label="three partitions")
    w.mark((pid, 0), w.missing_topic(), label="no topic")
    w.mark((pid, 0), topic, partitions=[], label="none")
    w.end_offset(topic)
    w.describe(topic)


@case()
def producers_that_cannot_be(w: World) -> None:
    """Ids and epochs below 0 fail the whole request."""
    topic = w.topic(partitions=2)
    for pid, epoch in ((-1, 0), (-2, 0), (w.pid(), -1), (-1, -1)):
        w.mark((pid, epoch), topic, partitions=(0, 1), label=f"{min(pid, 0)} at epoch {epoch}")
    w.describe(topic)
