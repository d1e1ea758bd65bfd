"""Stock clients: their producers and consumers work with the stub as with Kafka."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer as OurProducer
from fencepost.producer.config.keywords import CompressionName
from fencepost.producer.wire import Api
from fencepost.producer.wire.records import read_header
from tests.broker_stub.stub_calls import DEADLINE_S, Talker

COUNT = 500
PARTITIONS = 6
CODECS = pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3) as running:
        yield running


@pytest.fixture
def topic(stub: BrokerStub) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    stub.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    return name


def sent() -> list[tuple[bytes, bytes]]:
    return [(b"key-%d" % (number % 50), b"value-%d" % number) for number in range(COUNT)]


def in_log(stub: BrokerStub, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for partition in range(PARTITIONS) for record in stub.records(topic, partition)]


def wrong(got: list[Any], expected: list[Any]) -> dict[str, list[Any]]:
    """The differences from what was sent: lost records, doubled records, and keys whose records are in another order. Empty without a
    difference."""
    counted, order = Counter(got), {key: [value for k, value in expected if k == key] for key, _ in expected}
    found = {
        "lost": [record for record in expected if not counted[record]],
        "doubled": [record for record, count in counted.items() if count > 1],
        "unknown": [record for record in counted if record not in set(expected)],
        "out of order": [key for key, values in order.items() if list(dict.fromkeys(v for k, v in got if k == key)) != values],
    }
    return {name: records for name, records in found.items() if records}


def codecs_of(stub: BrokerStub, topic: str) -> set[str]:
    requests: list[Any] = [each.request for each in stub.journal.requests(Api.PRODUCE)]
    return {
        read_header(data.records).codec.name.lower()
        for request in requests
        for asked in request.topic_data
        if asked.name == topic or stub.cluster.topic_name(asked.topic_id) == topic
        for data in asked.partition_data
    }


def consume_with_confluent(stub: BrokerStub, topic: str, **config: Any) -> list[tuple[bytes | None, bytes | None]]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": stub.bootstrap, "group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**settings, **config})
    records: list[tuple[bytes | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ended: set[int | None] = set()
        deadline = time.monotonic() + DEADLINE_S
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{len(records)} records, the ends of {ended}"
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                records.append((message.key(), message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    finally:
        consumer.close()
    return records


def consume_with_kafka_python(stub: BrokerStub, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    from kafka import KafkaConsumer, TopicPartition

    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer = KafkaConsumer(bootstrap_servers=stub.bootstrap, group_id=None, enable_auto_commit=False)
    try:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        assert sum(ends.values()) == COUNT
        consumer.seek_to_beginning(*partitions)
        records: list[tuple[bytes | None, bytes | None]] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(records) < COUNT:
            assert time.monotonic() < deadline, len(records)
            for batch in consumer.poll(timeout_ms=200).values():
                records += [(record.key, record.value) for record in batch]
    finally:
        consumer.close()
    return records


async def consume_with_aiokafka(stub: BrokerStub, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=stub.bootstrap, group_id=None, enable_auto_commit=False)
    await consumer.start()
    records: list[tuple[bytes | None, bytes | None]] = []
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while len(records) < COUNT:
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                records += [(record.key, record.value) for record in batch]
    finally:
        await consumer.stop()
    return records


@CODECS
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_confluent_kafka(stub: BrokerStub, topic: str, codec: str, isolation: str) -> None:
    """librdkafka's idempotent producer with acks=all, and its consumer from the start to the end of every partition."""
    from confluent_kafka import Producer

    failures: list[Any] = []
    settings = {"bootstrap.servers": stub.bootstrap, "enable.idempotence": True, "acks": "all", "compression.type": codec}
    producer = Producer({**settings, "linger.ms": 5})
    for key, value in sent():
        producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert failures == []
    assert wrong(in_log(stub, topic), sent()) == {}
    assert codec in codecs_of(stub, topic)
    assert wrong(consume_with_confluent(stub, topic, **{"isolation.level": isolation}), sent()) == {}


@CODECS
def test_kafka_python(stub: BrokerStub, topic: str, codec: str) -> None:
    """kafka-python's producer with acks=all, and its consumer with assigned partitions."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=stub.bootstrap, acks="all", compression_type=None if codec == "none" else codec, linger_ms=5)
    try:
        waiting = [producer.send(topic, value, key=key) for key, value in sent()]
        producer.flush(timeout=DEADLINE_S)
        assert all(each.get(timeout=DEADLINE_S).topic == topic for each in waiting)
    finally:
        producer.close(timeout=DEADLINE_S)
    assert wrong(in_log(stub, topic), sent()) == {}
    assert codec in codecs_of(stub, topic)
    assert wrong(consume_with_kafka_python(stub, topic), sent()) == {}


@CODECS
def test_aiokafkas_producer_and_consumer(stub: BrokerStub, topic: str, codec: str) -> None:
    """aiokafka's idempotent producer, and its consumer with assigned partitions."""
    from aiokafka import AIOKafkaProducer

    async def run() -> list[tuple[bytes | None, bytes | None]]:
        producer = AIOKafkaProducer(
            bootstrap_servers=stub.bootstrap,
            enable_idempotence=True,
            acks="all",
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        await producer.start()
        try:
            waiting = [await producer.send(topic, value, key=key) for key, value in sent()]
            await asyncio.gather(*waiting)
        finally:
            await producer.stop()
        return await consume_with_aiokafka(stub, topic)

    records = asyncio.run(asyncio.wait_for(run(), 3 * DEADLINE_S))
    assert wrong(in_log(stub, topic), sent()) == {}
    assert codec in codecs_of(stub, topic)
    assert wrong(records, sent()) == {}


@CODECS
def test_three_clients_read_the_batches_of_our_producer(stub: BrokerStub, topic: str, codec: CompressionName) -> None:
    """Batches of our own producer, opened by three clients that share none of our code."""
    with OurProducer(bootstrap_servers=stub.bootstrap, compression_type=codec, linger_ms=5) as producer:
        for key, value in sent():
            producer.send(topic, value, key=key)
    assert codecs_of(stub, topic) == {codec}
    assert wrong(consume_with_confluent(stub, topic), sent()) == {}
    assert wrong(consume_with_kafka_python(stub, topic), sent()) == {}
    assert wrong(asyncio.run(asyncio.wait_for(consume_with_aiokafka(stub, topic), 3 * DEADLINE_S)), sent()) == {}


def test_what_one_client_wrote_another_reads(stub: BrokerStub, topic: str) -> None:
    """Batches stay as their producer made them: one topic with records of two clients is read by a third."""
    from confluent_kafka import Producer
    from kafka import KafkaProducer

    first, second = sent()[: COUNT // 2], sent()[COUNT // 2 :]
    confluent = Producer({"bootstrap.servers": stub.bootstrap, "compression.type": "lz4"})
    for key, value in first:
        confluent.produce(topic, value, key, partition=0)
    assert confluent.flush(DEADLINE_S) == 0
    python = KafkaProducer(bootstrap_servers=stub.bootstrap, acks="all")
    try:
        for key, value in second:
            python.send(topic, value, key=key, partition=0)
        python.flush(timeout=DEADLINE_S)
    finally:
        python.close(timeout=DEADLINE_S)
    assert consume_with_confluent(stub, topic) == sent()


def test_every_broker_is_reached(stub: BrokerStub, topic: str) -> None:
    """Each broker answers under its own id and address, and a stock client writes to every one of them."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

    known = AdminClient({"bootstrap.servers": stub.bootstrap.split(",")[1]}).list_topics(timeout=DEADLINE_S)
    # confluent-kafka declares the host and the cluster id as None.
    assert {broker.id: (str(broker.host), broker.port) for broker in known.brokers.values()} == stub.addresses
    assert str(known.cluster_id) == stub.cluster.cluster_id
    assert {partition.leader for partition in known.topics[topic].partitions.values()} == {1, 2, 3}
    producer = Producer({"bootstrap.servers": stub.bootstrap})
    for partition in range(PARTITIONS):
        producer.produce(topic, b"v", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    for node in stub.addresses:
        assert {exchange.node for exchange in stub.journal.requests(Api.PRODUCE, node=node)} == {node}
        with Talker(stub, node) as talker:
            assert talker.metadata(topic).topics[0].error_code == 0


def test_confluent_kafka_survives_trouble(stub: BrokerStub, topic: str) -> None:
    """Lost answers, cut connections, moved leaders and a restart while it sends: librdkafka delivers each record once, in order.

    Two things are kept from it, for on Kafka they can double or swap records of any client that pipelines. Every partition knows the
    producer before the trouble begins, because one that does not takes any sequence for the first. And no leader moves to the broker that
    was restarted, because it remembers only the newest batch from before.
    """
    from confluent_kafka import Producer

    failures: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": stub.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "request.timeout.ms": 1000,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 50,
            "log_level": 0,
        }
    )
    for partition in range(PARTITIONS):
        producer.produce(topic, b"first", b"first", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    dropped = stub.faults.on(Api.PRODUCE).where(topic=topic).after_append().disconnect().probability(0.2, seed=1)
    try:
        for number, (key, value) in enumerate(sent()):
            producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None)
            producer.poll(0.001)
            if number % 100 == 50:
                stub.move_leader(topic, number % PARTITIONS, to=4 - stub.leader(topic, number % PARTITIONS))
                stub.cut_connections(1 + number % 3)
            if number == 20:
                stub.restart_broker(2)
        dropped.wait(timeout=DEADLINE_S)
        dropped.remove()
        assert producer.flush(3 * DEADLINE_S) == 0
    finally:
        dropped.remove()
    assert failures == []
    assert wrong([record for record in in_log(stub, topic) if record[0] != b"first"], sent()) == {}
    assert dropped.hits > 0
