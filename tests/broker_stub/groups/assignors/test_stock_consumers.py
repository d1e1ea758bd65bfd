"""Stock consumers that rebalance on the stub get what the assignors here compute from the group's own members."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.groups.assignors import ASSIGNORS
from fencepost.broker_stub.groups.assignors import subscriptions as assignors
from fencepost.cli.groups_asking import Described, describe_group
from fencepost.producer.config.reader import read_settings
from fencepost.txn.protocol.ask_now import ask_patiently
from tests.broker_stub.groups.assignors.worked_examples import said
from tests.waiting import until

pytestmark = pytest.mark.timeout(200)

DEADLINE_S = 60.0
PARTITIONS = {"a": 5, "b": 4}
MIXED = (("a",), ("a", "b"), ("b",))
EQUAL = (("a", "b"), ("a", "b"), ("a", "b"))


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(config={"group.initial.rebalance.delay.ms": "100"}) as running:
        for topic, count in PARTITIONS.items():
            running.create_topic(topic, partitions=count)
        yield running


def polling(poll: Callable[[], object], close: Callable[[], object]) -> Callable[[], None]:
    """Poll in a thread until the returned function is called, which closes the consumer."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            poll()
        close()

    thread = threading.Thread(target=run)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()

    return end


def confluent(stub: BrokerStub, group: str, topics: Sequence[str], assignor: str) -> Callable[[], None]:
    """librdkafka's consumer."""
    from confluent_kafka import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": stub.bootstrap,
        "group.id": group,
        "partition.assignment.strategy": assignor,
        "heartbeat.interval.ms": 100,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe(list(topics))
    return polling(lambda: consumer.poll(0.05), consumer.close)


def kafka_python(stub: BrokerStub, group: str, topics: Sequence[str], assignor: str) -> Callable[[], None]:
    """kafka-python's consumer."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    known = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}
    consumer = KafkaConsumer(
        *topics,
        bootstrap_servers=stub.bootstrap,
        group_id=group,
        partition_assignment_strategy=[known[assignor]],
        heartbeat_interval_ms=100,
    )
    return polling(lambda: consumer.poll(timeout_ms=50), consumer.close)


def settled(stub: BrokerStub, group: str, count: int) -> Described:
    """The group when it is stable with that many members, and all partitions are assigned."""
    settings = read_settings({"bootstrap_servers": stub.bootstrap})

    def look() -> Described | None:
        return ask_patiently(settings, lambda client: describe_group(client, group), DEADLINE_S)

    def is_settled(found: Described | None) -> bool:
        if found is None or found.state != "Stable" or len(found.members) != count:
            return False
        return sum(len(each.partitions) for each in found.members) == sum(PARTITIONS.values())

    found = until(look, f"group {group} is stable with {count} members", good=is_settled, timeout_s=DEADLINE_S)
    assert found is not None
    return found


def members(group: Described, owned: dict[str, tuple[assignors.TopicPartition, ...]] | None = None) -> list[assignors.Member]:
    """The members as an assignor gets them."""
    found = []
    for each in group.members:
        assert each.subscription is not None
        found.append(assignors.Member(each.id, each.subscription.topics, (owned or {}).get(each.id, ()), generation=1))
    return found


@pytest.mark.parametrize(
    ("client", "assignor", "topics"),
    [
        (confluent, "range", EQUAL),
        (confluent, "range", MIXED),
        (confluent, "roundrobin", EQUAL),
        (confluent, "roundrobin", MIXED),
        (kafka_python, "range", MIXED),
        (kafka_python, "roundrobin", EQUAL),  # its round robin fails where a member must be skipped
    ],
    ids=lambda value: getattr(value, "__name__", None) or (value if isinstance(value, str) else "mixed" if value == MIXED else "equal"),
)
def test_the_assignors_without_memory(
    stub: BrokerStub, client: Callable[..., Callable[[], None]], assignor: str, topics: Sequence[Sequence[str]]
) -> None:
    """Each member of a group of three has exactly the partitions that the function gives it."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    with ExitStack() as consumers:
        for each in topics:
            consumers.callback(client(stub, name, each, assignor))
        group = settled(stub, name, len(topics))
    expected = ASSIGNORS[assignor](members(group), PARTITIONS, {}).partitions
    assert {each.id: sorted(each.partitions) for each in group.members} == {each: sorted(several) for each, several in expected.items()}


@pytest.mark.parametrize(("client", "assignor"), [(confluent, "cooperative-sticky"), (kafka_python, "sticky")])
def test_the_sticky_assignors(stub: BrokerStub, client: Callable[..., Callable[[], None]], assignor: str) -> None:
    """A third member gets its share, and the others keep theirs: as many partitions move as the function moves. Which ones is each
    client's own choice."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    with ExitStack() as consumers:
        for _ in range(2):
            consumers.callback(client(stub, name, ("a", "b"), assignor))
        before = {each.id: each.partitions for each in settled(stub, name, 2).members}
        consumers.callback(client(stub, name, ("a", "b"), assignor))
        group = settled(stub, name, 3)
    after = {each.id: each.partitions for each in group.members}
    expected = ASSIGNORS["sticky"](members(group, before), PARTITIONS, {})
    assert sorted(map(len, after.values())) == sorted(map(len, expected.partitions.values())), said(expected.partitions)
    kept = {each: len(set(after[each]) & set(before[each])) for each in before}
    assert kept == {each: len(set(expected.partitions[each]) & set(before[each])) for each in before}
