"""Isolated leaders append batches that no other broker has, and lose them when another one leads.

The test compares every claim of several producers with the logs of the cluster, at the exact offset. It cuts only connections between
brokers, so the isolated leader still serves clients, above its high watermark. It is cut off from its followers, until the controller
elects another leader. Or it is cut off from the controller too, which then considers it dead, while two leaders serve clients. A leader may
also be killed in that state. When the connections are restored, its log is truncated. A sample by default; FENCEPOST_SURVIVAL=full has
thirty isolations, and at least a million records.
"""

from __future__ import annotations

import enum
import os
import random
import secrets
import threading
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as Place

from fencepost.producer import DeliveryError, Persisted, Producer
from fencepost.producer.wire.codecs.codec import CorruptBatch
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.disk import PartitionFile
from tests.conformance.survival.ledger import Ledger
from tests.conformance.survival.links import End, Links
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.tap import Tap
from tests.conformance.test_survival_outcomes import settled
from tests.drawn import drawn
from tests.waiting import until

FULL: Final = os.environ.get("FENCEPOST_SURVIVAL") == "full"
ISOLATIONS: Final = 30 if FULL else 3
ROWS: Final = 1_000_000 if FULL else 50_000
ROWS_MAX: Final = 1_000_000 if FULL else 200_000
"""Rows of one producer."""
PRODUCERS: Final = 6
PARTITIONS: Final = 6
AT_ONCE: Final = 20
PACE_S: Final = 0.02
WAIT_S: Final = 120.0
BETWEEN: Final = "BETWEEN"

pytestmark = pytest.mark.timeout(3600 if FULL else 600)

CONFIG: Final = {
    "inter.broker.listener.name": BETWEEN,
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}
SETTINGS: Final[dict[str, Any]] = {"batch_size": 8192, "request_timeout_ms": 1500, "delivery_timeout_ms": 4000, "max_block_ms": 300_000}


OnDisk = tuple[int, tuple[int, int, int], int]
"""Partition, identity and sequence, base offset."""


class Kind(enum.Enum):
    """How a leader is isolated."""

    FROM_FOLLOWERS = "from its followers"
    FROM_ALL = "from all brokers"
    AND_KILLED = "from all brokers, and killed"


class Sender:
    """One producer, with its rows and the outcome of each."""

    def __init__(self, number: int, bootstrap: str, topic: str, seed: int) -> None:
        self.ledger: Final = Ledger(ROWS_MAX, seed=seed)
        self.failures: Final[dict[int, DeliveryError]] = {}
        self.producer: Final = Producer(bootstrap_servers=bootstrap, **SETTINGS)
        self.tap: Final = Tap(self.producer)
        self._name = b"%d:" % number
        self._topic = topic

    def send(self, stop: threading.Event) -> None:
        """Send at a moderate pace, until the test has enough."""
        while not stop.wait(PACE_S):
            for row in range(self.ledger.sent, min(ROWS_MAX, self.ledger.sent + AT_ONCE)):
                key, value = self.ledger.sending(row)
                self.producer.send(self._topic, value, key=self._name + key, on_delivery=partial(settled, self.ledger, self.failures, row))

    def said(self, row: int) -> str:
        failure = self.failures.get(row)
        assert failure is None or failure.persisted in Persisted
        return "acknowledged" if failure is None else failure.persisted.name


@drawn(2, of="long stories of survival")
def test_no_false_word_about_what_isolated_leaders_had() -> None:
    """Acknowledged rows are there once, at their offset. YES rows are there, NO rows are not, MAYBE rows at most once. The order holds."""
    require_kafka()
    topic = f"isolation-{secrets.token_hex(4)}"
    seed = random.SystemRandom().randrange(10**6)
    with ExitStack() as stack:
        links = stack.enter_context(Links())
        cluster = stack.enter_context(a_cluster(links))
        Admin(cluster.bootstrap).create(topic, partitions=PARTITIONS, replicas=3)
        site = Site(cluster, links, topic, random.Random(seed))
        senders = [Sender(number, cluster.bootstrap, topic, seed + number) for number in range(PRODUCERS)]
        for sender in senders:
            stack.enter_context(sender.producer)
        stop = threading.Event()
        threads = [threading.Thread(target=sender.send, args=(stop,)) for sender in senders]
        for thread in threads:
            thread.start()
        stack.callback(stop.set)
        lost: list[int] = []
        kinds = list(Kind)
        while len(lost) < ISOLATIONS or sum(sender.ledger.sent for sender in senders) < ROWS:
            kind = kinds[len(lost) % len(kinds)]
            lost.append(site.isolate(len(lost) % PARTITIONS, kind))
            print(f"isolation {len(lost)}, {kind.value}: {lost[-1]} batches lost", flush=True)
        stop.set()
        for sender, thread in zip(senders, threads, strict=True):
            thread.join(WAIT_S)
            sender.producer.flush(WAIT_S)
        afterwards = [sender.producer.send(topic, b"afterwards", partition=p) for sender in senders for p in range(PARTITIONS)]
        assert all(future.result(WAIT_S).offset >= 0 for future in afterwards)
        said = Counter(sender.said(row) for sender in senders for row in range(sender.ledger.sent))
        there = read_back(cluster, topic, senders)
    codes = sum((sender.tap.codes for sender in senders), Counter[str]())
    questions = sum(sender.tap.questions for sender in senders)
    print(f"seed {seed}, outcomes: {dict(said)}; in the log: {dict(there)}; {questions} DescribeProducers; {dict(codes)}", flush=True)
    assert there["acknowledged"] == said["acknowledged"]
    assert there["YES"] == said["YES"]
    assert there["NO"] == 0
    assert said["acknowledged"] > said.total() // 3
    assert sum(lost) >= PRODUCERS, f"the isolated leaders lost too few batches ({lost}): they were not isolated"


def a_cluster(links: Links) -> KafkaCluster:
    """Three brokers that reach each other only through these connections."""

    def advertise(node: int, listener: str, port: int) -> int:
        return port if listener == "PLAINTEXT" else links.before(node, listener, port)

    return KafkaCluster(brokers=3, config=CONFIG, listeners={BETWEEN: "PLAINTEXT"}, advertise=advertise)


class Site:
    """The cluster in which leaders are isolated."""

    def __init__(self, cluster: KafkaCluster, links: Links, topic: str, rng: random.Random) -> None:
        self._cluster = cluster
        self._links = links
        self._topic = topic
        self._rng = rng

    def isolate(self, partition: int, kind: Kind) -> int:
        """Isolate the partition's leader, let another one lead, and reconnect it.

        Returns how many batches are gone from its logs afterwards, of all the partitions that it led.
        """
        until(self._in_sync, "all replicas in sync", timeout_s=WAIT_S)
        leaders = {number: leader for number, (leader, _) in Admin(self._cluster.bootstrap).in_sync(self._topic).items()}
        node = leaders[partition]
        led = [number for number, leader in leaders.items() if leader == node]
        other = next(each for each in self._cluster.brokers if each != node)

        def between(end: End) -> bool:
            there, listener, here, _ = end
            if kind is Kind.FROM_FOLLOWERS:
                return here == node != there and listener == BETWEEN
            return here != there and node in (here, there)

        self._links.cut(between)
        try:
            begun = self._batches(node, led)
            until(lambda: self._batches(node, led) - begun, "batches that no other broker has", timeout_s=WAIT_S)
            if kind is Kind.FROM_FOLLOWERS:
                self._pause()
                had = self._batches(node, led)
                self._elect(led, node)
            until(lambda: not any(self._leader(other, each) in (node, -1) for each in led), "other leaders", timeout_s=WAIT_S)
            if kind is not Kind.FROM_FOLLOWERS:
                self._pause()
                had = self._batches(node, led)
            if kind is Kind.AND_KILLED:
                self._cluster.kill_broker(node)
        finally:
            self._links.mend()
        if kind is Kind.AND_KILLED:
            self._cluster.start_broker(node)
        until(lambda: self._agrees(node, led), "a log that has what others have", timeout_s=WAIT_S)
        return len(had - self._batches(node, led))

    def _pause(self) -> None:
        """How long producers stay with the isolated leader: less or more than their deadlines. Isolations differ in this."""
        threading.Event().wait(self._rng.choice((0.5, 2.0, 5.0)))

    def _elect(self, partitions: list[int], node: int) -> None:
        """Make another broker the preferred leader, and elect it."""
        others = [each for each in self._cluster.brokers if each != node]
        admin = KafkaAdminClient(bootstrap_servers=self._cluster.bootstrap)
        try:
            refused = admin.alter_partition_reassignments({Place(self._topic, each): [*others, node] for each in partitions})
            assert set(refused.values()) == {None}, refused
            admin.elect_leaders(0, {self._topic: partitions})
        finally:
            admin.close()

    def _batches(self, node: int, partitions: list[int]) -> set[OnDisk]:
        """The batches in a broker's files."""
        return {
            (each, batch.identity, batch.header.base_offset)
            for each in partitions
            for batch in PartitionFile(self._cluster, node, self._topic, each).refresh()
        }

    def _agrees(self, node: int, partitions: list[int]) -> bool:
        """Whether the other logs have everything in this broker's log. It may still count as in sync, and consider itself the leader."""
        try:
            ours = self._batches(node, partitions)
        except CorruptBatch:
            return False  # the broker is truncating and rewriting its log
        return ours <= set[OnDisk]().union(*(self._batches(each, partitions) for each in self._cluster.brokers if each != node))

    def _in_sync(self) -> bool:
        """Whether every partition has its three replicas in sync."""
        return all(isr == 3 and leader >= 0 for leader, isr in Admin(self._cluster.bootstrap).in_sync(self._topic).values())

    def _leader(self, node: int, partition: int) -> int:
        """The leader in this broker's own view."""
        host, port = self._cluster.addresses[node]
        client = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
        try:
            known = client.list_topics(self._topic, timeout=5.0).topics[self._topic].partitions
        except KafkaException:
            return -1
        return known[partition].leader if partition in known else -1


def read_back(cluster: KafkaCluster, topic: str, senders: list[Sender]) -> Counter[str]:
    """Check each claim: how many records of each kind are in the log, every one of them once, in order, at its reported offset."""
    there = Counter[str]()
    last: dict[tuple[int, int], int] = {}
    for message in read_topic(cluster.bootstrap, topic):
        key, value, partition, offset = message.key(), message.value(), message.partition(), message.offset()
        assert partition is not None
        if key is None or value is None:
            continue
        number = int(key.partition(b":")[0])
        sender, row = senders[number], int(value[:10])
        assert value == sender.ledger.value(row)
        assert row > last.get((number, partition), -1), f"row {row} of producer {number} is out of order, or there twice"
        last[number, partition] = row
        said = sender.said(row)
        if said == "acknowledged":
            told = (sender.ledger.partitions[row], sender.ledger.offsets[row])
            assert told == (partition, offset), f"row {row} of producer {number} is at {partition}, {offset}; acknowledged at {told}"
        there[said] += 1
    return there
