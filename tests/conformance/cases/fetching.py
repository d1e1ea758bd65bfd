"""Fetch: offsets, waiting, limits, leader epochs and sessions."""

from tests.conformance.batches import LZ4, Rec, of, plain
from tests.conformance.world import World, case


@case()
def every_version(w: World) -> None:
    """Three records, fetched in every version."""
    topic = w.topic()
    w.produce(of(w.pid(), 0, 0, 3), topic, label="three")
    for version in range(4, 19):
        w.fetch(topic, 0, version=version, label=f"v{version}")


@case()
def offsets_out_of_range(w: World) -> None:
    """Below the start or beyond the end."""
    topic = w.topic()
    w.produce(plain(Rec(), Rec()), topic, label="two")
    for offset in (-1, -2, 3, 2**40):
        w.fetch(topic, offset, label=str(offset))
    w.fetch(topic, 2, label="at the end")


@case()
def one_partition_twice(w: World) -> None:
    """If a request names a partition twice, it is read once, from the last offset."""
    topic = w.topic(partitions=2)
    for count in (2, 1):
        w.produce(plain(*[Rec()] * count), topic, label=f"{count} records")
    for version in (12, 13):
        w.fetch_many([(topic, 0, 0), (topic, 0, 2)], version=version, label=f"v{version} another offset")
        w.fetch_many([(topic, 0, 2), (topic, 0, 0)], version=version, label=f"v{version} the first offset last")
        w.fetch_many([(topic, 0, 0), (topic, 1, 0), (topic, 0, 99)], version=version, label=f"v{version} with another between")
        w.fetch_many([(topic, 7, 0), (topic, 7, 0)], version=version, label=f"v{version} one that is not there")


@case()
def a_partition_that_is_not_there(w: World) -> None:
    """The answers for an unknown partition, by name and by id, of a known topic and of an unknown one."""
    topic = w.topic()
    for version in (4, 12, 13, 18):
        w.fetch(topic, 0, partition=9, version=version, label=f"v{version} of a topic")
        for isolation in (0, 1):
            w.fetch_many(
                [(w.missing_topic(), 0, 0), (topic, 9, 0)], version=version, isolation=isolation, label=f"v{version} isolation {isolation}"
            )


@case()
def from_the_middle_of_a_batch(w: World) -> None:
    """The broker returns the whole batch; the reader skips the first records."""
    topic = w.topic()
    w.produce(plain(Rec(), Rec(), Rec()), topic, label="three")
    w.produce(plain(Rec()), topic, label="one")
    for offset in range(4):
        w.fetch(topic, offset, label=f"from {offset}")


@case()
def waiting_for_records(w: World) -> None:
    """At the end of the log the broker waits: max.wait without records, less if records arrive."""
    topic = w.topic()
    w.fetch(topic, 0, max_wait_ms=400, timed=True, label="nothing comes")
    w.fetch(topic, 0, max_wait_ms=0, timed=True, label="no wait")
    w.fetch(topic, 0, max_wait_ms=400, min_bytes=0, timed=True, label="no bytes needed")
    w.fetch_while_producing(topic, plain(), label="something comes")
    w.fetch(topic, 0, max_wait_ms=400, min_bytes=100_000, timed=True, label="not enough comes")
    w.fetch(topic, 99, max_wait_ms=5000, timed=True, label="out of range does not wait")
    w.fetch(w.missing_topic(), 0, max_wait_ms=5000, version=12, timed=True, label="unknown topic does not wait")


@case()
def limits(w: World) -> None:
    """The broker returns the first batch whole under any limit, and more batches only within the limits."""
    topic = w.topic(partitions=2)
    for partition in (0, 1):
        for count in (1, 2, 3):
            w.produce(plain(*(Rec(value=b"x" * 100) for _ in range(count))), topic, partition=partition, label=f"p{partition} {count}")
    for size in (0, 1, 171, 172, 200, 450, 10_000):
        w.fetch(topic, 0, partition_max_bytes=size, label=f"partition.max.bytes {size}")
    for size in (0, 1, 171, 500, 800, 1000, 10_000):
        w.fetch_many([(topic, 0, 0), (topic, 1, 0)], max_bytes=size, label=f"max.bytes {size}")
    w.fetch_many([(topic, 1, 0), (topic, 0, 0)], max_bytes=1, label="the other first")
    w.fetch_many([(topic, 0, 6), (topic, 1, 0)], max_bytes=1, label="the first is at its end")
    w.fetch_many([(topic, 0, 0), (topic, 1, 0)], partition_max_bytes=1, label="both partitions limited")
    w.fetch(topic, 0, max_bytes=-1, label="max.bytes -1")


@case()
def unknown_topics_and_partitions(w: World) -> None:
    """By name and by id."""
    topic = w.topic()
    for version in (4, 12, 13, 18):
        w.fetch(w.missing_topic(), 0, version=version, label=f"v{version} unknown topic")
        w.fetch(topic, 0, partition=1, version=version, label=f"v{version} unknown partition")
    w.fetch(topic, 0, partition=-1, label="negative partition")
    w.fetch(w.missing_topic(zero_id=True), 0, version=13, label="zero id")


@case()
def one_bad_partition_beside_a_good_one(w: World) -> None:
    """An error does not touch the other partitions."""
    topic = w.topic()
    w.produce(plain(), topic, label="one")
    w.fetch_many([(w.missing_topic(), 0, 0), (topic, 0, 0), (topic, 5, 0)], label="by name")
    w.fetch_many([(w.missing_topic(), 0, 0), (topic, 0, 0), (topic, 5, 0)], version=16, label="by id")


@case()
def leader_epochs(w: World) -> None:
    """An older epoch is fenced, a newer one is unknown, -1 is not checked."""
    topic = w.topic()
    w.produce(plain(), topic, label="one")
    for epoch in (-1, 0, 1, 50, -2):
        w.fetch(topic, 0, leader_epoch=epoch, label=f"epoch {epoch}")


@case("KIP-320")
def last_fetched_epochs(w: World) -> None:
    """If a reader sends the epoch of its last record, the broker tells it where the logs diverged."""
    topic = w.topic()
    w.produce(plain(Rec(), Rec()), topic, label="two")
    for epoch, offset in ((0, 0), (0, 2), (-1, 1), (5, 1), (5, 2)):
        w.fetch(topic, offset, last_fetched_epoch=epoch, label=f"epoch {epoch} offset {offset}")


@case()
def read_committed(w: World) -> None:
    """Without transactions the list of aborted ones is empty, and null without the isolation level."""
    topic = w.topic()
    w.produce(of(w.pid(), 0, 0, 2), topic, label="two")
    for version in (4, 11, 16, 18):
        for isolation in (0, 1):
            w.fetch(topic, 0, isolation=isolation, version=version, label=f"v{version} isolation {isolation}")
    w.fetch(topic, 0, isolation=2, label="isolation 2")


@case()
def stored_headers(w: World) -> None:
    """Offsets and the leader epoch are the broker's. Everything else is as sent."""
    topic = w.topic()
    pid = w.pid()
    w.produce(of(pid, 3, 7, 2), topic, label="first")
    w.produce(of(pid, 3, 9, 1), topic, label="second")
    w.produce(w.compressed(LZ4, of(pid, 3, 10, 3)), topic, label="compressed")
    w.fetch(topic, 0, label="all")


@case()
def the_empty_request(w: World) -> None:
    """No partitions and no session: the broker answers at once."""
    w.fetch_many([], label="none", max_wait_ms=300, timed=True)


@case("KIP-227")
def sessions(w: World) -> None:
    """A session is created, continues with incremental requests, and ends."""
    topic = w.topic(partitions=2)
    s = w.session()
    s.fetch([(topic, 0, 0), (topic, 1, 0)], epoch=0, label="create")
    s.fetch([], epoch=1, label="nothing new")
    w.produce(plain(), topic, label="one record")
    s.fetch([], epoch=2, label="the one with news")
    s.fetch([(topic, 0, 1)], epoch=3, label="moved on")
    s.fetch([], epoch=4, forgotten=[(topic, 0)], label="forgot one")
    w.produce(plain(), topic, label="a record nobody asks for")
    w.produce(plain(), topic, partition=1, label="a record of the other")
    s.fetch([], epoch=5, label="only the other")
    s.fetch([], epoch=5, label="the same epoch again")
    s.fetch([], epoch=7, label="an epoch too far")
    s.fetch([], epoch=6, label="the right one after all")
    s.fetch([], epoch=-1, label="close")
    s.fetch([], epoch=7, label="after the end")


@case("KIP-227")
def session_errors(w: World) -> None:
    """Unknown sessions, and errors inside a session."""
    topic = w.topic()
    for version in (7, 12, 18):
        s = w.session(version)
        s.use(987654321)
        s.fetch([(topic, 0, 0)], epoch=1, label=f"v{version} unknown session")
        s.fetch([(topic, 0, 0)], epoch=0, label=f"v{version} a new one in its place")
    s = w.session()
    s.fetch([(topic, 0, 0), (w.missing_topic(), 0, 0), (topic, 9, 0)], epoch=0, label="create with errors")
    s.fetch([], epoch=1, label="errors are repeated")
    s.fetch([(topic, 0, 99)], epoch=2, label="out of range")
    s.fetch([], epoch=3, label="still out of range")
    s = w.session()
    s.fetch([(topic, 0, 0)], epoch=5, label="no session but an epoch")
    s.fetch([(topic, 0, 0)], epoch=-1, label="no session at all")
    s.fetch([], epoch=0, label="a session about nothing")


@case("KIP-227")
def a_session_can_be_replaced(w: World) -> None:
    """Epoch 0 with an id ends that session and begins another."""
    topic = w.topic()
    s = w.session()
    s.fetch([(topic, 0, 0)], epoch=0, label="create")
    first = s.session_id
    s.fetch([(topic, 0, 0)], epoch=0, label="begin again")
    w.note("a new id", str(s.session_id not in (0, first)))
    s.use(first)
    s.fetch([], epoch=1, label="the old one")


@case("KIP-516")
def a_session_that_changes_how_it_names_topics(w: World) -> None:
    """A session uses names or ids, as in its first request. The broker refuses the other form."""
    topic = w.topic()
    for began, other in ((12, 13), (13, 12)):
        s = w.session(began)
        s.fetch([(topic, 0, 0)], epoch=0, label=f"v{began} create")
        s.use(s.session_id, version=other)
        s.fetch([], epoch=1, label=f"v{began} and then v{other}")
        s.fetch([(topic, 0, 0)], epoch=1, label=f"v{began} and then v{other}, with a partition")
        s.use(s.session_id, version=began)
        s.fetch([], epoch=1, label=f"v{began} again")


@case("KIP-227")
def good_news_after_an_error(w: World) -> None:
    """The first successful answer after an error includes the partition, even without records."""
    topic = w.topic()
    w.produce(plain(), topic, label="one")
    s = w.session()
    s.fetch([(topic, 0, 1)], epoch=0, label="create at the end")
    s.fetch([], epoch=1, label="nothing new")
    s.fetch([(topic, 0, 99)], epoch=2, label="out of range")
    s.fetch([(topic, 0, 1)], epoch=3, label="back at the end")
    s.fetch([], epoch=4, label="nothing new again")


@case("KIP-595")
def an_epoch_that_diverges_at_either_isolation(w: World) -> None:
    """At either isolation level a diverging epoch comes without aborted transactions."""
    topic = w.topic()
    w.produce(plain(), topic, label="a record")
    for isolation in (0, 1):
        w.fetch(topic, 5, isolation=isolation, last_fetched_epoch=0, label=f"isolation {isolation}")


@case("KIP-227")
def what_a_session_is_told_to_read_and_to_forget(w: World) -> None:
    """A partition that one request both names and forgets is forgotten."""
    topic = w.topic(partitions=2)
    for version in (7, 12, 18):
        s = w.session(version)
        s.fetch([(topic, 0, 0)], epoch=0, label=f"v{version} create")
        s.fetch([(topic, 0, 5), (topic, 1, 5)], epoch=1, forgotten=[(topic, 0)], label=f"v{version} both out of range, one forgotten")
        s.fetch([], epoch=2, label=f"v{version} the other")
        s.fetch([(topic, 1, 0)], epoch=3, forgotten=[(topic, 1)], label=f"v{version} the other, too")


@case("KIP-516")
def a_session_whose_topic_is_deleted(w: World) -> None:
    """A session uses the name of its topic id: the topic is missing, and later another topic has its name.

    Without a session the id is unknown.
    """
    topic = w.topic()
    s = w.session(18)
    s.fetch([(topic, 0, 0), (topic, 5, 0)], epoch=0, label="create")
    w.delete_topics(topic.name, label="delete")
    w.until_gone(topic)
    s.fetch([], epoch=1, label="it is gone")
    w.fetch(topic, 0, version=18, label="it is gone, without a session")
    w.made_again(topic, label="make it again")
    w.known_topic(topic.name)
    s.fetch([], epoch=2, label="there is another one")
    w.fetch(topic, 0, version=18, label="there is another one, without a session")


@case()
def committed_readers_beyond_an_open_transaction(w: World) -> None:
    """A Fetch from a batch beyond the last stable offset is answered at once. A Fetch from the last stable offset waits."""
    topic = w.topic()
    txn = w.begun()
    w.produce(plain(Rec(), Rec()), topic, label="two records")
    w.write(txn, topic, 0, label="the first of a transaction")
    w.write(txn, topic, 1, label="the second")
    w.produce(plain(Rec(), Rec()), topic, label="two more")
    for offset in range(2, 7):
        w.fetch(topic, offset, isolation=1, max_wait_ms=400, timed=True, label=f"committed from {offset}")
    w.fetch(topic, 6, max_wait_ms=400, timed=True, label="all from 6")


@case()
def aborted_transactions_of_what_does_not_fit(w: World) -> None:
    """If a batch exceeds the partition's limit, the list of aborted transactions is null.

    If no batch fits, or at the end of the log, the list is empty.
    """
    topic = w.topic(partitions=2)
    for partition in (0, 1):
        w.produce(plain(Rec(value=b"x" * 100)), topic, partition=partition, label=f"partition {partition}")
    for size in (0, 1, 200, 10_000):
        w.fetch_many([(topic, 0, 0), (topic, 1, 0)], isolation=1, partition_max_bytes=size, label=f"partition.max.bytes {size}")
        w.fetch_many([(topic, 0, 0), (topic, 1, 0)], isolation=1, max_bytes=size, label=f"max.bytes {size}")
    w.fetch_many([(topic, 0, 0), (topic, 1, 1)], isolation=1, partition_max_bytes=1, label="at the end")


@case("KIP-227", "KIP-595")
def no_news_after_a_divergence(w: World) -> None:
    """A diverging epoch is reported each time, but it is not an error. The successful answer after it is left out."""
    topic = w.topic()
    w.produce(plain(), topic, label="one")
    s = w.session()
    s.fetch([(topic, 0, 1)], epoch=0, label="create at the end")
    s.fetch([(topic, 0, 5)], epoch=1, last_fetched_epoch=0, label="diverges")
    s.fetch([], epoch=2, label="still diverges")
    s.fetch([(topic, 0, 1)], epoch=3, label="back at the end")


@case("KIP-227")
def whose_turn_it_is_in_a_session(w: World) -> None:
    """A partition whose records were returned goes to the end, so that under a limit every partition gets records.

    The first response of a session is an exception.
    """
    topic = w.topic(partitions=2)
    for partition in (0, 1):
        for number in range(3):
            w.produce(plain(*[Rec()] * (partition + 1)), topic, partition=partition, label=f"partition {partition}, {number}")
    s = w.session()
    s.fetch([(topic, 0, 0), (topic, 1, 0)], epoch=0, max_bytes=1, label="create")
    for epoch in range(1, 5):
        s.fetch([], epoch=epoch, max_bytes=1, label=f"epoch {epoch}")
