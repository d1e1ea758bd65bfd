"""What the Spark writer promises, on Apache Kafka, with transaction versions 1 and 2: the few promises that rest on what Kafka answers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from fencepost.txn.keyed_topic.errors import LedgerBusy, LedgerUnusable
from fencepost.txn.ledger.errors import CheckpointReplaced, LedgerMissing
from fencepost.txn.spark import SinkTakenOver
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.conformance.txn_site import IMPATIENT
from tests.drawn import drawn
from tests.once import once_is_enough
from tests.reading import read_values
from tests.txn.spark.chaos.account import still_open
from tests.txn.spark.datasource.write_steps import Play, plan
from tests.txn.spark.site import PARTITIONS, AnySite
from tests.waiting import until

WAIT_S = 60.0
TIMEOUT_MS = 5_000

pytestmark = [once_is_enough("asks Kafka"), pytest.mark.timeout(300), drawn(2)]


@pytest.fixture(scope="module", params=[1, 2], ids=["tv1", "tv2"])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A broker that looks for transactions whose time is up five times a second."""
    require_kafka()
    with KafkaCluster(features={"transaction.version": request.param}, config=IMPATIENT) as cluster:
        yield cluster


@pytest.fixture
def place(cluster: KafkaCluster, spark: SparkSession, tmp_path: Path) -> Iterator[AnySite]:
    name = secrets.token_hex(4)
    site = AnySite(spark, cluster.bootstrap, tmp_path, topic=f"spark-{name}", sink=name)
    Admin(site.bootstrap).create(site.topic, partitions=PARTITIONS)
    try:
        yield site
    finally:
        site.close()


def ends(site: AnySite) -> int:
    """Offsets of all records and markers."""
    consumer = Consumer({"bootstrap.servers": site.bootstrap, "group.id": "reader"})
    try:
        total = 0
        for partition in range(PARTITIONS):
            marks = consumer.get_watermark_offsets(TopicPartition(site.topic, partition), timeout=WAIT_S)
            assert marks is not None
            total += int(marks[1])
        return total
    finally:
        consumer.close()


def visible(site: AnySite, count: int, topic: str | None = None, partitions: int = PARTITIONS) -> list[str]:
    """What is committed, once there is so much of it: Kafka answers a commit before its markers are in the partitions."""
    return until(lambda: site.committed(topic, partitions), f"{count} rows", good=lambda found: len(found) >= count, timeout_s=WAIT_S)


def test_several_writes_are_one_batch_and_a_replay_is_none(place: AnySite) -> None:
    """From executors: sequences go on from write to write, nothing is visible before the end, and the same batch again is skipped; another
    one under its number is refused."""
    writer = place.by_hand(guard="kafka-claims", on_bad_row=f"{place.topic}-dead")
    Admin(place.bootstrap).create(f"{place.topic}-dead", partitions=1)
    rows = place.rows(*"abcdef", key="value")
    with writer.batch(rows, place.offsets(0)) as batch:
        batch.write(rows)
        batch.write(place.rows(*"ghi", "bad", key="value", partition="if(value = 'bad', 77, null)"))
        assert place.committed() == []
    assert visible(place, 9) == [*"abcdefghi"]
    assert visible(place, 1, f"{place.topic}-dead", 1) == ["bad"]
    again = place.by_hand()
    again(rows, 0)
    assert again.metrics["ledger"] == "skipped"
    place.offsets(0, '{"other": 1}')
    with pytest.raises(CheckpointReplaced):
        place.by_hand()(rows, 0)
    assert place.committed() == [*"abcdefghi"]


def test_a_batch_that_outlives_its_transaction(place: AnySite) -> None:
    """Kafka has aborted it; it is written once more, and is there once."""
    writer = place.by_hand(transaction_timeout_ms=TIMEOUT_MS)
    rows = place.rows(*"abc", key="value")
    with writer.batch(rows, place.offsets(0)) as batch:
        batch.write(rows)
        written = ends(place)
        until(lambda: ends(place), "the abort's markers", good=lambda now: now > written, timeout_s=WAIT_S, pause_max_s=0.3)
    assert visible(place, 3) == [*"abc"]
    assert writer.metrics["staged"] is True


@pytest.mark.alone
def test_executors_that_outlive_their_transaction(place: AnySite) -> None:
    """Kafka aborts it while one task still computes; all rows are computed before the next transaction begins then, and are there once."""
    writer = place.by_hand(guard="turns", transaction_timeout_ms=2 * TIMEOUT_MS)
    gate = place.place / "gate"
    plain = place.rows(*"abcdef", key="value").repartition(2)
    rows = plain.mapInArrow(waits_in_one_task(str(gate), WAIT_S), plain.schema)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer, rows, place.offsets(0))
        until(lambda: still_open(place.bootstrap, place.topic, PARTITIONS), "the first task has written", timeout_s=WAIT_S)
        until(lambda: not still_open(place.bootstrap, place.topic, PARTITIONS), "Kafka has aborted it", timeout_s=WAIT_S)
        gate.touch()
        writing.result(WAIT_S)
    assert visible(place, 6) == [*"abcdef"]
    assert (writer.metrics["staged"], writer.metrics["guard"]) == (True, "turns")


def waits_in_one_task(gate: str, patience_s: float) -> Any:
    """The rows as they are; those of task 1 once there is a file of that name."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        deadline = time.monotonic() + patience_s
        while context is not None and context.partitionId() == 1 and not os.path.exists(gate) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield from batches

    return wait


def test_a_sink_that_is_taken_over(place: AnySite) -> None:
    """The driver that was replaced in the middle of a batch fails, and the one that replaced it goes on."""
    old, new = place.by_hand(), place.by_hand()
    rows = place.rows("1", key="value")
    place.offsets(0)
    with pytest.raises(SinkTakenOver), old.batch(rows, 0) as batch:
        batch.write(rows)
        new(rows, 0)
    assert visible(place, 1) == ["1"]
    new(place.rows("2"), place.offsets(1))
    assert visible(place, 2) == ["1", "2"]


def test_a_replaced_driver_does_not_take_the_sink_back(place: AnySite) -> None:
    """Kafka has aborted the transaction of the one that was replaced, after its timeout. The other one is in the middle of the batch."""
    old, new = place.by_hand(transaction_timeout_ms=TIMEOUT_MS), place.by_hand()
    rows = place.rows("1", key="value")
    place.offsets(0)
    with ExitStack() as at_work, pytest.raises(SinkTakenOver), old.batch(rows, 0) as batch:
        batch.write(rows)
        written = ends(place)
        until(lambda: ends(place), "the abort's markers", good=lambda now: now > written, timeout_s=WAIT_S, pause_max_s=0.3)
        at_work.enter_context(new.batch(rows, 0)).write(rows)
    assert new.metrics["ledger"] == "committed"
    assert visible(place, 1) == ["1"]


def test_a_ledger_that_is_deleted(place: AnySite) -> None:
    """A later batch is refused then."""
    ledger = f"{place.topic}-ledger"
    writer = place.by_hand(ledger_topic=ledger)
    writer(place.rows("1"), place.offsets(0))
    writer.close()
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    admin.delete_topics([ledger])[ledger].result(WAIT_S)
    until(lambda: ledger not in admin.list_topics(timeout=WAIT_S).topics, "the topic is gone")
    with pytest.raises(LedgerMissing):
        place.by_hand(ledger_topic=ledger)(place.rows("2"), place.offsets(1))
    assert visible(place, 1) == ["1"]


def test_a_ledger_that_is_deleted_under_a_writer(place: AnySite) -> None:
    """Kafka creates topics by itself: not for a writer that sends to its ledger, which says what is lost, and begins anew when it is told
    to."""
    ledger = f"{place.topic}-ledger"
    writer = place.by_hand(ledger_topic=ledger, timeout_ms=5_000)
    writer(place.rows("1"), place.offsets(0))
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    rows = place.rows("2")
    with pytest.raises(LedgerUnusable, match="was deleted while it was in use"), writer.batch(rows, place.offsets(1)) as batch:
        batch.write(rows)
        admin.delete_topics([ledger])[ledger].result(WAIT_S)
    assert ledger not in admin.list_topics(timeout=WAIT_S).topics
    assert visible(place, 1) == ["1"]
    place.by_hand(ledger_topic=ledger, on_missing_ledger="start")(rows, 1)
    assert visible(place, 2) == ["1", "2"]


def test_rivals_of_a_data_source(cluster: KafkaCluster, tmp_path: Path) -> None:
    """`format("fencepost")`: an open transaction names the sink's query, and only this query aborts it. A failed batch without a report of
    any task is aborted at once, in every topic of it."""
    name = secrets.token_hex(4)
    topics = [f"{name}-a", f"{name}-b"]
    for topic in topics:
        Admin(cluster.bootstrap).create(topic, partitions=2)

    def query(which: str) -> Play:
        plan(tmp_path / which, 0, query=which)
        return Play(cluster.bootstrap, None, str(tmp_path / which), sinkId=name, topics=",".join(topics))

    def is_open() -> list[int]:
        return [len(still_open(cluster.bootstrap, topic, 2)) for topic in topics]

    first, second = query("first"), query("second")
    first.task(first.begin(), 0, topic=topics, value=["lost", "lost"])
    with pytest.raises(LedgerBusy):
        second.begin()
    second.abort(None, batch=0)
    assert is_open() == [1, 1]
    first.abort(None, batch=0)
    until(lambda: is_open() == [0, 0], "the failed batch is aborted", timeout_s=WAIT_S)
    begun = first.begin()
    first.commit(first.task(begun, 0, topic=topics, value=["a", "b"]), batch=0)
    with pytest.raises((CheckpointReplaced, LedgerBusy)):
        second.begin()
    until(lambda: is_open() == [0, 0], "the batch is committed", timeout_s=WAIT_S)
    assert [read_values(cluster.bootstrap, topic, range(2)) for topic in topics] == [[b"a"], [b"b"]]


def test_what_a_topic_takes_and_not_a_byte_more(cluster: KafkaCluster, place: AnySite) -> None:
    """Rows of which Kafka would refuse the batch are found beforehand, to the byte, packed as they are sent, and for their times and keys;
    all others are written, in one attempt."""
    admin = Admin(place.bootstrap)
    admin.create("dead", partitions=1)
    sizes, values = range(1900, 1950), ["ahead", "keyless"]
    columns = {"key": "if(value = 'keyless', null, 'k')", "timestamp": "if(value = 'ahead', 4e9D, cast(null as double))"}
    for batch, (codec, most) in enumerate((("none", 2000), ("gzip", 110))):
        topic = f"{place.topic}-{codec}"
        admin.create(topic, partitions=PARTITIONS, config={"max.message.bytes": str(most), "cleanup.policy": "compact"})
        writer = place.by_hand(topic=topic, guard="turns", on_bad_row="dead", compression_type=codec)
        writer(place.rows(*values, *("x" * size for size in sizes), **columns), place.offsets(batch))
        written = [len(each) for each in place.committed(topic)]
        assert writer.metrics["reruns"] == 0
        assert writer.metrics["bad_rows"] == len(sizes) + len(values) - len(written)
        assert codec == "gzip" or written == [*range(min(sizes), max(written) + 1)]
    reasons = [dict(message.headers())["fencepost.reason"].decode() for message in place.messages("dead", 1)]
    assert [each for each in reasons if each.startswith("a record of 2001 bytes exceeds max.message.bytes=2000")]
    assert len([each for each in reasons if "further ahead" in each]) == len([each for each in reasons if "without a key" in each]) == 2
