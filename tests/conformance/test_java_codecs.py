"""Kafka's own Java tools and every codec: they read what this producer compressed, from Kafka and from the stub, and the stub accepts
theirs.
"""

from __future__ import annotations

import secrets
from collections import Counter

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from fencepost.producer.wire import Api
from fencepost.producer.wire.records import Codec, read_header
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin, read_topic
from tests.drawn import drawn

pytestmark = pytest.mark.timeout(300)

CODECS = [codec.name.lower() for codec in Codec]
COUNT = 300
WAIT_S = 60.0


@pytest.mark.parametrize("where", ["kafka", "stub"])
def test_the_console_consumer_reads_what_we_packed(kafka: KafkaCluster, java_tools: JavaTools | OneByOne, where: str) -> None:
    """One partition with batches of every codec, of one block and of several: the consumer prints each record with its key, in order."""
    topic = f"codecs-{secrets.token_hex(4)}"
    with BrokerStub() as stub:
        bootstrap = kafka.bootstrap if where == "kafka" else stub.bootstrap
        Admin(bootstrap).create(topic)
        expected = []
        for codec in CODECS:
            packed = Codec[codec.upper()]
            with Producer(bootstrap_servers=bootstrap, compression_type=packed, linger_ms=1_000, batch_size=200_000) as producer:
                for number in range(COUNT):
                    key, value = b"%s-%d" % (codec.encode(), number), b"a line of text, packed, %d " % number * (20 if number else 1)
                    producer.send(topic, value, key=key)
                    expected.append((key + b"\t" + value).decode())
                    if number == 0:
                        producer.flush(WAIT_S)
        shown = java_tools.run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
            *("--max-messages", str(len(expected)), "--timeout-ms", "30000", "--formatter-property", "print.key=true"),
            timeout=90.0,
        )
    assert shown.splitlines() == expected


@drawn(2)
@pytest.mark.parametrize("codec", CODECS)
def test_the_stub_takes_what_java_packs(java_tools: JavaTools | OneByOne, codec: str) -> None:
    """Kafka's ProducerPerformance writes to the stub with each codec. The log holds it all in that codec; another client reads it."""
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=1)
        java_tools.run(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "t", "--num-records", str(COUNT), "--record-size", "900", "--throughput", "-1"),
            *("--producer-props", f"bootstrap.servers={stub.bootstrap}", f"compression.type={codec}", "batch.size=100000", "linger.ms=50"),
            timeout=90.0,
        )
        requests = [exchange.request for exchange in stub.journal.requests(Api.PRODUCE)]
        packed = {
            read_header(data.records).codec.name.lower()
            for request in requests
            for topic in getattr(request, "topic_data", [])
            for data in topic.partition_data
        }
        assert packed == {codec}
        ours = Counter(record.value for record in stub.records("t", 0))
        assert Counter(message.value() for message in read_topic(stub.bootstrap, "t")) == ours
        assert sum(ours.values()) == COUNT
        assert {len(value or b"") for value in ours} == {900}
