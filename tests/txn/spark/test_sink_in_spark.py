"""`format("fencepost")` as Spark calls it: batch jobs and streaming queries into Kafka, and errors where people see them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tests.txn.spark.late_workers import despite_late_workers
from tests.txn.spark.site import PARTITIONS, TOPIC, Site
from txn.spark import route
from txn.spark.datasource import register


def options(site: Site, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": site.stub.bootstrap, "topic": TOPIC, "sinkId": "sink", **more}


def save(site: Site, df: DataFrame, **more: str) -> None:
    register(site.spark)
    df.write.format("fencepost").mode("append").options(**options(site, **more)).save()


def stream(site: Site, **more: str) -> str | None:
    """Run a query over what there is; the text of its failure, if it has one."""
    register(site.spark)
    writer = site.lines.writeStream.format("fencepost").options(**options(site, **more)).option("checkpointLocation", str(site.checkpoint))
    return despite_late_workers(lambda: site.outcome(writer.trigger(availableNow=True).start()))


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
        ({"guard": "barrier"}, "option guard='barrier': the guard here is always"),
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
