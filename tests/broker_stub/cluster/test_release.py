"""The stub as an older release: what it offers, what it closes the connection on, and clients that make do with it. The answers themselves
are compared with a Kafka 3.9.1's in tests/conformance/test_conformance_3_9.py."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.release import DIFFERENCES, KAFKA_3_9, KAFKA_4_3, RELEASES, UNSTABLE_4_3, Differences
from fencepost.broker_stub.requests.router import served
from fencepost.producer import Producer
from fencepost.producer.config.keywords import CompressionName
from fencepost.producer.wire import REQUESTS, Api, ApiVersionsRequest, ApiVersionsResponse
from tests.broker_stub.stub_calls import Talker, fetch_request, produce_request
from tests.conformance.raw import Closed

DEADLINE_S = 20.0
COUNT = 100
RECORDS = [b"value-%d" % number for number in range(COUNT)]
OLDER = pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])


@pytest.fixture
def older() -> Iterator[BrokerStub]:
    with BrokerStub(emulate="3.9", brokers=2, journal=20_000) as stub:
        stub.create_topic("t")
        yield stub


def test_the_newest_release_is_what_the_handlers_say() -> None:
    """4.3 has no ranges of its own, so that it cannot drift from the handlers, but for versions that are not stable; 3.9 has no API and no
    version that they do not know."""
    assert BrokerStub().cluster.release is KAFKA_4_3
    unstable = BrokerStub(config={"unstable.api.versions.enable": True}).cluster.release
    assert list(unstable.offers(served())) == list(served())
    kept = set(unstable.offers(served())) - set(KAFKA_4_3.offers(served()))
    assert {each.api: each.highest for each in kept} == UNSTABLE_4_3 == {Api.INIT_PRODUCER_ID: 6}
    newest = {each.api: each.highest for each in served()}
    for each in KAFKA_3_9.offers(served()):
        assert each.lowest == 0
        assert each.highest <= newest[each.api]
        assert each.highest in REQUESTS[each.api].versions


def test_a_release_that_is_none_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(ValueError, match=r"emulate='2\.8': the stub emulates Kafka 3\.9 or 4\.3"):
        BrokerStub(emulate="2.8")
    assert list(RELEASES) == ["3.9", "4.3"]
    assert tuple(DIFFERENCES) == Differences._fields
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", "broker", "--port", "0", "--emulate", "9.9"], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 2
    assert "emulate='9.9': the stub emulates Kafka 3.9 or 4.3" in ran.stderr


def test_what_3_9_offers(older: BrokerStub) -> None:
    """Older ends, version 0 everywhere, no transaction.version, and a metadata.version of its own."""
    with Talker(older) as talker:
        answer = talker.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    assert isinstance(answer, ApiVersionsResponse)
    ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert (ranges[Api.PRODUCE], ranges[Api.FETCH], ranges[Api.METADATA]) == ((0, 11), (0, 17), (0, 12))
    assert {each.name: each.max_version_level for each in answer.finalized_features} == {"metadata.version": 21}


def test_old_message_formats_are_not_served(older: BrokerStub) -> None:
    """Produce 0 to 2 and Fetch 0 to 3 end the connection, and so does what 3.9 does not have; the next versions are served."""
    for request, refused, taken in ((produce_request("t", b""), (0, 2, 12), 3), (fetch_request("t"), (0, 3, 18), 4)):
        for version in refused:
            with Talker(older) as talker, pytest.raises(Closed):
                talker.ask(request, version)
        with Talker(older) as talker:
            talker.ask(request, taken)


@OLDER
def test_our_producer(older: BrokerStub, compression: CompressionName) -> None:
    """It writes in the newest version that there is, and every record is there once."""
    with Producer(bootstrap_servers=older.bootstrap, compression_type=compression) as producer:
        futures = [producer.send("t", value) for value in RECORDS]
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(COUNT))
    assert [record.value for record in older.records("t", 0)] == RECORDS
    assert {exchange.version for exchange in older.journal.requests(Api.PRODUCE)} == {11}


@OLDER
def test_confluent(older: BrokerStub, compression: str) -> None:
    """librdkafka writes, and reads with a group."""
    client = ConfluentProducer({"bootstrap.servers": older.bootstrap, "enable.idempotence": True, "compression.type": compression})
    for value in RECORDS:
        client.produce("t", value)
    assert client.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": older.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    read: list[Any] = []
    try:
        consumer.subscribe(["t"])
        deadline = time.monotonic() + DEADLINE_S
        while len(read) < COUNT and time.monotonic() < deadline:
            read += [message.value() for message in consumer.consume(COUNT - len(read), timeout=0.1) if message.error() is None]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert read == RECORDS


@OLDER
def test_aiokafka_writes_and_reads(older: BrokerStub, compression: str) -> None:
    """aiokafka writes idempotently, and reads with a group."""

    async def run() -> list[bytes | None]:
        codec = None if compression == "none" else compression
        client = AIOKafkaProducer(bootstrap_servers=older.bootstrap, enable_idempotence=True, compression_type=codec)
        await client.start()
        try:
            for value in RECORDS:
                await asyncio.wait_for(client.send_and_wait("t", value), DEADLINE_S)
        finally:
            await client.stop()
        consumer = AIOKafkaConsumer("t", bootstrap_servers=older.bootstrap, group_id="g", auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), DEADLINE_S)).value for _ in RECORDS]
        finally:
            await consumer.stop()

    assert asyncio.run(run()) == RECORDS


@OLDER
def test_kafka_python(older: BrokerStub, compression: str) -> None:
    """kafka-python writes idempotently, and reads with a group."""
    codec = None if compression == "none" else compression
    client = KafkaProducer(bootstrap_servers=older.bootstrap, enable_idempotence=True, compression_type=codec)
    try:
        futures = [client.send("t", value) for value in RECORDS]
        assert [future.get(DEADLINE_S).offset for future in futures] == list(range(COUNT))
    finally:
        client.close(DEADLINE_S)
    consumer = KafkaConsumer(
        "t", bootstrap_servers=older.bootstrap, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_S * 1000
    )
    try:
        assert [next(consumer).value for _ in RECORDS] == RECORDS
    finally:
        consumer.close()
