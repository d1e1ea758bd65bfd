"""Whole queries: stopped in the middle, started twice, replayed with state. Read by a consumer that is not ours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.producer.wire.codes import Api
from fencepost.txn.spark import SinkTakenOver
from tests.drawn import drawn
from tests.once import once_is_enough
from tests.txn.spark.site import TOPIC, Site
from tests.waiting import until

pytestmark = [once_is_enough("is about the lives of queries"), drawn(2)]

BOTH = pytest.mark.parametrize("guard", ["driver", "turns"])


@BOTH
def test_a_query_that_is_stopped_in_the_middle(site: Site, guard: str) -> None:
    """`stop()` is no failure: nothing of the batch is visible, the query has no exception, and the next start writes the batch."""
    writer = site.writer(guard=guard, delivery_timeout_ms=20_000, request_timeout_ms=1_000)
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).after_append().times(1).hold()
    site.feed(*"abc")
    keyed = site.lines.withColumn("key", F.col("value"))
    query = site.start(writer, keyed, live=True)
    assert held.wait(timeout=60)
    query.stop()
    assert query.exception() is None
    held.release()
    assert site.committed() == []
    assert site.run(writer, keyed) is None
    assert site.committed() == [*"abc"]


WRITERS = pytest.mark.parametrize("one_writer", [False, True], ids=["two writers", "one writer"])


@WRITERS
def test_a_sink_id_that_is_taken(site: Site, *, one_writer: bool) -> None:
    """A second query with the sink id of one that lives is refused by the ledger, and the one that lives goes on, also where both were
    given the same writer."""
    first = site.writer()
    second = first if one_writer else site.writer()
    site.feed("1")
    living = site.start(first, live=True)
    until(lambda: first.metrics.get("ledger") == "committed", "the first query has written", timeout_s=60)
    failure = site.run(second, checkpoint=site.place / "second") or ""
    assert "CheckpointReplaced" in failure
    assert "two queries have the same sink id" in failure
    site.feed("2")
    until(lambda: first.metrics["batch"] == 1 and first.metrics["ledger"] == "committed", "the first query goes on", timeout_s=60)
    living.stop()
    assert living.exception() is None
    assert site.committed() == ["1", "2"]


@WRITERS
def test_a_sink_id_that_is_taken_by_a_first_batch(site: Site, *, one_writer: bool) -> None:
    """A second query with the sink id of one that is at its first batch is refused, although nothing is committed yet. The first query goes
    on."""
    first = site.writer()
    second = first if one_writer else site.writer()
    site.feed("1")
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).before().times(1).hold()
    living = site.start(first, live=True)
    assert held.wait(timeout=60)
    failure = site.run(second, checkpoint=site.place / "second") or ""
    assert "LedgerBusy" in failure
    assert "batch 0 of query" in failure
    held.release()
    until(lambda: site.committed() == ["1"], "the first query has written", timeout_s=60)
    site.feed("2")
    until(lambda: site.committed() == ["1", "2"], "the first query goes on", timeout_s=60)
    living.stop()
    assert living.exception() is None


def test_one_writer_for_two_queries_at_once(site: Site) -> None:
    """Both live, and rows come: the second query is refused, and the first one, whose writer it is, too, writes every row."""
    writer = site.writer()

    def written(batch: int) -> bool:
        return any(each["batch"] == batch and each["ledger"] == "committed" for each in writer.history)

    site.feed("1")
    first = site.start(writer, live=True)
    until(lambda: written(0), "the first query has written", timeout_s=60)
    second = site.start(writer, live=True, checkpoint=site.place / "second")
    site.feed("2")
    until(lambda: not second.isActive, "the second query is refused", timeout_s=60)
    site.feed("3")
    until(lambda: not first.isActive or written(2), "the first query goes on", timeout_s=60)
    first.stop()
    assert first.exception() is None
    assert second.exception() is not None
    assert site.committed() == ["1", "2", "3"]


def test_one_writer_and_a_query_that_is_being_refused(site: Site) -> None:
    """The first query's next batch comes while the second one is still looking at the ledger: it waits for that, and is written."""
    writer = site.writer()
    site.feed("1")
    first = site.start(writer, live=True)
    until(lambda: site.committed() == ["1"], "the first query has written", timeout_s=60)
    looking = site.stub.faults.on(Api.FETCH).where(topic=writer.settings.ledger_topic).before().times(1).hold()
    second = site.start(writer, live=True, checkpoint=site.place / "second")
    assert looking.wait(timeout=60)
    site.feed("2")
    until(lambda: len(writer.history) == 3 or not first.isActive, "the first query has its next batch", timeout_s=60)
    looking.release()
    until(lambda: not first.isActive or site.committed() == ["1", "2"], "the first query goes on", timeout_s=60)
    until(lambda: not second.isActive, "the second query is refused", timeout_s=60)
    first.stop()
    assert first.exception() is None
    assert "two queries have the same sink id" in str(second.exception())


@BOTH
def test_a_sink_id_that_is_taken_over(site: Site, guard: str) -> None:
    """Where the ledger has no objection, as to a driver that was taken for dead, the newer one goes on, and the older one fails
    when it comes back, with nothing of its batch visible."""
    old, new = site.by_hand(guard=guard), site.by_hand()
    old(site.rows("1", key="value"), site.offsets(0))
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).before().times(1).hold()
    rows = site.rows("2", key="value")
    with ThreadPoolExecutor(1) as pool:
        frozen = pool.submit(old, rows, site.offsets(1))
        assert held.wait(timeout=60)
        new(rows, 1)
        held.release()
        with pytest.raises(SinkTakenOver, match=r"another driver has registered transactional id .fencepost\.sink."):
            frozen.result(60)
    assert site.committed() == ["1", "2"]
    new(site.rows("3"), site.offsets(2))
    assert site.committed() == ["1", "2", "3"]


class DiesAfterTheCommit:
    """A writer's call whose driver is gone before Spark hears that the batch was written."""

    def __init__(self, writer: Any, batch: int) -> None:
        self.writer = writer
        self.batch = batch

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        self.writer(df, batch_id)
        if batch_id == self.batch:
            raise RuntimeError("the driver is gone")


COUNTED = {
    "counts": lambda lines: lines.groupBy("value").count().selectExpr("value as key", "concat(value, ' ', count) as value"),
    "first ones": lambda lines: (
        lines.selectExpr("value", "timestamp_seconds(ascii(value)) as at").withWatermark("at", "1 hour").dropDuplicates(["value", "at"])
    ),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_a_batch_with_state_that_is_replayed_after_its_commit(site: Site, kind: str) -> None:
    """The replay is skipped, and still executed, so that Spark's state of it is committed: the query starts, goes on with that state, and
    nothing is doubled."""
    site.feed("a", "b", "a")
    query = COUNTED[kind](site.lines)
    mode = "update" if kind == "counts" else "append"
    failure = site.run(DiesAfterTheCommit(site.writer(), 0), query, mode=mode) or ""
    assert "the driver is gone" in failure
    site.feed("b", "c")
    writer = site.writer()
    assert site.run(writer, query, mode=mode) is None
    assert [each["ledger"] for each in writer.history[:2]] == ["skipped", "committed"]
    assert site.committed() == (["a 2", "b 1", "b 2", "c 1"] if kind == "counts" else ["a", "b", "c"])


def test_a_second_call_in_one_batch(site: Site) -> None:
    """A function that calls the writer twice for one batch, each time with other rows: the second ones would be left out, as the ledger
    has the batch by then. That is an error, which names the block that takes both, also after a restart. Handing the same rows over
    again is a repeat, and harmless."""
    writer = site.writer()

    def twice(df: DataFrame, batch: int) -> None:
        writer(df.where("length(value) = 1"), batch)
        writer(df.where("length(value) = 2"), batch)

    def again(df: DataFrame, batch: int) -> None:
        writer(df.where("length(value) = 1"), batch)
        writer(df.where("length(value) = 1"), batch)

    site.feed("1", "22")
    for _ in range(2):
        failure = site.run(twice) or ""
        assert "by an earlier call and without the rows of this DataFrame" in failure
        assert "with writer.batch(df, batch_id) as batch" in failure
        assert site.committed() == ["1"]
    site.feed("3", "44")
    assert site.run(again) is None
    assert site.committed() == ["1", "3"]
