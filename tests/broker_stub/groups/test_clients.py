"""Stock consumers with a group id: they share the partitions, commit, and continue at the group's offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.broker_stub.groups.confluent_reader import Reader, pump, share_a_topic
from tests.broker_stub.groups.numbered_records import fresh_group, numbered_topic, write
from tests.broker_stub.stub_calls import DEADLINE_S

COUNT = 60
PARTITIONS = 6


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3) as running:
        yield running


@pytest.fixture
def group() -> str:
    return fresh_group()


@pytest.fixture
def topic(stub: BrokerStub) -> str:
    """A topic with numbered records in every partition."""
    return numbered_topic(stub, COUNT, partitions=PARTITIONS)


CONFIG = {"heartbeat.interval.ms": 100, "session.timeout.ms": 6000}


def numbers(values: list[bytes]) -> list[int]:
    return sorted(int(value) for value in values)


def reader_of(stub: BrokerStub, group: str, topic: str, **config: Any) -> Reader:
    """A reader by the classic protocol."""
    return Reader(stub, group, topic, **{**CONFIG, **config})


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_two_confluent_consumers_share_a_topic(stub: BrokerStub, topic: str, group: str, assignor: str) -> None:
    """One reads everything; a second one takes half of the partitions; when it leaves, the first has all again. Nothing is read twice."""
    share_a_topic(
        lambda: reader_of(stub, group, topic, **{"partition.assignment.strategy": assignor}),
        stub,
        topic,
        count=COUNT,
        partitions=PARTITIONS,
    )


def test_a_confluent_consumer_goes_on_where_its_group_was(stub: BrokerStub, topic: str, group: str) -> None:
    """A consumer commits its records when it closes. The next one begins after them, for every setting of where to begin."""
    first = reader_of(stub, group, topic, **{"enable.auto.commit": True})
    try:
        pump(lambda: len(first.seen) >= COUNT // 2, first)
    finally:
        first.close()
    second = reader_of(stub, group, topic)
    try:
        pump(lambda: len(first.seen) + len(second.seen) == COUNT, second)
    finally:
        second.close()
    assert sorted(first.seen + second.seen) == list(range(COUNT))


def test_a_confluent_consumer_survives_its_coordinator(stub: BrokerStub, topic: str, group: str) -> None:
    """The coordinator is restarted and its leadership moved: the consumer finds the next one, and what it committed is there."""
    consumer = reader_of(stub, group, topic)
    try:
        pump(lambda: len(consumer.seen) == COUNT, consumer)
        consumer.consumer.commit(asynchronous=False)
        coordinator = stub.journal.requests(Api.HEARTBEAT)[-1].node
        stub.restart_broker(coordinator)
        write(stub, topic, range(COUNT, 2 * COUNT), partitions=PARTITIONS)
        pump(lambda: len(consumer.seen) == 2 * COUNT, consumer)
        consumer.consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    again = reader_of(stub, group, topic)
    try:
        pump(lambda: len(again.partitions) == PARTITIONS, again)
        write(stub, topic, range(2 * COUNT, 3 * COUNT), partitions=PARTITIONS)
        pump(lambda: len(again.seen) >= COUNT, again)
        assert sorted(again.seen) == list(range(2 * COUNT, 3 * COUNT))
    finally:
        again.close()


def test_a_static_confluent_consumer_comes_back(stub: BrokerStub, topic: str, group: str) -> None:
    """With an instance id a restart is no rebalance: the generation stays, and what was committed counts (KIP-345)."""
    settings = {"group.instance.id": "one"}
    first = reader_of(stub, group, topic, **settings)
    try:
        pump(lambda: len(first.seen) == COUNT, first)
        first.consumer.commit(asynchronous=False)
    finally:
        first.close()
    stub.journal.clear()
    second = reader_of(stub, group, topic, **settings)
    try:
        pump(lambda: len(second.partitions) == PARTITIONS, second)
        joins = [exchange.response for exchange in stub.journal.requests(Api.JOIN_GROUP)]
        assert [getattr(answer, "generation_id", None) for answer in joins] == [1]
        write(stub, topic, range(COUNT, 2 * COUNT), partitions=PARTITIONS)
        pump(lambda: len(second.seen) >= COUNT, second)
        assert sorted(second.seen) == list(range(COUNT, 2 * COUNT))
    finally:
        second.close()


def test_faults_reach_consumers(stub: BrokerStub, topic: str, group: str) -> None:
    """A consumer outlasts errors, lost answers and cut connections on its way into the group, and at its commits."""
    on = stub.faults.on
    faults = [on(api).error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) for api in (Api.JOIN_GROUP, Api.SYNC_GROUP, Api.OFFSET_COMMIT)]
    faults += [on(api).after_append().disconnect() for api in (Api.JOIN_GROUP, Api.SYNC_GROUP, Api.HEARTBEAT)]
    consumer = reader_of(stub, group, topic, **{"enable.auto.commit": True, "auto.commit.interval.ms": 50})
    try:
        pump(lambda: len(consumer.seen) >= COUNT, consumer)
        pump(lambda: all(fault.hits for fault in faults), consumer)
    finally:
        consumer.close()
    assert set(consumer.seen) == set(range(COUNT))


def test_kafka_python(stub: BrokerStub, topic: str, group: str) -> None:
    """kafka-python's consumer reads as a member, commits, and its successor goes on."""
    from kafka import KafkaConsumer

    def read(count: int) -> list[bytes]:
        consumer = KafkaConsumer(
            topic, bootstrap_servers=stub.bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        )
        values: list[bytes] = []
        deadline = time.monotonic() + 3 * DEADLINE_S
        try:
            while len(values) < count:
                assert time.monotonic() < deadline, len(values)
                # Not a short time: kafka-python does not come back from one that ends while it joins.
                for records in consumer.poll(timeout_ms=int(1000 * DEADLINE_S)).values():
                    values += [record.value for record in records]
            consumer.commit()
            assert len(consumer.assignment()) == PARTITIONS
        finally:
            consumer.close()
        return values

    assert numbers(read(COUNT)) == list(range(COUNT))
    write(stub, topic, range(COUNT, 2 * COUNT), partitions=PARTITIONS)
    assert numbers(read(COUNT)) == list(range(COUNT, 2 * COUNT))


def test_aiokafka_consumers_share_a_topic(stub: BrokerStub, topic: str, group: str) -> None:
    """Two aiokafka consumers share a topic; what they commit their successor does not see again."""
    from aiokafka import AIOKafkaConsumer

    def consumer() -> Any:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=stub.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )

    async def take(each: Any, values: list[bytes]) -> None:
        for records in (await each.getmany(timeout_ms=50)).values():
            values += [record.value for record in records]

    async def run() -> tuple[list[bytes], list[bytes]]:
        first, second = consumer(), consumer()
        seen: list[bytes] = []
        await first.start()
        await second.start()
        try:
            while [len(each.assignment()) for each in (first, second)] != [PARTITIONS // 2] * 2:
                await asyncio.gather(take(first, []), take(second, []))
            for each in (first, second):
                await each.seek_to_beginning()
            while len(seen) < COUNT:
                await asyncio.gather(take(first, seen), take(second, seen))
            await first.commit()
            await second.commit()
        finally:
            await first.stop()
            await second.stop()
        write(stub, topic, range(COUNT, 2 * COUNT), partitions=PARTITIONS)
        later: list[bytes] = []
        third = consumer()
        await third.start()
        try:
            while len(later) < COUNT:
                await take(third, later)
        finally:
            await third.stop()
        return seen, later

    seen, later = asyncio.run(asyncio.wait_for(run(), 3 * DEADLINE_S))
    assert numbers(seen) == list(range(COUNT))
    assert numbers(later) == list(range(COUNT, 2 * COUNT))


@pytest.mark.parametrize("creates", [True, False])
def test_topics_made_on_demand(creates: bool, group: str) -> None:
    """Where topics are made on demand, a producer makes one by writing to it, with the default number of partitions; a consumer that had
    subscribed to it before finds it. Where they are not, the producer is told that there is no such topic."""
    from confluent_kafka import KafkaError, Producer

    failures: list[Any] = []
    with BrokerStub(auto_create_topics=creates, default_partitions=3) as stub:
        consumer = reader_of(stub, group, "t", **{"topic.metadata.refresh.interval.ms": 100})
        producer = Producer(
            {"bootstrap.servers": stub.bootstrap, "topic.metadata.propagation.max.ms": 30_000 if creates else 200, "log_level": 0}
        )
        try:
            producer.produce("t", b"7", on_delivery=lambda error, _: failures.append(error) if error else None)
            assert producer.flush(DEADLINE_S) == 0
            if creates:
                assert failures == []
                pump(lambda: bool(consumer.seen), consumer)
                assert (consumer.seen, len(consumer.partitions)) == ([7], 3)
            else:
                assert [error.code() for error in failures] == [KafkaError.UNKNOWN_TOPIC_OR_PART]
                assert stub.cluster.topics.named("t") is None
        finally:
            consumer.close()
