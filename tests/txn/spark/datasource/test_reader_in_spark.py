"""`format("fencepost")` as a source in Spark: the rows that confluent-kafka's consumer finds, each once over restarts."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import ConfigError
from fencepost.producer.producer import Producer
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.spark.datasource.reader import BatchReader, RangePartition
from tests.conformance.fixtures import kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.drawn import drawn
from tests.reading import read_values
from tests.txn.spark.releases import RELEASE, needs

__all__ = ["kafka"]

pytestmark = pytest.mark.timeout(300)

WAIT_S = 120


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    """Spark's workers, which are other processes, reach it over TCP."""
    with BrokerStub(brokers=2, seed=1) as stub:
        yield stub


@pytest.fixture(params=["stub", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The stub, and a real Kafka."""
    found: BrokerStub | KafkaCluster = request.getfixturevalue(request.param)
    return found.bootstrap


def write(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, value, key=b"k" + value, partition=partition)
        producer.flush(WAIT_S)


def given(bootstrap: str, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "kafka.retry.backoff.ms": "1", **options}


class Query:
    """A streaming query that takes what is there and ends; `rows` has what its batches had. Each run is a restart from the checkpoint."""

    def __init__(self, spark: SparkSession, place: Path, options: dict[str, str]) -> None:
        self.rows: list[tuple[str, int, int, bytes]] = []
        self.batches: list[int] = []
        self._spark = spark
        self._place = place
        self._options = options

    def run(self, then: Callable[[int], None] = lambda batch: None, **options: str) -> None:
        """`then` is called with the number of each batch when its rows have been taken."""

        def take(frame: DataFrame, batch: int) -> None:
            taken = [(row.topic, row.partition, row.offset, bytes(row.value)) for row in frame.collect()]
            then(batch)
            self.rows += taken
            self.batches.append(len(taken))

        stream = self._spark.readStream.format("fencepost").options(**self._options, **options).load()
        query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self._place)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(WAIT_S), "the query did not end"
        finally:
            query.stop()

    def offsets(self, batch: int) -> Any:
        """What the checkpoint says of a batch's end."""
        return json.loads((self._place / "offsets" / str(batch)).read_text().splitlines()[-1])


@drawn(2, of="long queries of Spark")
def test_a_batch_query_reads_what_a_consumer_reads(spark: SparkSession, bootstrap: str) -> None:
    """Found by its name alone. Every column, headers, nulls; of transactions what is committed; more tasks than partitions."""
    topic = f"batch-{secrets.token_hex(4)}"
    # Records of 1970 are older than Kafka's retention.ms of seven days.
    Admin(bootstrap).create(topic, partitions=2, config={"retention.ms": "-1"})
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        producer.send(topic, None, key=b"tombstone", partition=0, timestamp=1_500)
        producer.send(topic, b"v", partition=0, timestamp=2_500, headers=[("a", b"1"), ("b", None)])
        producer.flush(WAIT_S)
    write(bootstrap, topic, [b"%d" % n for n in range(100)], partition=1)
    with TransactionalProducer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        with pytest.raises(KeyError), producer.transaction(WAIT_S) as tx:
            tx.send(topic, b"aborted", partition=1).result(WAIT_S)
            raise KeyError
        with producer.transaction(WAIT_S) as tx:
            tx.send(topic, b"committed", partition=1)
    frame = spark.read.format("fencepost").options(**given(bootstrap, subscribe=topic, includeHeaders="true", minPartitions="4")).load()
    found = frame.selectExpr("*", "unix_millis(timestamp) AS ms", "spark_partition_id() AS task").collect()
    assert len({row.task for row in found}) >= 4
    rows = sorted(found, key=lambda row: (row.partition, row.offset))
    assert [bytes(row.value or b"") for row in rows] == [
        value for partition in (0, 1) for value in read_values(bootstrap, topic, (partition,))
    ]
    first, second = rows[:2]
    assert (bytes(first.key), first.value, first.headers, first.ms, first.timestampType) == (b"tombstone", None, None, 1_500, 0)
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert [(each.key, each.value) for each in second.headers] == [("a", bytearray(b"1")), ("b", None)]
    assert second.key is None
    everything = BatchReader(given(bootstrap, subscribePattern=".*"))
    topics = {each.wanted.topic for each in everything.partitions() if isinstance(each, RangePartition)}
    assert topic in topics
    assert "__transaction_state" not in topics, "Kafka's own topics have to be named"


def test_a_batch_query_reads_a_range(stub: BrokerStub) -> None:
    """Between offsets, and between times; a time after every record ends where the log does."""
    stub.create_topic("range", partitions=2)
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for n in range(30):
            producer.send("range", b"", partition=0, timestamp=1_000 * n + 1_000)
        producer.flush(WAIT_S)

    def ranges(**options: str) -> list[tuple[int, int, int]]:
        reader = BatchReader(given(stub.bootstrap, **options))
        wanted = [each.wanted for each in reader.partitions() if isinstance(each, RangePartition)]
        return [(each.partition, each.start, each.until) for each in wanted]

    assert ranges(subscribe="range") == [(0, 0, 30)]
    assert ranges(assign='{"range":[0]}', startingOffsets='{"range":{"0":10}}', endingOffsets='{"range":{"0":13}}') == [(0, 10, 13)]
    assert ranges(assign='{"range":[0]}', startingTimestamp="2000", endingTimestamp="5500") == [(0, 1, 5)]
    assert ranges(subscribePattern="ran.*", endingTimestamp="999999") == [(0, 0, 30)]
    assert ranges(subscribe="range", startingOffsets='{"range":{"0":-2,"1":0}}', endingOffsets="latest") == [(0, 0, 30)]
    assert ranges(subscribe="range", endingOffsets='{"range":{"0":-1,"1":-1}}') == [(0, 0, 30)]
    by_time = {"startingOffsetsByTimestamp": '{"range":{"0":2000}}', "endingOffsetsByTimestamp": '{"range":{"0":5500}}'}
    assert ranges(assign='{"range":[0]}', **by_time, startingOffsets="earliest") == [(0, 1, 5)], "times come before offsets"
    assert ranges(assign='{"range":[0]}', startingTimestamp="3000", **by_time) == [(0, 2, 5)], "and one time before several"
    with pytest.raises(ConfigError, match=r"startingOffsets must name every partition that is read, and no other\. Named: range-0"):
        ranges(subscribe="range", startingOffsets='{"range":{"0":10}}')


@needs((4, 2), "limits for a Python source")
def test_a_stream_reads_every_record_once_over_restarts(spark: SparkSession, stub: BrokerStub, tmp_path: Path) -> None:
    """In limited batches, with a batch that failed and is repeated with its rows, a topic that grows, and offsets as Kafka's source."""
    stub.create_topic("stream", partitions=2)
    write(stub.bootstrap, "stream", [b"%d" % n for n in range(30)])
    write(stub.bootstrap, "stream", [b"%d" % n for n in range(30, 40)], partition=1)
    query = Query(spark, tmp_path / "checkpoint", given(stub.bootstrap, subscribe="stream", startingOffsets="earliest"))

    def fail(batch: int) -> None:
        if batch == 1:
            raise RuntimeError("the sink is out of order")

    with pytest.raises(PySparkException, match="the sink is out of order"):
        query.run(fail, maxOffsetsPerTrigger="20")
    assert query.offsets(0) == {"stream": {"0": 15, "1": 5}}
    write(stub.bootstrap, "stream", [b"%d" % n for n in range(40, 50)])
    stub.add_partitions("stream", 3)
    write(stub.bootstrap, "stream", [b"%d" % n for n in range(50, 60)], partition=2)
    query.run()
    assert query.batches == [20, 20, 20], "the batch that failed is repeated as it was, and then comes the rest"
    assert sorted(int(value) for *_, value in query.rows) == list(range(60))
    assert query.offsets(2) == {"stream": {"0": 40, "1": 10, "2": 10}}


@pytest.mark.skipif(RELEASE >= (4, 2), reason="with limits, the test above says the same")
def test_a_stream_without_limits_reads_every_record_once_over_restarts(spark: SparkSession, stub: BrokerStub, tmp_path: Path) -> None:
    """Before Spark 4.2, where AvailableNow is a single batch of all there is: one that failed is repeated with its rows, and no others."""
    stub.create_topic("unlimited", partitions=1)
    query = Query(spark, tmp_path / "checkpoint", given(stub.bootstrap, subscribe="unlimited", startingOffsets="earliest"))

    def fail(batch: int) -> None:
        raise RuntimeError("the sink is out of order")

    for begin, then in ((0, None), (10, fail), (20, None)):
        write(stub.bootstrap, "unlimited", [b"%d" % n for n in range(begin, begin + 10)])
        if then is None:
            query.run()
        else:
            with pytest.raises(PySparkException, match="the sink is out of order"):
                query.run(then)
    query.run()
    assert query.batches == [10, 10, 10]
    assert sorted(int(value) for *_, value in query.rows) == list(range(30))


@drawn(2, of="long queries of Spark")
def test_a_stream_from_the_latest_begins_where_it_was_started(spark: SparkSession, stub: BrokerStub, tmp_path: Path) -> None:
    """A stream from the latest offsets begins where it was first started, even if its first batch failed and records came before the
    repetition."""
    stub.create_topic("latest", partitions=1)
    write(stub.bootstrap, "latest", [b"before"])
    query = Query(spark, tmp_path / "checkpoint", given(stub.bootstrap, subscribe="latest"))

    def fail(batch: int) -> None:
        raise RuntimeError("not today")

    with pytest.raises(PySparkException, match="not today"):
        query.run(fail)
    write(stub.bootstrap, "latest", [b"after"])
    query.run()
    if RELEASE < (4, 2):
        query.run()  # AvailableNow is a single batch there, and the first was the one that is repeated
    assert [value for *_, value in query.rows] == [b"after"]


@drawn(2, of="long queries of Spark")
def test_a_stream_whose_topic_was_made_anew_says_what_is_lost(spark: SparkSession, stub: BrokerStub, tmp_path: Path) -> None:
    """The error names the option with which the stream continues."""
    stub.create_topic("lost", partitions=1)
    write(stub.bootstrap, "lost", [b"%d" % n for n in range(5)])
    query = Query(spark, tmp_path / "checkpoint", given(stub.bootstrap, subscribe="lost", startingOffsets="earliest"))
    query.run()
    stub.delete_topic("lost")
    stub.create_topic("lost", partitions=1)
    write(stub.bootstrap, "lost", [b"new"])
    with pytest.raises(PySparkException, match="'failOnDataLoss' to 'false'"):
        query.run()


def test_errors_reach_the_user_with_their_words(spark: SparkSession, stub: BrokerStub) -> None:
    """An option that does not exist, a topic that does not, columns that are fixed."""
    with pytest.raises(PySparkException, match=r"unknown option 'subscrib'; did you mean 'subscribe'\?"):
        spark.read.format("fencepost").options(**given(stub.bootstrap, subscrib="t")).load().collect()
    with pytest.raises(PySparkException, match="the brokers know no such topic"):
        spark.read.format("fencepost").options(**given(stub.bootstrap, subscribe="nothing")).load().collect()
    with pytest.raises(PySparkException, match="the columns are key, value"):
        spark.read.format("fencepost").schema("a int").options(**given(stub.bootstrap, subscribe="t")).load().collect()
