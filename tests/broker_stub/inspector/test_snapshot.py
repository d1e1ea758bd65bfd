"""A stub's snapshot: brokers and their changes, what holds readers back, producers, groups; bounded, and without side effects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer

from fencepost import BrokerStub, Producer, TransactionalProducer, VirtualClock
from fencepost.broker_stub.inspector import snapshot as snapshots
from fencepost.broker_stub.inspector.moments import Moments
from tests.waiting import until

pytestmark = pytest.mark.timeout(60)
WAIT_S = 20.0


def part_of(stub: BrokerStub, topic: str, index: int = 0) -> dict[str, Any]:
    (found,) = [each for each in stub.snapshot()["topics"] if each["name"] == topic]
    return dict(found["partitions"][index])


def changes(stub: BrokerStub) -> list[tuple[Any, ...]]:
    """What happened to brokers and to partition 0 of the topic."""
    return [
        (each["what"], each["node"]) if "node" in each else (each["what"], each["before"], each["after"])
        for each in stub.snapshot()["changes"]
        if each.get("partition", 0) == 0
    ]


def test_brokers_and_their_changes() -> None:
    """The states of brokers, and in order what happened to them and to the partition that they led."""
    clock = VirtualClock()
    with BrokerStub(brokers=3, clock=clock) as stub:
        stub.create_topic("orders", replication_factor=3)
        assert changes(stub) == []
        stub.stop_broker(1, clean=False)
        stub.pause_broker(2)
        stub.sever(3, "controller")
        assert [each["state"] for each in stub.snapshot()["brokers"]] == ["down", "paused", "up"]
        stub.advance(20_000)
        assert [each["state"] for each in stub.snapshot()["brokers"]] == ["down", "paused", "fenced"]
        stub.mend(3, "controller")
        stub.resume_broker(2)
        stub.start_broker(1)
        stub.advance(1000)
        seen = changes(stub)
        assert [each["state"] for each in stub.snapshot()["brokers"]] == ["up", "up", "up"]
    assert seen[:3] == [("killed", 1), ("leader", [1], [2]), ("isr", [1, 2, 3], [2, 3])]
    assert all(each in seen for each in [("paused", 2), ("fenced", 3), ("unfenced", 3), ("resumed", 2), ("started", 1)]), seen
    assert json.loads(json.dumps(stub.snapshot()))["format"] == snapshots.FORMAT


def test_what_holds_readers_back() -> None:
    """The open transaction with its id and since when; nothing once it has ended."""
    with BrokerStub() as stub, TransactionalProducer(stub.settings, transactional_id="tx", linger_ms=0) as producer:
        tx = producer.begin(timeout=WAIT_S)
        tx.send("orders", b"v").result(WAIT_S)
        part = part_of(stub, "orders")
        held = part["held"]
        assert (held["txn"], held["state"], held["offset"], part["lso"], part["hw"]) == ("tx", "Ongoing", 0, 0, 1)
        assert 0 <= stub.snapshot()["now_ms"] - held["since_ms"] < 60_000
        (txn,) = stub.snapshot()["transactions"]
        assert (txn["state"], txn["partitions"]) == ("Ongoing", [["orders", 0]])
        tx.commit(timeout=WAIT_S)
        until(lambda: part_of(stub, "orders")["held"] is None, "the end of the transaction")
        assert part_of(stub, "orders")["lso"] == 2


def test_producers_with_their_newest_batches() -> None:
    """The five batches by which the log recognizes one that comes again."""
    with BrokerStub() as stub:
        with Producer(stub.settings, linger_ms=0) as producer:
            for number in range(7):
                producer.send("orders", b"%d" % number).result(WAIT_S)
        (known,) = part_of(stub, "orders")["producers"]
    assert [each[:4] for each in known["batches"]] == [[number, number, number, number] for number in range(2, 7)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_with_offsets(protocol: str) -> None:
    """Members with their partitions, and committed offsets."""
    with BrokerStub(config={"group.initial.rebalance.delay.ms": "0"}) as stub:
        with Producer(stub.settings, linger_ms=0) as producer:
            producer.send("orders", b"v").result(WAIT_S)
        consumer = Consumer(
            {"bootstrap.servers": stub.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
            | {"group.protocol": protocol, "client.id": "reader"}
        )
        consumer.subscribe(["orders"])
        until(lambda: consumer.poll(0.2) is not None, "a record")
        consumer.commit(asynchronous=False)
        (group,) = stub.snapshot()["groups"]
        consumer.close()
    assert (group["id"], group["type"], group["state"]) == ("readers", protocol, "Stable")
    assert [(each["client"], each["partitions"]) for each in group["members"]] == [("reader", [["orders", 0]])]
    assert [(each["topic"], each["partition"], each["offset"]) for each in group["offsets"]] == [("orders", 0, 1)]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics beyond the limit of partitions are counted, not shown, and each partition has fewer batches where many have some."""
    monkeypatch.setattr(snapshots, "PARTITIONS_MAX", 4)
    monkeypatch.setattr(snapshots, "BATCHES_TOTAL", 6)
    monkeypatch.setattr(snapshots, "BATCHES_MIN", 2)
    with BrokerStub() as stub:
        stub.create_topic("a", partitions=3)
        stub.create_topic("b", partitions=3)
        with Producer(stub.settings, linger_ms=0) as producer:
            for number in range(12):
                producer.send("a", b"v", partition=number % 3).result(WAIT_S)
        seen = stub.snapshot()
    assert ([topic["name"] for topic in seen["topics"]], seen["topics_left_out"]) == (["a"], 1)
    assert [len(part["batches"]) for part in seen["topics"][0]["partitions"]] == [2, 2, 2]


def test_topics_that_clients_use_have_room_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all topics fit, the page shows those of its exchanges, in the order of their names."""
    monkeypatch.setattr(snapshots, "PARTITIONS_MAX", 3)
    with BrokerStub() as stub:
        for name in "abcde":
            stub.create_topic(name)
        with Producer(stub.settings, linger_ms=0) as producer:
            for name in "ec":
                producer.send(name, b"v").result(WAIT_S)
        moment = Moments(stub._source()).whole()
    seen = moment["snapshot"]
    assert ([topic["name"] for topic in seen["topics"]], seen["topics_left_out"]) == (["a", "c", "e"], 2)


def test_looking_changes_nothing() -> None:
    """A snapshot of a new stub creates no topic and no coordinator, and counts as no request."""
    with BrokerStub() as stub:
        before = stub.stats()
        seen = stub.snapshot()
        assert (seen["topics"], seen["groups"], seen["transactions"]) == ([], [], [])
        assert stub.stats() == before
        assert not {"groups", "transactions"} & set(vars(stub.services))
