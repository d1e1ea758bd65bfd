"""This project's log reader and confluent-kafka's consumer, on Apache Kafka: both read the same records, for every producer and codec."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka import Producer as Librdkafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.producer.config.keywords import CompressionName
from fencepost.producer.config.reader import read_settings
from fencepost.producer.producer import Producer
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.reading import Isolation, Limits, LogReader, OffsetsGone
from fencepost.txn.reading.limits import EARLIEST, LATEST
from tests.conformance.fixtures import ClusterFactory
from tests.conformance.kafka import KafkaCluster
from tests.waiting import until

WAIT_S = 60.0
CODECS: tuple[CompressionName, ...] = ("none", "gzip", "snappy", "lz4", "zstd")


def new_topic(kafka: KafkaCluster, **config: str) -> str:
    name = f"reading-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    # The tests write records that are from 1970. Half a minute after its start a broker deletes what is older than its retention.
    admin.create_topics([NewTopic(name, 1, config={"retention.ms": "-1", **config})])[name].result(WAIT_S)
    return name


def reader(kafka: KafkaCluster, isolation: Isolation = Isolation.READ_COMMITTED, **limits: Any) -> LogReader:
    return LogReader(read_settings({"bootstrap_servers": kafka.bootstrap}), isolation=isolation, limits=Limits(**limits))


def ours(kafka: KafkaCluster, topic: str, isolation: Isolation, **limits: Any) -> list[tuple[Any, ...]]:
    """Every record of the topic, up to the offset that this isolation level may read."""
    place = (topic, 0)
    with reader(kafka, isolation, **limits) as log:
        first, until_ = log.offsets({place: EARLIEST})[place], log.offsets({place: LATEST})[place]
        assert first is not None
        assert until_ is not None
        found = []
        for batch in log.read(topic, 0, first, until_, include_headers=True):
            batch.validate(full=True)
            index = batch.schema.get_field_index("timestamp")
            for row in batch.set_column(index, "timestamp", batch.column(index).cast("int64")).to_pylist():
                headers = [(each["key"], each["value"]) for each in row["headers"]] if row["headers"] else None
                found.append((row["offset"], row["key"], row["value"], row["timestampType"], row["timestamp"] // 1000, headers))
    return found


def theirs(kafka: KafkaCluster, topic: str, isolation: Isolation) -> list[tuple[Any, ...]]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation.value,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[tuple[Any, ...]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, "neither a record nor the end of the partition came"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append(as_row(message))
    finally:
        consumer.close()


def as_row(message: Message) -> tuple[Any, ...]:
    kind, ms = message.timestamp()
    return message.offset(), message.key(), message.value(), kind - 1, ms, message.headers()


@pytest.mark.parametrize("isolation", Isolation)
def test_what_anybody_wrote_is_read_as_librdkafka_reads_it(kafka: KafkaCluster, isolation: Isolation) -> None:
    """Every codec, from this producer and from librdkafka, with nulls, headers, given timestamps, and committed, aborted and open
    transactions.
    """
    topic = new_topic(kafka)
    for codec in CODECS:
        with Producer(bootstrap_servers=kafka.bootstrap, compression_type=codec) as producer:
            for n in range(200):
                key = b"key %d" % n if n % 3 else None
                value = b"value %d" % n * (n % 5) if n % 7 else None
                producer.send(topic, value, key=key, headers=[("n", b"%d" % n), ("null", None)] if n % 2 else None, timestamp=1_000 + n)
            producer.flush(WAIT_S)
        stranger = Librdkafka({"bootstrap.servers": kafka.bootstrap, "compression.type": codec})
        for n in range(100):
            stranger.produce(topic, b"from a stranger " * n, b"%d" % n, headers={"ü": b"1"} if n % 2 else None)
        assert stranger.flush(WAIT_S) == 0
    with TransactionalProducer(bootstrap_servers=kafka.bootstrap, transactional_id=f"{topic}-id") as producer:
        for n in range(6):
            with producer.transaction(WAIT_S) as tx:
                tx.send(topic, b"committed %d" % n)
            with pytest.raises(KeyError), producer.transaction(WAIT_S) as tx:
                tx.send(topic, b"aborted %d" % n).result(WAIT_S)
                raise KeyError
        opened = producer.begin(WAIT_S)
        opened.send(topic, b"open").result(WAIT_S)
        expected = theirs(kafka, topic, isolation)
        assert len(expected) == 5 * 300 + (6 if isolation is Isolation.READ_COMMITTED else 13)
        assert ours(kafka, topic, isolation) == expected
        assert ours(kafka, topic, isolation, fetch_bytes=3_000, rows=10) == expected
        opened.abort(WAIT_S)


def test_a_log_with_gaps_and_append_times(kafka_cluster: ClusterFactory) -> None:
    """Compaction leaves gaps in the offsets. LogAppendTime is reported as such."""
    kafka = kafka_cluster(config={"log.cleaner.backoff.ms": 50})
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.bytes": "1048576",
        "segment.ms": "50",
        "delete.retention.ms": "1",
        "message.timestamp.type": "LogAppendTime",
    }
    topic = new_topic(kafka, **config)
    with Producer(bootstrap_servers=kafka.bootstrap, batch_size=2_000) as producer:
        for n in range(600):
            producer.send(topic, b"%d" % n, key=b"%d" % (n % 7))
        producer.flush(WAIT_S)

        def holes() -> bool:
            # Another record rolls the active segment, so that the cleaner can clean the records before it.
            producer.send(topic, b"more", key=b"more").result(WAIT_S)
            offsets = [row[0] for row in ours(kafka, topic, Isolation.READ_COMMITTED)]
            return bool(len(offsets) < offsets[-1])

        until(holes, "the cleaner has been there", timeout_s=WAIT_S, pause_max_s=0.3)
    rows = until(
        lambda: (ours(kafka, topic, Isolation.READ_COMMITTED), theirs(kafka, topic, Isolation.READ_COMMITTED)),
        "the cleaner did nothing between two reads",
        good=lambda both: both[0] == both[1],
    )[0]
    assert {row[3] for row in rows} == {1}


def test_offsets_by_time_and_what_was_deleted(kafka: KafkaCluster) -> None:
    """A timestamp leads to the first record that is not older. For a deleted offset the error says so."""
    topic = new_topic(kafka)
    place = (topic, 0)
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        for n in range(50):
            producer.send(topic, b"", timestamp=1_000 * n + 1_000)
        producer.flush(WAIT_S)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    with reader(kafka) as log:
        assert [log.offsets({place: ms})[place] for ms in (0, 2_500, 50_000, 50_001)] == [0, 2, 49, None]
        admin.delete_records([TopicPartition(topic, 0, 20)])[TopicPartition(topic, 0)].result(WAIT_S)
        assert log.offsets({place: EARLIEST}) == {place: 20}
        with pytest.raises(OffsetsGone) as gone:
            list(log.read(topic, 0, 5, 50))
        assert (gone.value.earliest, gone.value.latest) == (20, 50)
        assert sum(batch.num_rows for batch in log.read(topic, 0, 20, 50)) == 30
