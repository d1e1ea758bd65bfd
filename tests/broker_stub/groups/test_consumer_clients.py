"""librdkafka's consumer with `group.protocol=consumer`, sync and asyncio: shared partitions, commits, regular expressions, static ones."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from tests.broker_stub.groups.confluent_reader import Reader, pump, settings, share_a_topic
from tests.broker_stub.groups.numbered_records import fresh_group, numbered_topic, write
from tests.broker_stub.stub_calls import DEADLINE_S

PARTITIONS = 4
COUNT = 40


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3, config={"group.consumer.heartbeat.interval.ms": "100"}) as running:
        yield running


@pytest.fixture
def group() -> str:
    return fresh_group()


@pytest.fixture
def topic(stub: BrokerStub) -> str:
    """A topic with numbered records in every partition."""
    return numbered_topic(stub, COUNT, partitions=PARTITIONS)


CONFIG = {"group.protocol": "consumer", "topic.metadata.refresh.interval.ms": 500}


def reader_of(stub: BrokerStub, group: str, topic: str, **config: Any) -> Reader:
    """A reader by this protocol."""
    return Reader(stub, group, topic, **{**CONFIG, **config})


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_two_consumers_share_a_topic(stub: BrokerStub, topic: str, group: str, assignor: str) -> None:
    """A second one takes half of the partitions; when it leaves, the first has all again. Nothing is read twice."""
    share_a_topic(
        lambda: reader_of(stub, group, topic, **{"group.remote.assignor": assignor}), stub, topic, count=COUNT, partitions=PARTITIONS
    )


def test_a_consumer_goes_on_where_its_group_was(stub: BrokerStub, topic: str, group: str) -> None:
    """The offsets that one committed are the next one's."""
    first = reader_of(stub, group, topic)
    pump(lambda: len(first.seen) == COUNT, first)
    first.consumer.commit(asynchronous=False)
    first.close()
    write(stub, topic, range(COUNT, COUNT + 4), partitions=PARTITIONS)
    second = reader_of(stub, group, topic)
    try:
        pump(lambda: len(second.seen) == 4, second)
        assert sorted(second.seen) == list(range(COUNT, COUNT + 4))
    finally:
        second.close()


def test_an_asyncio_consumer_goes_on_where_its_group_was(stub: BrokerStub, topic: str, group: str) -> None:
    """`AIOConsumer` reads, commits and leaves; a second one gets only what came later."""
    from confluent_kafka.aio import AIOConsumer

    async def read(count: int) -> list[int]:
        consumer = AIOConsumer({**settings(stub, group), **CONFIG})
        seen: list[int] = []
        try:
            await consumer.subscribe([topic])
            while len(seen) < count:
                for message in await consumer.consume(count, timeout=0.2):
                    assert message.error() is None, message.error()
                    seen.append(int(message.value() or b""))
            await consumer.commit(asynchronous=False)
        finally:
            await consumer.close()
        return sorted(seen)

    assert asyncio.run(asyncio.wait_for(read(COUNT), 3 * DEADLINE_S)) == list(range(COUNT))
    write(stub, topic, range(COUNT, COUNT + 4), partitions=PARTITIONS)
    assert asyncio.run(asyncio.wait_for(read(4), 3 * DEADLINE_S)) == list(range(COUNT, COUNT + 4))


def test_a_static_consumer_keeps_its_partitions(stub: BrokerStub, topic: str, group: str) -> None:
    """It is closed and opened again, and the other one is not asked to take its partitions."""
    first = reader_of(stub, group, topic, **{"group.instance.id": "one"})
    second = reader_of(stub, group, topic, **{"group.instance.id": "two"})
    opened = [second]
    try:
        pump(lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2, first, second)
        owned, others = first.partitions, second.partitions
        first.close()
        again = reader_of(stub, group, topic, **{"group.instance.id": "one"})
        opened.append(again)
        pump(lambda: again.partitions == owned, again, second)
        assert second.partitions == others
    finally:
        for each in opened:
            each.close()


def test_a_consumer_subscribes_by_a_regular_expression(stub: BrokerStub, group: str) -> None:
    """It gets the topics that match."""
    prefix = f"r-{uuid.uuid4().hex[:8]}"
    for name in (f"{prefix}-1", f"{prefix}-2", f"not-{prefix}"):
        stub.create_topic(name, partitions=1)
    reader = reader_of(stub, group, f"^{prefix}-.*")
    try:
        pump(lambda: reader.partitions == {(f"{prefix}-1", 0), (f"{prefix}-2", 0)}, reader)
    finally:
        reader.close()


def test_an_admin_client_sees_the_group(stub: BrokerStub, topic: str, group: str) -> None:
    """Its type, its state, its members and what they own."""
    from confluent_kafka import ConsumerGroupType
    from confluent_kafka.admin import AdminClient

    reader = reader_of(stub, group, topic)
    try:
        pump(lambda: len(reader.partitions) == PARTITIONS, reader)
        admin = AdminClient({"bootstrap.servers": stub.bootstrap})
        listed = {each.group_id: each for each in admin.list_consumer_groups().result(DEADLINE_S).valid}
        assert listed[group].type == ConsumerGroupType.CONSUMER
        described = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
        assert described.type == ConsumerGroupType.CONSUMER
        (member,) = described.members
        assert len(member.assignment.topic_partitions) == PARTITIONS
    finally:
        reader.close()
