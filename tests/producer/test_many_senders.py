"""Sixteen threads, two hundred tasks, and troubles while they send: nothing hangs, nothing is lost or doubled, every key is in order.

A sample by default; FENCEPOST_CROWD=full sends a hundred times as much (`make crowds`). The seed is printed; FENCEPOST_SEED replays one.
"""

from __future__ import annotations

import os
import random
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.producer.wire import Api
from fencepost.producer.wire.records import iter_batches, read_records
from tests.conformance.survival.reader import read_topic
from tests.drawn import drawn
from tests.producer import many_senders
from tests.producer.many_senders import FULL, Account, Crowd, Plan
from tests.producer.stub_helpers import QUICK, until

TIMES = 100 if FULL else 1
ROWS = 3_200
PARTITIONS = 4
GROWN = 7
TOPIC = "t"
SMALL_BUFFER = 64 * 1024

pytestmark = pytest.mark.timeout(3_600 if FULL else 200)

KINDS: dict[str, tuple[Crowd, int]] = {
    "16 threads on a Producer": (many_senders.threads, 16),
    "200 tasks on an AsyncProducer": (many_senders.tasks, 200),
    "200 tasks on a Producer": (many_senders.tasks_on_a_thread, 200),
}

Logs = list[list[tuple[bytes | None, bytes | None]]]
Trouble = Callable[[BrokerStub, random.Random], Logs]
"""What happens in the middle of it; returns what is in logs that are no more."""


def nothing(stub: BrokerStub, rng: random.Random) -> Logs:
    return []


def slow_broker(stub: BrokerStub, rng: random.Random) -> Logs:
    """One broker answers late, another now and then."""
    slow, slower = rng.sample(sorted(stub.addresses), 2)
    stub.faults.on(Api.PRODUCE).where(node=slow).after_append().delay(30).forever()
    stub.faults.on(Api.PRODUCE).where(node=slower).before().delay(150).probability(0.2, rng.randrange(1 << 30))
    return []


def lost_replies(stub: BrokerStub, rng: random.Random) -> Logs:
    stub.faults.on(Api.PRODUCE).after_append().disconnect().probability(0.1, rng.randrange(1 << 30))
    stub.cut_connections()
    return []


def partitions_added(stub: BrokerStub, rng: random.Random) -> Logs:
    stub.add_partitions(TOPIC, GROWN)
    heard_of(stub)
    return []


def topic_recreated(stub: BrokerStub, rng: random.Random) -> Logs:
    old = stub.cluster.topics.named(TOPIC)
    assert old is not None
    stub.delete_topic(TOPIC)
    stub.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
    return logs_of(old)


def addresses_changed(stub: BrokerStub, rng: random.Random) -> Logs:
    """The brokers move to other ports one by one, until no broker is at an address of bootstrap_servers."""
    before = set(stub.addresses.values())
    for node in rng.sample(sorted(stub.addresses), len(stub.addresses)):
        stub.restart_broker(node, clean=rng.random() < 0.5, port=another_port(before))
        heard_of(stub)
    assert not before & set(stub.addresses.values())
    return []


def another_port(before: set[tuple[str, int]]) -> int:
    """A free one, and none that was a broker's."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            place: tuple[str, int] = listener.getsockname()
        if place not in before:
            return place[1]


def heard_of(stub: BrokerStub) -> None:
    """The producer has heard of what is now: it has asked for metadata, and asked again, which it does when it has its answer."""
    asked = stub.faults.on(Api.METADATA).delay(0).forever()
    asked.wait(2, 60)
    asked.remove()


TROUBLES: dict[str, tuple[Trouble, dict[str, Any]]] = {
    "none": (nothing, {}),
    "a slow broker": (slow_broker, {"request_timeout_ms": 5_000}),
    "a full buffer": (slow_broker, {"request_timeout_ms": 5_000, "buffer_memory": SMALL_BUFFER, "batch_size": 4_096}),
    "lost replies": (lost_replies, {}),
    "partitions added": (partitions_added, {"metadata_max_age_ms": 50}),
    "a topic deleted and created again": (topic_recreated, {}),
    "every address changed": (addresses_changed, {"metadata_max_age_ms": 50}),
}


@drawn(3)
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_crowd_on_one_producer(kind: str, trouble: str) -> None:
    """Every row that was accepted is acknowledged, and the log has each once, undamaged, and those of one key in order."""
    send, senders = KINDS[kind]
    strike, settings = TROUBLES[trouble]
    seed = int(os.environ.get("FENCEPOST_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"{kind}, {trouble}: FENCEPOST_SEED={seed}")
    rng = random.Random(seed)
    plan = Plan(TOPIC, senders=senders, rows_each=ROWS // senders * TIMES, seed=seed)
    account = Account()
    with BrokerStub(brokers=3, auto_create_topics=False, journal=0) as stub, ThreadPoolExecutor(1) as pool:
        stub.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        sending = pool.submit(send, plan, {"bootstrap_servers": stub.bootstrap, **QUICK, **settings}, account)
        begin_at = rng.randrange(plan.rows // 10, plan.rows // 3)
        try:
            until(lambda: sending.done() or account.accepted >= begin_at, "it begins", timeout_s=600 if FULL else 60)
            gone = strike(stub, rng)
        finally:
            account.struck.set()
        sending.result(many_senders.DEADLINE_S)
        stub.faults.clear()
        logs = [*gone, *read(stub)]
    assert many_senders.faults_of(plan, logs) == {"lost": 0, "doubled": 0, "damaged": 0, "foreign": 0, "out of order": 0}
    assert account.accepted == account.acknowledged == plan.rows
    if trouble == "partitions added":
        assert len(logs) > PARTITIONS


def read(stub: BrokerStub) -> Logs:
    """What a stranger reads, partition by partition."""
    found: defaultdict[int | None, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
    for message in read_topic(stub.bootstrap, TOPIC):
        key, value = message.key(), message.value()
        assert not isinstance(key, str)
        assert not isinstance(value, str)
        found[message.partition()].append((key, value))
    return list(found.values())


def logs_of(topic: Topic) -> Logs:
    """The records of a topic that no client can reach any more."""
    return [[record for _, batch in each.log.batches() for record in _records(bytes(batch))] for each in topic.partitions]


def _records(data: bytes) -> Iterator[tuple[bytes | None, bytes | None]]:
    for _, batch in iter_batches(data):
        for record in read_records(batch):
            yield record.key, record.value
