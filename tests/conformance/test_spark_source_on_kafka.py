"""The requests of Spark's driver to the streaming source, on Apache Kafka, without a Spark: topics that grow, are deleted and are created
again.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from fencepost.producer.producer import Producer
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.spark.datasource.reader import DataLoss, RangePartition, StreamReader
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.waiting import until

ALL = ReadAllAvailable()
WAIT_S = 60.0


@contextlib.contextmanager
def reader(kafka: KafkaCluster, topic: str, **options: str) -> Iterator[StreamReader]:
    reader = StreamReader({"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options})
    try:
        yield reader
    finally:
        reader.stop()


def write(kafka: KafkaCluster, topic: str, count: int, partition: int = 0) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=partition)
        producer.flush(WAIT_S)


def values(reader: StreamReader, start: Any, end: Any) -> list[bytes]:
    parts = reader.partitions(start, end)
    return [value for part in parts for batch in reader.read(part) for value in batch.column("value").to_pylist()]


def test_a_batch_ends_before_what_is_open_and_finds_new_partitions(kafka: KafkaCluster) -> None:
    """Records of a transaction come after its commit. Records of an aborted one never come."""
    topic = f"source-{secrets.token_hex(4)}"
    admin = Admin(kafka.bootstrap)
    admin.create(topic)
    write(kafka, topic, 3)
    with (
        reader(kafka, topic) as source,
        TransactionalProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic) as producer,
    ):
        tx = producer.begin(WAIT_S)
        tx.send(topic, b"open", partition=0).result(WAIT_S)
        start = source.initialOffset()
        end = source.latestOffset(start, ALL)
        assert end == {topic: {"0": 3}}
        assert values(source, start, end) == [b"0", b"1", b"2"]
        tx.commit(WAIT_S)
        admin.grow(topic, 2)
        write(kafka, topic, 2, partition=1)
        # The coordinator answers the commit before it writes the marker.
        after = until(lambda: source.latestOffset(end, ALL), "the marker is there", good=lambda now: now[topic] == {"0": 5, "1": 2})
        assert values(source, end, after) == [b"open", b"0", b"1"]
        assert source.latestOffset(after, ALL) == after


def test_what_kafka_has_deleted_ends_the_query_unless_it_may_be_gone(kafka: KafkaCluster) -> None:
    """Deleted records, and a topic that is deleted and created again, end the query unless `failOnDataLoss` is off."""
    topic = f"source-{secrets.token_hex(4)}"
    admin = Admin(kafka.bootstrap)
    admin.create(topic)
    write(kafka, topic, 10)
    place = TopicPartition(topic, 0, 4)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.delete_records([place])[place].result(WAIT_S)
    with reader(kafka, topic) as strict, reader(kafka, topic, failOnDataLoss="false") as lenient:
        until(lambda: strict.initialOffset(), "the records are deleted", good=lambda now: now == {topic: {"0": 4}})
        begin, end = {topic: {"0": 1}}, {topic: {"0": 10}}
        with pytest.raises(DataLoss, match="offset 1 is not in the log, which goes from 4 to 10"):
            values(strict, begin, end)
        assert values(lenient, begin, end) == [b"%d" % n for n in range(4, 10)]
        assert all(isinstance(part, RangePartition) for part in lenient.partitions(begin, end))
        admin.delete(topic)
        with pytest.raises(DataLoss, match="'failOnDataLoss' to 'false'"):
            strict.latestOffset(end, ALL)
        assert lenient.latestOffset(end, ALL) == {}
        admin.create(topic)
        write(kafka, topic, 2)
        with pytest.raises(DataLoss, match="went back from offset 10 to 2"):
            strict.partitions(end, strict.latestOffset(end, ALL))
