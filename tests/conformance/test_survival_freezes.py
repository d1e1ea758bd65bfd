"""Frozen brokers, lagging replicas, and a log that has lost its end: each record is still there once.

The parts with three brokers run with FENCEPOST_SURVIVAL=full.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.producer import Persisted, Producer
from tests.conformance.fixtures import ClusterFactory, require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.disk import PartitionFile
from tests.conformance.survival.ledger import Account, Ledger
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.tap import LOST, Tap
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)

FULL = os.environ.get("FENCEPOST_SURVIVAL") == "full"
WAIT_S = 120.0
FREEZES = 5 if FULL else 2
FREEZE_S = 3.0
WINDOW = 5  # batches of a partition in flight
RECORD_BYTES_MIN = 20
SETTINGS: dict[str, Any] = {
    "batch_size": 4096,
    "buffer_memory": 1 << 20,
    "request_timeout_ms": 1000,
    "delivery_timeout_ms": 300_000,
    "max_block_ms": 300_000,
    "socket_connection_setup_timeout_ms": 1000,
}


@pytest.fixture(scope="module")
def lone() -> Iterator[KafkaCluster]:
    """A broker that these tests may freeze, and whose log they may cut."""
    require_kafka()
    with KafkaCluster(config={"quota.window.num": 2}) as cluster:  # quotas are averages over so many seconds
        yield cluster


def test_a_broker_that_freezes_past_the_request_timeout(lone: KafkaCluster) -> None:
    """When the broker resumes, it reads requests that the producer gave up long ago, and their replacements. No record is duplicated."""
    topic = f"freezes-{secrets.token_hex(4)}"
    Admin(lone.bootstrap).create(topic, partitions=3)
    ledger = Ledger(FREEZES * 20_000, seed=11)
    with Producer(bootstrap_servers=lone.bootstrap, **SETTINGS) as producer:
        tap = Tap(producer)
        for number in range(FREEZES):
            first = number * 20_000
            send(producer, topic, ledger, range(first, first + 10_000))
            lone.pause_broker(1)
            thaw = threading.Timer(FREEZE_S, lone.resume_broker, (1,))
            thaw.start()
            send(producer, topic, ledger, range(first + 10_000, first + 20_000))
            thaw.join()
            producer.flush(WAIT_S)
    print(f"{FREEZES} freezes: {tap.resent} of {tap.sent} batches sent again; {dict(tap.codes)}")
    assert tap.resent > 0
    assert_once(lone, topic, ledger)


def test_a_log_that_lost_acknowledged_records(lone: KafkaCluster) -> None:
    """The broker restarts without the end of its log. All records that it had not acknowledged before arrive once, in order.

    A batch whose first request had no answer fails with MAYBE there. The test lets a slow start take its time, so only a connection that
    breaks while the broker starts leaves such batches: no more than the window has.
    """
    topic = f"mutilated-{secrets.token_hex(4)}"
    Admin(lone.bootstrap).create(topic)
    ledger = Ledger(30_000, seed=12)
    with Producer(bootstrap_servers=lone.bootstrap, **{**SETTINGS, "request_timeout_ms": 60_000}) as producer:
        tap = Tap(producer)
        send(producer, topic, ledger, range(10_000))
        producer.flush(WAIT_S)
        lone.kill_broker(1)
        file = PartitionFile(lone, 1, topic, 0)
        first_lost = file.refresh()[-10]
        with file.path.open("r+b") as log:
            log.truncate(first_lost.position)
        for snapshot in file.path.parent.glob("*.snapshot"):
            snapshot.unlink()
        sender = threading.Thread(target=send, args=(producer, topic, ledger, range(10_000, 20_000)))
        sender.start()
        lone.start_broker(1)
        sender.join(WAIT_S)
        producer.flush(WAIT_S)
        send(producer, topic, ledger, range(20_000, 30_000))
    account = Account(ledger, offsets=False)
    for message in read_topic(lone.bootstrap, topic):
        account.take_message(message)
    unanswered = sum(answers[:1] == [LOST] for answers in tap.answers.values())
    doubtful = set(ledger.claims)
    assert set(ledger.claims.values()) <= {Persisted.MAYBE}, tap.codes
    assert len(doubtful) <= min(unanswered, WINDOW) * SETTINGS["batch_size"] // RECORD_BYTES_MIN, (unanswered, len(doubtful), tap.codes)
    assert (ledger.acked, ledger.failed) == (30_000 - len(doubtful), len(doubtful))
    assert (account.doubled, account.out_of_order, account.strange) == (0, 0, 0)
    # With one partition and one sender, row numbers and offsets are equal up to this point.
    assert account.rows() - doubtful == (set(range(first_lost.header.base_offset)) | set(range(10_000, 30_000))) - doubtful
    assert tap.highest_epoch == 1 or doubtful


def test_a_broker_that_asks_for_a_pause(lone: KafkaCluster) -> None:
    """Above a byte quota no request leaves before the broker's throttle time is over, and everything arrives once."""
    client = f"slow-{secrets.token_hex(4)}"
    quota = ("--alter", "--add-config", "producer_byte_rate=300000", "--entity-type", "clients", "--entity-name", client)
    lone.tool("kafka.admin.ConfigCommand", "--bootstrap-server", lone.bootstrap, *quota)
    topic = f"throttled-{secrets.token_hex(4)}"
    Admin(lone.bootstrap).create(topic)
    ledger = Ledger(10_000, seed=14)
    with Producer(bootstrap_servers=lone.bootstrap, client_id=client, **SETTINGS) as producer:
        tap = Tap(producer)
        send(producer, topic, ledger, range(10_000))
    assert tap.throttled > 0
    assert tap.impatient == 0
    assert_once(lone, topic, ledger)


@pytest.mark.skipif(not FULL, reason="part of FENCEPOST_SURVIVAL=full")
def test_replicas_that_die_and_leaders_that_freeze(kafka_cluster: ClusterFactory) -> None:
    """Too few replicas are in sync. Then a leader freezes, and resumes when another one leads. No record is lost or duplicated."""
    cluster = kafka_cluster(brokers=3)
    admin = Admin(cluster.bootstrap)
    topic = f"replicas-{secrets.token_hex(4)}"
    admin.create(topic, replicas=3, config={"min.insync.replicas": "3"})
    ledger = Ledger(60_000, seed=13)
    with Producer(bootstrap_servers=cluster.bootstrap, **SETTINGS) as producer:
        tap = Tap(producer)
        sender = threading.Thread(target=send, args=(producer, topic, ledger, range(30_000)))
        sender.start()
        until(lambda: ledger.acked > 5_000, "acknowledgements", timeout_s=WAIT_S)
        follower = admin.in_sync(topic)[0][0] % 3 + 1
        cluster.kill_broker(follower)
        until(lambda: admin.in_sync(topic)[0][1] == 2, "a shrunken ISR", timeout_s=WAIT_S)
        cluster.start_broker(follower)
        sender.join(WAIT_S)
        producer.flush(WAIT_S)
        sender = threading.Thread(target=send, args=(producer, topic, ledger, range(30_000, 60_000)))
        sender.start()
        until(lambda: ledger.acked > 35_000, "acknowledgements", timeout_s=WAIT_S)
        leader = admin.in_sync(topic)[0][0]
        cluster.pause_broker(leader)
        try:
            until(lambda: admin.in_sync(topic)[0][0] not in (-1, leader), "another leader", timeout_s=WAIT_S)
            until(lambda: tap.codes["NOT_ENOUGH_REPLICAS"] > 0, "something sent to it", timeout_s=WAIT_S)
        finally:
            cluster.resume_broker(leader)
        sender.join(WAIT_S)
        producer.flush(WAIT_S)
    print(f"{tap.resent} of {tap.sent} batches sent again; {dict(tap.codes)}")
    assert_once(cluster, topic, ledger)


def send(producer: Producer, topic: str, ledger: Ledger, rows: range) -> None:
    for row in rows:
        ledger.send(producer, topic, row)


def assert_once(cluster: KafkaCluster, topic: str, ledger: Ledger) -> None:
    """Every row is acknowledged, and in the log once, in order, at its reported offset."""
    account = Account(ledger)
    for message in read_topic(cluster.bootstrap, topic):
        account.take_message(message)
    print(account.verdict())
    assert account.faults() == dict.fromkeys(account.faults(), 0)
    assert ledger.acked == ledger.rows == account.found
    assert account.sum == ledger.sum
