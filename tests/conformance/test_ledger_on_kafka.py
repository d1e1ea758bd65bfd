"""The ledger on a real Kafka: with open transactions, after compaction, and in topics with changed configs.

One Kafka serves the file. Its log cleaner runs all the time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Producer as Stranger

from fencepost.producer.config.reader import read_settings
from fencepost.txn.keyed_topic.errors import LedgerBusy, LedgerDamaged, LedgerUnusable
from fencepost.txn.ledger.batch_decision import Decision, decide
from fencepost.txn.ledger.entry import LedgerEntry, LedgerPartition
from fencepost.txn.ledger.errors import LedgerMissing
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.producer import TransactionalProducer
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.reading import read_values
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

WAIT_S: Final = 60.0
EAGER: Final = {"log.cleaner.backoff.ms": 50}
SHORT_LIVED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
"""Every record rolls the segment before it, and the cleaner removes superseded records at its next run."""


class Site:
    """A ledger for one test."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"ledger-{secrets.token_hex(4)}"
        self.ledger = self.another()

    def another(self) -> Ledger:
        """This site's ledger as another process opens it."""
        return Ledger(read_settings({"bootstrap_servers": self.bootstrap}), self.topic)

    def create(self, partitions: int, config: dict[str, str]) -> None:
        Admin(self.bootstrap).create(self.topic, partitions=partitions, config=config)

    def producer(self, sink: str) -> TransactionalProducer:
        return TransactionalProducer(bootstrap_servers=self.bootstrap, transactional_id=f"{self.topic}.{sink}", linger_ms=0)

    def write(self, *entries: LedgerEntry, commit: bool = True) -> None:
        """Write entries, each in its own transaction, by one producer, which takes over its sink's id."""
        with self.producer(entries[0].sink) as producer:
            for entry in entries:
                tx = producer.begin(WAIT_S)
                key, value = self.ledger.record(entry)
                tx.send(self.topic, value, key=key, partition=self.ledger.partition_of(entry.key)).result(WAIT_S)
                tx.commit(WAIT_S) if commit else tx.abort(WAIT_S)

    def take_over(self, *sinks: str) -> None:
        """Take over the id, so that the markers of committed entries are written. A commit returns before that."""
        for sink in sinks:
            with self.producer(sink) as producer:
                producer.init(WAIT_S)

    def read(self, sink: str) -> LedgerEntry | None:
        """Read as a driver does that takes over the sink's id."""
        self.take_over(sink)
        return self.another().read(sink, WAIT_S)

    def raw(self, partition: int) -> list[bytes]:
        """Every value that is still in the log."""
        return read_values(self.bootstrap, self.topic, [partition], isolation="read_uncommitted")

    def neighbours(self, count: int) -> list[str]:
        """Sinks whose entries are in one partition."""
        names = [f"sink-{number}" for number in range(100)]
        place = self.ledger.partition_of(names[0])
        return [name for name in names if self.ledger.partition_of(name) == place][:count]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    require_kafka()
    with KafkaCluster(config=EAGER) as cluster:
        yield cluster


@pytest.fixture
def site(cluster: KafkaCluster) -> Site:
    return Site(cluster.bootstrap)


def entry_of(sink: str, batch: int) -> LedgerEntry:
    written = (LedgerPartition("t", 0, 5, 7 * batch),)
    return LedgerEntry(sink=sink, query="q", batch=batch, fingerprint=f"f{batch}", rows=5, partitions=written, at_ms=1_700_000_000_000)


def stored_in(site: Site, sink: str) -> int:
    """The partition of the newest entry."""
    stored = site.another().look(WAIT_S)[sink].stored
    assert stored is not None
    return stored.partition


def test_made_as_it_should_be(site: Site) -> None:
    """Kafka accepts the configs of the new topic. A second process finds it and creates nothing."""
    assert site.ledger.list(WAIT_S) == []
    assert site.ledger.ensure(WAIT_S) == 8
    assert site.another().ensure(WAIT_S) == 8
    assert site.another().read("a", WAIT_S) is None


def test_committed_aborted_and_many(site: Site) -> None:
    """Each sink's newest committed entry is found behind entries of aborted transactions, also at the very start of the log."""
    assert site.ledger.read("a", WAIT_S) is None
    site.write(*(entry_of("a", batch) for batch in range(30)))
    site.write(entry_of("a", 30), entry_of("a", 31), commit=False)
    site.write(entry_of("b", 0))
    site.write(entry_of("c", 0), commit=False)
    assert [site.read(sink) for sink in "abc"] == [entry_of("a", 29), entry_of("b", 0), None]
    assert site.another().list(WAIT_S) == [entry_of("a", 29), entry_of("b", 0)]


def test_another_sinks_open_transaction(site: Site) -> None:
    """It holds the last stable offset back: consumers with `read_committed` see nothing behind it. The ledger does."""
    mine, other = site.neighbours(2)
    site.write(entry_of(other, 1))
    site.take_over(other)
    with site.producer(other) as producer:
        tx = producer.begin(WAIT_S)
        key, value = site.ledger.record(entry_of(other, 2))
        tx.send(site.topic, value, key=key, partition=site.ledger.partition_of(other)).result(WAIT_S)
        site.write(*(entry_of(mine, batch) for batch in range(5)))
        site.write(entry_of(mine, 5), commit=False)
        site.take_over(mine)
        assert read_values(site.bootstrap, site.topic, [site.ledger.partition_of(mine)]) == [entry_of(other, 1).dumps()]
        assert site.read(mine) == entry_of(mine, 4)
        with pytest.raises(LedgerBusy, match="belongs to an open transaction"):
            site.another().read(other, WAIT_S)
        with pytest.raises(LedgerBusy):
            site.another().reset(other, WAIT_S)
        tx.commit(WAIT_S)
    assert site.read(other) == entry_of(other, 2)


def test_after_the_takeover_of_a_writer_that_died(site: Site) -> None:
    """After its id was taken over, the entry of a transaction that was left open counts as little as that of an aborted one."""
    site.write(entry_of("a", 1))
    dead = site.producer("a")
    tx = dead.begin(WAIT_S)
    key, value = site.ledger.record(entry_of("a", 2))
    tx.send(site.topic, value, key=key, partition=site.ledger.partition_of("a")).result(WAIT_S)
    with site.producer("a") as producer:
        producer.init(WAIT_S)
        assert site.another().read("a", WAIT_S) == entry_of("a", 1)
        assert not site.another().look(WAIT_S)["a"].is_open
    dead.close(WAIT_S)


def test_a_log_that_was_compacted(site: Site) -> None:
    """The log lacks offsets, and has markers and records without their neighbours. An open transaction in front limits what may be cleaned.

    The ledger finds the same as before.
    """
    site.create(1, SHORT_LIVED)
    for batch in range(10):
        for sink in ("a", "b"):
            site.write(entry_of(sink, batch))
        site.write(entry_of("a", batch + 1), commit=False)
    site.write(entry_of("c", 0))
    site.take_over("c")
    site.ledger.reset("c", WAIT_S)
    site.write(entry_of("d", 0))
    written = 10 * 3 + 3
    until(lambda: len(site.raw(0)), "fewer records in the log", good=lambda count: count <= 5, timeout_s=WAIT_S)
    assert len(site.raw(0)) < written
    wanted = [entry_of("a", 9), entry_of("b", 9), entry_of("d", 0)]
    assert [site.read(sink) for sink in "abd"] == wanted
    assert site.read("c") is None
    with site.producer("open") as producer:
        producer.begin(WAIT_S).send(site.topic, b"open", key=b"open", partition=0).result(WAIT_S)
        site.write(*(entry_of("a", batch) for batch in range(10, 20)))
        assert site.read("a") == entry_of("a", 19)
        assert site.another().list(WAIT_S) == [entry_of("a", 19), *wanted[1:]]


def test_forgotten_and_begun_again(site: Site) -> None:
    """A tombstone counts at once, also behind another sink's open transaction. A record outside of any transaction does not count, so no
    batch is skipped for it.

    If the ledger has nothing else, the error says so.
    """
    mine, other = site.neighbours(2)
    site.write(entry_of(mine, 4))
    site.take_over(mine)
    with site.producer(other) as producer:
        tx = producer.begin(WAIT_S)
        tx.send(site.topic, b"{}", key=other.encode(), partition=site.ledger.partition_of(other)).result(WAIT_S)
        deleted = site.ledger.reset(mine, WAIT_S)
        assert deleted is not None
        assert deleted.value == entry_of(mine, 4).dumps()
        assert site.another().read(mine, WAIT_S) is None
        assert site.ledger.reset(mine, WAIT_S) is None
        stranger = Stranger({"bootstrap.servers": site.bootstrap, "partitioner": "murmur2_random"})
        stranger.produce(site.topic, entry_of(mine, 5).dumps(), mine.encode())
        stranger.flush(WAIT_S)
        stranger.produce(site.topic, entry_of("unheard", 5).dumps(), b"unheard")
        stranger.flush(WAIT_S)
        assert site.another().read(mine, WAIT_S) is None
        with pytest.raises(LedgerDamaged, match="outside of any transaction"):
            site.another().read("unheard", WAIT_S)
        assert stored_in(site, "unheard") == site.ledger.partition_of("unheard")
        assert site.ledger.reset("unheard", WAIT_S) is not None
        assert site.another().read("unheard", WAIT_S) is None
        tx.abort(WAIT_S)


def test_a_topic_that_was_deleted(site: Site) -> None:
    """It is made anew, and a query that has written batches is told that the ledger has nothing of them."""
    site.write(entry_of("a", 4))
    Admin(site.bootstrap).delete(site.topic)
    assert site.another().look(WAIT_S) == {}
    entry = site.read("a")
    with pytest.raises(LedgerMissing):
        decide(entry, "a", query="q", batch=5, fingerprint="f5")
    site.write(entry_of("a", 5))
    assert site.read("a") == entry_of("a", 5)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_deletes(site: Site, policy: str) -> None:
    """The topic is refused, and the error names the setting. Kafka reports the value in force, also if the topic does not set it."""
    site.create(1, {"cleanup.policy": policy} if policy != "delete" else {})
    with pytest.raises(LedgerUnusable, match=rf"has cleanup.policy={policy}, which deletes"):
        site.ledger.read("a", WAIT_S)


def test_more_partitions(site: Site) -> None:
    """Entries are found in their old places, and newer ones in their new places count."""
    site.create(1, {"cleanup.policy": "compact"})
    site.write(entry_of("a", 4))
    Admin(site.bootstrap).grow(site.topic, 8)
    ledger = site.another()
    assert ledger.ensure(WAIT_S) == 8
    assert ledger.partition_of("a") > 0
    found = site.read("a")
    assert decide(found, "a", query="q", batch=4, fingerprint="f4") is Decision.SKIP
    site.ledger = ledger
    site.write(entry_of("a", 5))
    assert site.read("a") == entry_of("a", 5)
