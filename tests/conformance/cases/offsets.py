"""ListOffsets: the special timestamps, search by time, leader epochs."""

from tests.conformance.batches import Rec, plain, stamp
from tests.conformance.world import World, case

SPECIAL = {-1: "latest", -2: "earliest", -3: "max timestamp", -4: "earliest local", -5: "latest tiered", -6: "earliest pending upload"}


@case()
def an_empty_partition(w: World) -> None:
    """Every special timestamp of a log without records, in every version."""
    topic = w.topic()
    for version in range(1, 12):
        for when, name in SPECIAL.items():
            w.list_offsets(topic, when, version=version, label=f"v{version} {name}")


@case()
def special_timestamps(w: World) -> None:
    """Every special timestamp of a log with records, in every version."""
    topic = w.topic()
    when = stamp()
    w.produce(plain(Rec(timestamp=when), Rec(timestamp=when + 9), Rec(timestamp=when + 3)), topic, label="three")
    w.produce(plain(Rec(timestamp=when + 5)), topic, label="one")
    for version in range(1, 12):
        for special, name in SPECIAL.items():
            w.list_offsets(topic, special, version=version, label=f"v{version} {name}")
    w.list_offsets(topic, -7, version=11, label="-7")


@case()
def search_by_time(w: World) -> None:
    """The first record at or after the time, in the order of the log."""
    topic = w.topic()
    when = stamp()
    for stamps in ((0, 10, 20), (15, 30), (25, 40)):
        w.produce(plain(*(Rec(timestamp=when + each) for each in stamps)), topic, label=str(stamps))
    for asked in (-1000, 0, 1, 10, 11, 20, 21, 26, 31, 40, 41):
        w.list_offsets(topic, when + asked, label=f"{asked:+d}")
    w.list_offsets(topic, 0, label="time 0")


@case()
def search_by_time_from_a_later_start(w: World) -> None:
    """Only the first segment with a late enough record is searched, though that record is below the log start."""
    topic = w.topic(config={"segment.ms": "100"})
    when = stamp()
    for each in (-10, -50, 500):
        w.produce(plain(Rec(timestamp=when + each)), topic, label=f"{each:+d}")
    w.delete_records(topic, 1, label="the first record")
    for asked in (-60, -50, -20, -10, -9, 500, 501):
        w.list_offsets(topic, when + asked, label=f"asked {asked:+d}")


@case()
def max_timestamp_below_the_start(w: World) -> None:
    """The record with the largest timestamp has an answer after DeleteRecords, too."""
    topic = w.topic()
    when = stamp()
    for each in (10, 5):
        w.produce(plain(Rec(timestamp=when + each)), topic, label=f"{each:+d}")
    w.delete_records(topic, 1, label="the first record")
    w.list_offsets(topic, -3, label="max timestamp")


@case()
def read_committed(w: World) -> None:
    """Under read_committed the latest offset is the last stable offset."""
    topic = w.topic()
    w.produce(plain(Rec(), Rec()), topic, label="two")
    for version in (2, 7, 11):
        w.list_offsets(topic, -1, isolation=1, version=version, label=f"v{version} committed")
        w.list_offsets(topic, -1, isolation=0, version=version, label=f"v{version} uncommitted")


@case()
def leader_epochs(w: World) -> None:
    """An older epoch is fenced, a newer one is unknown."""
    topic = w.topic()
    for epoch in (-1, 0, 1, 99, -2):
        w.list_offsets(topic, -1, leader_epoch=epoch, label=f"epoch {epoch}")


@case()
def unknown_topics_and_partitions(w: World) -> None:
    """Unknown topics and partitions have an error."""
    topic = w.topic()
    for version in (1, 4, 7, 11):
        w.list_offsets(w.missing_topic(), -1, version=version, label=f"v{version} unknown topic")
        w.list_offsets(topic, -1, partition=1, version=version, label=f"v{version} unknown partition")
    w.list_offsets(topic, -1, partition=-1, label="negative partition")


@case()
def the_same_partition_twice(w: World) -> None:
    """A partition that a request names twice has an error."""
    w.list_offsets_twice(w.topic())


@case()
def replica_ids(w: World) -> None:
    """-1 is a consumer, -2 a debugger. Any client may send a broker's id."""
    topic = w.topic()
    w.produce(plain(), topic, label="one")
    for replica in (-1, -2, 1, 99):
        w.list_offsets(topic, -1, replica_id=replica, label=f"replica {replica}")


@case()
def isolation_levels_that_are_none(w: World) -> None:
    """Only 0 and 1 are valid."""
    topic = w.topic()
    w.produce(plain(), topic, label="a record")
    for isolation in (2, 5, -1, 127):
        for when in (-1, -2, 0):
            w.list_offsets(topic, when, isolation=isolation, label=f"isolation {isolation} at {when}")
    w.list_offsets(w.missing_topic(), -1, isolation=2, label="unknown topic")
