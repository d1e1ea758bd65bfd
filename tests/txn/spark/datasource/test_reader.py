"""What Spark's driver asks of the streaming source, without a Spark: where batches begin and end on the stub."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import ConfigError
from fencepost.producer.producer import Producer
from fencepost.txn.reading import PartitionGone
from fencepost.txn.spark.datasource.read_limits import ReadAllAvailable, ReadMaxRows, ReadMinRows
from fencepost.txn.spark.datasource.reader import DataLoss, RangePartition, StreamReader
from tests.txn.spark.releases import needs

ALL = ReadAllAvailable()
WAIT_S = 30.0
LIMITS = needs((4, 2), "limits for a Python source")


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=1, seed=1) as stub:
        stub.create_topic("t", partitions=2)
        yield stub


class Readers:
    """Stream readers with options, stopped at the end."""

    def __init__(self, stub: BrokerStub) -> None:
        self._stub = stub
        self._made: list[StreamReader] = []

    def __call__(self, **options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": self._stub.bootstrap, "subscribe": "t", "kafka.retry.backoff.ms": "1", **options}
        reader = StreamReader({key: value for key, value in given.items() if value})
        self._made.append(reader)
        return reader

    def stop(self) -> None:
        for reader in self._made:
            reader.stop()


@pytest.fixture
def readers(stub: BrokerStub) -> Iterator[Readers]:
    readers = Readers(stub)
    yield readers
    readers.stop()


def write(stub: BrokerStub, count: int, partition: int = 0, topic: str = "t") -> None:
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=partition)
        producer.flush(WAIT_S)


def ranges(reader: StreamReader, start: Any, end: Any) -> list[tuple[Any, ...]]:
    found = [each.wanted for each in reader.partitions(start, end) if isinstance(each, RangePartition)]
    return [(each.topic, each.partition, each.start, each.until) for each in found]


def test_batches_follow_one_another(stub: BrokerStub, readers: Readers) -> None:
    """From the beginning to the end as it is each time; a partition without news has no task."""
    write(stub, 5)
    reader = readers(startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == {"t": {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ALL)
    assert ranges(reader, start, end) == [("t", 0, 0, 5)]
    assert reader.latestOffset(end, ALL) == end
    write(stub, 3, partition=1)
    assert ranges(reader, end, reader.latestOffset(end, ALL)) == [("t", 1, 0, 3)]
    assert reader.reportLatestOffset() == {"t": {"0": 5, "1": 3}}


@LIMITS
def test_a_limit_is_shared_by_backlog(stub: BrokerStub, readers: Readers) -> None:
    """maxOffsetsPerTrigger, unless the trigger wants all there is."""
    write(stub, 90)
    write(stub, 10, partition=1)
    reader = readers(startingOffsets="earliest", maxOffsetsPerTrigger="20")
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert reader.latestOffset(start, ReadMaxRows(20)) == {"t": {"0": 18, "1": 2}}
    assert reader.latestOffset(start, ALL) == {"t": {"0": 90, "1": 10}}


@LIMITS
def test_too_few_records_wait_for_more(stub: BrokerStub, readers: Readers) -> None:
    """minOffsetsPerTrigger, but for the first batch and when maxTriggerDelay has passed."""
    write(stub, 5)
    patient = readers(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    limit = patient.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    end = patient.latestOffset(patient.initialOffset(), limit)
    assert end == {"t": {"0": 5, "1": 0}}
    write(stub, 6)
    assert patient.latestOffset(end, limit) == end
    write(stub, 6)
    assert patient.latestOffset(end, limit) == {"t": {"0": 17, "1": 0}}
    hasty = readers(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="0s")
    end = hasty.latestOffset(hasty.initialOffset(), limit)
    write(stub, 1)
    assert hasty.latestOffset(end, limit) == {"t": {"0": 18, "1": 0}}


def test_a_query_from_the_latest_loses_nothing_when_its_first_batch_is_repeated(stub: BrokerStub, readers: Readers) -> None:
    """Spark asks for the beginning once more then, and by then it is another one: the first batch is empty, its end is the beginning."""
    write(stub, 5)
    first = readers()
    start = first.initialOffset()
    write(stub, 2)
    end = first.latestOffset(start, ALL)
    assert end == start == {"t": {"0": 5, "1": 0}}
    again = readers()
    later = again.initialOffset()
    assert later == {"t": {"0": 7, "1": 0}}
    assert ranges(again, later, end) == []
    assert ranges(again, end, again.latestOffset(end, ALL)) == [("t", 0, 5, 7)]


def test_a_bounded_run_ends_where_the_log_ended_when_it_began(stub: BrokerStub, readers: Readers) -> None:
    """Trigger.AvailableNow: what comes later, new partitions among it, is left for the next run."""
    write(stub, 5)
    reader = readers(startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    write(stub, 5)
    stub.add_partitions("t", 3)
    start = reader.initialOffset()
    end = reader.latestOffset({"t": {"0": 0, "1": 0}}, ALL)
    assert end == {"t": {"0": 5, "1": 0}}
    assert start == {"t": {"0": 0, "1": 0, "2": 0}}
    assert reader.latestOffset(end, ALL) == end


def test_new_partitions_and_topics_are_read_from_their_beginning(stub: BrokerStub, readers: Readers) -> None:
    """As soon as they are there."""
    reader = readers(subscribe="", subscribePattern="t.*")
    start = reader.initialOffset()
    stub.add_partitions("t", 3)
    stub.create_topic("t2", partitions=1)
    write(stub, 4, partition=2)
    write(stub, 2, topic="t2")
    end = reader.latestOffset(start, ALL)
    assert end == {"t": {"0": 0, "1": 0, "2": 4}, "t2": {"0": 2}}
    assert ranges(reader, start, end) == [("t", 2, 0, 4), ("t2", 0, 0, 2)]


def test_what_is_gone_ends_the_query_unless_it_may_be(stub: BrokerStub, readers: Readers) -> None:
    """A topic that was deleted, one that was made again, and one of several that is missing: nothing of the others is read twice."""
    stub.create_topic("u", partitions=1)
    write(stub, 5)
    write(stub, 5, topic="u")
    end = {"t": {"0": 5, "1": 0}, "u": {"0": 5}}
    stub.delete_topic("t")
    strict, lenient = readers(subscribe="t,u"), readers(subscribe="t,u", failOnDataLoss="false")
    with pytest.raises(DataLoss, match="'failOnDataLoss' to 'false'"):
        strict.latestOffset(end, ALL)
    after = lenient.latestOffset(end, ALL)
    assert after == {"u": {"0": 5}}
    assert ranges(lenient, end, after) == []
    with pytest.raises(DataLoss, match="t-0, t-1: gone"):
        strict.partitions(end, after)
    stub.create_topic("t", partitions=2)
    write(stub, 2)
    assert ranges(lenient, after, lenient.latestOffset(after, ALL)) == [("t", 0, 0, 2)]
    with pytest.raises(DataLoss, match="went back from offset 5 to 2"):
        strict.partitions(end, strict.latestOffset(end, ALL))


def test_offsets_that_are_gone_end_the_task_unless_they_may_be(stub: BrokerStub, readers: Readers) -> None:
    """With failOnDataLoss=false the task reads what is left of its range."""
    write(stub, 5)
    reader, lenient = readers(startingOffsets="earliest"), readers(startingOffsets="earliest", failOnDataLoss="false")
    (partition,) = reader.partitions({"t": {"0": 9, "1": 0}}, {"t": {"0": 12, "1": 0}})
    with pytest.raises(DataLoss, match="offset 9 is not in the log, which goes from 0 to 5"):
        list(reader.read(partition))
    assert list(lenient.read(partition)) == []


def test_beginnings_that_make_no_sense_are_refused(stub: BrokerStub, readers: Readers) -> None:
    """Partitions that are not named or do not exist, times after every record unless they mean the end, and an unknown topic."""
    write(stub, 1)
    with pytest.raises(ConfigError, match=r"must name every partition.*Named: t-0\. Read: t-0, t-1"):
        readers(startingOffsets='{"t":{"0":0}}').initialOffset()
    with pytest.raises(ConfigError, match="startingOffsetsByTimestampStrategy=latest"):
        readers(startingTimestamp="99999999999999").initialOffset()
    late = readers(startingTimestamp="99999999999999", startingOffsetsByTimestampStrategy="latest")
    assert late.initialOffset() == {"t": {"0": 1, "1": 0}}
    with pytest.raises(PartitionGone):
        readers(subscribe="nothing").initialOffset()
    with pytest.raises(PartitionGone, match="no partition t-7"):
        readers(subscribe="", assign='{"t":[0,7]}').initialOffset()


def test_it_logs_in_as_the_options_say() -> None:
    """With Java's names, on the driver and where a range is read."""
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="secret";'
    with BrokerStub(sasl={"ann": "secret"}, seed=1) as stub:
        stub.create_topic("t", partitions=1)
        with Producer(
            bootstrap_servers=stub.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="ann",
            sasl_password="secret",
        ) as producer:
            producer.send("t", b"v").result(WAIT_S)
        reader = StreamReader(
            {
                "kafka.bootstrap.servers": stub.bootstrap,
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": login,
                "subscribe": "t",
                "startingOffsets": "earliest",
            }
        )
        try:
            start = reader.initialOffset()
            (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
            (batch,) = pickle.loads(pickle.dumps(reader)).read(partition)
            assert batch.column("value").to_pylist() == [b"v"]
        finally:
            reader.stop()


def test_only_options_travel_to_executors(stub: BrokerStub, readers: Readers) -> None:
    """A reader and a partition can be pickled, and the copies read the records. Connections are not pickled, nor what was read from the
    options."""
    write(stub, 3)
    reader = readers(startingOffsets="earliest")
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    copy = pickle.loads(pickle.dumps(reader))
    assert sum(batch.num_rows for batch in copy.read(pickle.loads(pickle.dumps(partition)))) == 3


def test_limits_are_refused_where_pyspark_has_none(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 4.2 they would be passed over in silence."""
    monkeypatch.setattr("fencepost.txn.spark.datasource.reader.HAS_LIMITS", False)
    with pytest.raises(ConfigError, match=r"need pyspark 4\.2"):
        readers(maxOffsetsPerTrigger="10")
