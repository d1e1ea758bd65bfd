"""Leaders that are cut off from their followers, and lose what they had when one of these leads: every claim of the producer is held
against the logs that the cluster ends up with, at the exact offset.

The followers are frozen (SIGSTOP), and the leader goes on appending above its high watermark, and says so to whoever asks, for less or
more time than the deadlines of what waits there. Then it freezes, too, the followers thaw, and one of them is elected; when the old leader
thaws, its log is cut. A sample by default; FENCEPOST_SURVIVAL=full sends a million records through thirty isolations.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from producer import DeliveryError, Persisted, Producer
from tests.conformance.fixtures import ClusterFactory
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.disk import PartitionFile
from tests.conformance.survival.ledger import Ledger
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.tap import Tap
from tests.conformance.test_survival_outcomes import settled
from tests.waiting import until

FULL = os.environ.get("FENCEPOST_SURVIVAL") == "full"
ROWS = 1_000_000 if FULL else 60_000
ISOLATIONS = 30 if FULL else 3
PARTITIONS = 3
ROUNDS_MAX = 3 * ISOLATIONS
"""Chance has it that a leader loses nothing: then there are more rounds."""
WAIT_S = 180.0
APPENDS_S = 20.0

pytestmark = pytest.mark.timeout(3600 if FULL else 600)

QUICK_ELECTIONS = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500, "min.insync.replicas": 2}
SETTINGS: dict[str, Any] = {"batch_size": 8192, "request_timeout_ms": 1500, "delivery_timeout_ms": 4000, "max_block_ms": 300_000}


def test_no_false_word_about_what_isolated_leaders_had(kafka_cluster: ClusterFactory) -> None:
    """Acknowledged is there once, at the offset that was told; YES is there, NO is not, MAYBE at most once; order holds."""
    cluster = kafka_cluster(brokers=3, config=QUICK_ELECTIONS)
    topic = f"isolation-{secrets.token_hex(4)}"
    Admin(cluster.bootstrap).create(topic, partitions=PARTITIONS, replicas=3)
    ledger = Ledger(ROWS * ROUNDS_MAX // ISOLATIONS, seed=random.SystemRandom().randrange(10**6))
    failures: dict[int, DeliveryError] = {}
    cut = 0
    with Producer(bootstrap_servers=cluster.bootstrap, **SETTINGS) as producer:
        tap = Tap(producer)
        for number in range(ROUNDS_MAX):
            if number >= ISOLATIONS and cut:
                break
            rows = range(ROWS * number // ISOLATIONS, ROWS * (number + 1) // ISOLATIONS)
            half = (rows.start + rows.stop) // 2
            send(producer, topic, ledger, failures, range(rows.start, half))
            producer.flush(WAIT_S)  # what was in flight to the leader already would keep it from getting more
            sender = threading.Thread(target=send, args=(producer, topic, ledger, failures, range(half, rows.stop)))
            cut += isolate(cluster, topic, number % PARTITIONS, sender, patience_s=(1.0, 4.5, 6.5)[number // PARTITIONS % 3])
            sender.join(WAIT_S)
            producer.flush(WAIT_S)
            print(f"isolation {number + 1}: {ledger.acked:,} acknowledged, {ledger.failed:,} failed, {cut} batches cut", flush=True)
        afterwards = [producer.send(topic, b"afterwards", partition=p) for p in range(PARTITIONS)]
        assert all(future.result(WAIT_S).offset >= 0 for future in afterwards)
    said = Counter("acknowledged" if row not in failures else failures[row].persisted.name for row in range(ledger.sent))
    there = read_back(cluster, topic, ledger, failures)
    print(f"said: {dict(said)}; of these in the log: {dict(there)}; {tap.questions} questions; {dict(tap.codes)}", flush=True)
    assert ledger.sent == said.total() >= ROWS
    assert there["acknowledged"] == said["acknowledged"]
    assert there["YES"] == said["YES"]
    assert there["NO"] == 0
    assert said["acknowledged"] > ledger.sent // 3
    assert cut > 0, "no leader lost anything: that was no isolation"


def isolate(cluster: KafkaCluster, topic: str, partition: int, sender: threading.Thread, *, patience_s: float) -> int:
    """Freeze the followers of the partition's leader, have it append for so long, and let one of them lead. Returns how many batches the
    leader had that are gone from its log afterwards."""
    until(lambda: in_sync(cluster, topic), "all replicas in sync", timeout_s=WAIT_S)
    leader = Admin(cluster.bootstrap).in_sync(topic)[partition][0]
    followers = [node for node in cluster.brokers if node != leader]
    begun = len(PartitionFile(cluster, leader, topic, partition).refresh())
    frozen = [*followers]
    for node in followers:
        cluster.pause_broker(node)
    try:
        sender.start()
        alone = PartitionFile(cluster, leader, topic, partition)
        try:
            # The first of them may still reach the followers, whose fetches wait at the leader.
            until(lambda: len(alone.refresh()) > begun + 1, "appends without followers", timeout_s=APPENDS_S)
        except TimeoutError:
            return 0  # A Kafka reads no second request of a connection before it has answered the first: nothing was taken in time.
        time.sleep(patience_s)  # How long the producer is left with this leader is what the rounds differ in.
        had = {(batch.identity, batch.header.base_offset) for batch in alone.refresh()}
        cluster.pause_broker(leader)
        frozen = [leader]
        for node in followers:
            cluster.resume_broker(node)
        until(lambda: leader_seen_by(cluster, followers[0], topic, partition) in followers, "another leader", timeout_s=WAIT_S)
    finally:
        for node in {*frozen, leader}:
            cluster.resume_broker(node)
    until(lambda: in_sync(cluster, topic), "all replicas in sync again", timeout_s=WAIT_S)
    has = {(batch.identity, batch.header.base_offset) for batch in PartitionFile(cluster, leader, topic, partition).refresh()}
    return len(had - has)


def in_sync(cluster: KafkaCluster, topic: str) -> bool:
    """Whether every partition has its three replicas in sync."""
    return all(isr == 3 for _, isr in Admin(cluster.bootstrap).in_sync(topic).values())


def leader_seen_by(cluster: KafkaCluster, node: int, topic: str, partition: int) -> int:
    """Who leads as far as that broker knows; asked of it alone, as a client that knows the others would wait for the frozen one."""
    host, port = cluster.addresses[node]
    client = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
    try:
        known = client.list_topics(topic, timeout=5.0).topics[topic].partitions
    except KafkaException:
        return -1
    return known[partition].leader if partition in known else -1


def send(producer: Producer, topic: str, ledger: Ledger, failures: dict[int, DeliveryError], rows: range) -> None:
    """Send these rows, each outcome to be noted when it is known."""
    for row in rows:
        key, value = ledger.sending(row)
        producer.send(topic, value, key=key, on_delivery=partial(settled, ledger, failures, row))


def read_back(cluster: KafkaCluster, topic: str, ledger: Ledger, failures: dict[int, DeliveryError]) -> Counter[str]:
    """What became of each claim: how many records of each are in the log, every one of them once, in order, and where it was told to be."""
    there = Counter[str]()
    last: dict[int, int] = {}
    for message in read_topic(cluster.bootstrap, topic):
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert partition is not None
        if value is None or value == b"afterwards":
            continue
        row = int(value[:10])
        assert value == ledger.value(row)
        assert row > last.get(partition, -1), f"row {row} is out of order, or there twice"
        last[partition] = row
        if row not in failures:
            assert (ledger.partitions[row], ledger.offsets[row]) == (partition, offset), f"row {row} is not where it was acknowledged"
        there["acknowledged" if row not in failures else failures[row].persisted.name] += 1
    assert all(failure.persisted in Persisted for failure in failures.values())
    return there
