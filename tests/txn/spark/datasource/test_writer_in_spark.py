"""`format("fencepost")` as Spark calls it: batch jobs and streaming queries into Kafka, and errors where people see them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from fencepost.broker_stub import BrokerStub
from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.txn.keyed_topic.topic import PARTITIONS as PARTITIONS_OF_LEDGER
from fencepost.txn.spark import route
from fencepost.txn.spark.datasource.datasource import register
from fencepost.txn.spark.sink.settings import LEDGER_TOPIC
from tests.drawn import drawn
from tests.txn.spark.chaos.account import still_open
from tests.txn.spark.late_workers import LATE, despite_late_workers
from tests.txn.spark.site import LIMIT_S, PARTITIONS, TOPIC, Site
from tests.waiting import until


def options(site: Site, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": site.stub.bootstrap, "topic": TOPIC, "sinkId": "sink", **more}


def save(site: Site, df: DataFrame, **more: str) -> None:
    register(site.spark)
    df.write.format("fencepost").mode("append").options(**options(site, **more)).save()


def stream(site: Site, df: DataFrame | None = None, **more: str) -> str | None:
    """Run a query over what there is; the text of its failure, if it has one."""
    writer = writing(site, df, **more)
    return despite_late_workers(lambda: site.outcome(writer.trigger(availableNow=True).start()))


def writing(site: Site, df: DataFrame | None = None, **more: str) -> DataStreamWriter:
    register(site.spark)
    given = options(site, **{"checkpointLocation": str(site.checkpoint), **more})
    return (site.lines if df is None else df).writeStream.format("fencepost").options(**given)


def rows(site: Site, count: int, **columns: str) -> DataFrame:
    """In two Spark tasks."""
    text = "cast(id as string)"
    return site.spark.range(0, count, 1, 2).selectExpr(f"{text} as value", *[f"{sql} as {name}" for name, sql in columns.items()])


def test_a_batch_job_is_visible_once(site: Site) -> None:
    """A version that is written is not written again."""
    for _ in range(2):
        save(site, rows(site, 100), jobId="load", version="1")
        assert len(site.committed()) == 100
    save(site, rows(site, 10), jobId="load", version="2")
    assert len(site.committed()) == 110


def test_a_query_is_exact_when_it_replays(site: Site) -> None:
    """The batch that Spark does not know to be written is in the ledger, and its number tells a batch that was not."""
    site.feed("a", "b")
    site.feed("c")
    assert stream(site) is None
    (site.checkpoint / "commits" / "1").unlink()
    (site.checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    site.feed("d")
    assert stream(site) is None
    assert site.committed() == ["a", "b", "c", "d"]


def test_a_checkpoint_is_where_spark_has_it(site: Site) -> None:
    """With and without a scheme the same path, which is taken as it stands, spaces and percent signs in it."""
    place = site.place / "a b%20c"
    for number, location in enumerate([str(place), f"file://{place}/"]):
        site.feed(str(number))
        assert stream(site, checkpointLocation=location) is None
    assert sorted(each.name for each in (place / "commits").iterdir() if each.name.isdecimal()) == ["0", "1"]
    assert site.committed() == ["0", "1"]


def test_a_second_query_with_the_sinks_id_leaves_the_first_one_alone(site: Site) -> None:
    """It is refused, between batches as within one, and the first one goes on as if there were no other."""
    site.feed("a")
    living = writing(site).trigger(processingTime="0 seconds").start()

    def written(*values: str) -> bool:
        nonlocal living
        if not living.isActive:
            assert LATE in str(living.exception())
            living = writing(site).trigger(processingTime="0 seconds").start()
        return site.committed() == [*values]

    until(lambda: written("a"), "the first batch is written", timeout_s=LIMIT_S)
    failure = stream(site, checkpointLocation=str(site.place / "another")) or ""
    assert re.search("LedgerBusy|CheckpointReplaced", failure), failure
    site.feed("b")
    until(lambda: written("a", "b"), "the second batch is written", timeout_s=LIMIT_S)


@pytest.mark.parametrize("transactions", [0, 2], ids=["TV1", "TV2"])
def test_what_fails_leaves_nothing_open(spark: SparkSession, tmp_path: Path, transactions: int) -> None:
    """A stream and a batch job fail, and Spark has no report of their tasks. Readers need not wait for the transaction's timeout."""
    fail = "if(value = 'fail', raise_error('asked for'), value) as value"
    with BrokerStub(transaction_version=transactions) as stub:
        site = Site(spark, stub, tmp_path)

        def ends(sink: str, run: Callable[[], str | None]) -> bool:
            """Whether it failed and all is closed: it is repeated where the process that Spark has for the abort was late."""
            assert "asked for" in (run() or "")
            assert stub.end_offset(LEDGER_TOPIC, partition_for_key(sink.encode(), PARTITIONS_OF_LEDGER)) > 0, "nothing was begun"
            return not still_open(stub.bootstrap, TOPIC, PARTITIONS) and not still_open(stub.bootstrap, LEDGER_TOPIC, PARTITIONS_OF_LEDGER)

        site.feed("a", "fail")
        until(lambda: ends("sink", lambda: stream(site, site.lines.selectExpr(fail))), "a stream leaves nothing open", timeout_s=LIMIT_S)

        def job() -> str:
            with pytest.raises(PySparkException) as failed:
                save(site, site.rows("a", "fail").selectExpr(fail), sinkId="job", jobId="j", version="1")
            return str(failed.value)

        until(lambda: ends("job#j", job), "a job leaves nothing open", timeout_s=LIMIT_S)
        assert site.committed() == []


@drawn(2, of="long queries of Spark")
def test_keyed_rows_have_to_be_routed(site: Site) -> None:
    """Where two tasks have rows of one partition the job fails and says what to do, which does it."""
    keyed = rows(site, 60, key="cast(id as string)", timestamp="timestamp_millis(1000 + id)")
    with pytest.raises(PySparkException, match=rf"is produced by two Spark tasks, . and .; wrap the DataFrame in route\(df, {PARTITIONS}"):
        save(site, keyed)
    assert site.committed() == []
    save(site, route(keyed, PARTITIONS, topic=TOPIC))
    assert sorted(map(int, site.committed())) == [*range(60)]
    assert {message.timestamp()[1] - int(message.value() or b"") for message in site.messages()} == {1000}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"guard": "turns"}, "option guard='turns': the guard here is always"),
        ({"jobId": "load"}, "job_id='load' without a version"),
        ({"onBadRow": "fail", "topic": " "}, "topic=''"),
    ],
)
def test_what_cannot_be_meant_is_refused(site: Site, more: dict[str, str], text: str) -> None:
    """In the words that people see."""
    with pytest.raises(PySparkException, match=text):
        save(site, rows(site, 1), **more)


def test_rows_that_cannot_be_written_fail_the_query(site: Site) -> None:
    """With the reason, and nothing visible; what a query may not do is refused before it begins."""
    with pytest.raises(PySparkException, match=r"9 is not in the range \[0...3\) of topic 'out'"):
        save(site, rows(site, 1, partition="9"))
    with pytest.raises(PySparkException, match="nothing that Kafka has can be overwritten"):
        rows(site, 1).write.format("fencepost").mode("overwrite").options(**options(site)).save()
    site.feed("a")
    failure: Any = stream(site, jobId="load")
    assert "option jobId='load': it is for batch writes only" in failure
    assert site.committed() == []
