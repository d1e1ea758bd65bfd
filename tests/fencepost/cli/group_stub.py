"""A stub with groups for the tests of `fencepost groups`: "live" has two members, "past" has offsets and no member."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from fencepost import Producer
from fencepost.broker_stub import BrokerStub
from tests.fencepost.cli.shell import Ran, invoke
from tests.waiting import until

WAIT_S = 30.0
OFFSETS = {("t", 0): 4, ("t", 1): 10, ("u", 0): 2}
"""What "past" has committed. Every partition of "t" has ten records, "u" has five in its one."""

BEGAN_MS = 1_700_000_000_000


def groups(stub: BrokerStub, *arguments: object) -> Ran:
    return invoke("groups", *arguments, "--bootstrap", stub.bootstrap)


@contextmanager
def stub_with_groups() -> Iterator[BrokerStub]:
    with BrokerStub(config={"group.initial.rebalance.delay.ms": "200"}) as stub:
        stub.create_topic("t", partitions=3)
        stub.create_topic("u")
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            for number in range(10):
                for partition in range(3):
                    producer.send("t", b"x", partition=partition, timestamp=BEGAN_MS + number * 1000)
            for number in range(5):
                producer.send("u", b"x", timestamp=BEGAN_MS + number * 1000)
            producer.flush(WAIT_S)
        commit(stub, "past", OFFSETS)
        commit(stub, "live", {("t", 0): 3})
        with member(stub, "live", "first"), member(stub, "live", "second", **{"group.instance.id": "two"}):
            until(lambda: is_settled(stub), "both members have partitions", timeout_s=WAIT_S)
            yield stub


@contextmanager
def docs_stub() -> Iterator[BrokerStub]:
    """The cluster of docs/groups.md: "orders" has two members, "reports" has offsets and no member."""
    with BrokerStub(config={"group.initial.rebalance.delay.ms": "200"}) as stub:
        stub.create_topic("t", partitions=6)
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            for number in range(120):
                producer.send("t", b"x", partition=number % 6, timestamp=BEGAN_MS + number * 1000)
            producer.flush(WAIT_S)
        commit(stub, "orders", {("t", number): 20 - number for number in range(6)})
        commit(stub, "reports", {("t", number): 8 for number in range(3)})
        with member(stub, "orders", "shop", **{"group.instance.id": "one"}), member(stub, "orders", "shop", **{"group.instance.id": "two"}):
            until(lambda: is_settled(stub, "orders"), "both members have partitions", timeout_s=WAIT_S)
            yield stub


def is_settled(stub: BrokerStub, group: str = "live") -> bool:
    """Whether both members have partitions."""
    ran = groups(stub, "describe", group, "--json")
    if ran.code != 0:
        return False
    (found,) = ran.objects
    return found["state"] == "Stable" and len(found["members"]) == 2 and all(each["partitions"] for each in found["members"])


def commit(stub: BrokerStub, group: str, offsets: dict[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()], asynchronous=False)
    consumer.close()


@contextmanager
def member(stub: BrokerStub, group: str, client_id: str, **more: Any) -> Iterator[None]:
    """A consumer of "t" that polls in a thread and commits nothing."""
    settings = {"bootstrap.servers": stub.bootstrap, "group.id": group, "client.id": client_id, "enable.auto.commit": False}
    newer = more.get("group.protocol") == "consumer"  # of which the coordinator decides how to assign, and how often to send heartbeats
    classic = {} if newer else {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 100}
    consumer = Consumer({**settings, **classic, "log_level": 0, **more})
    consumer.subscribe(["t"])
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.05)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield
    finally:
        stop.set()
        polling.join(WAIT_S)
        consumer.close()
