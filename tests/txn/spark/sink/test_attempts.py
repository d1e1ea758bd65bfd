"""One batch, and what becomes of it when a transaction of it fails: again, up to a limit, and never half of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.broker_stub import BrokerStub, Fault
from fencepost.producer.errors import FencepostError, Misuse, TopicUnavailable
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.errors import NotPermitted
from fencepost.txn.spark import BadRows, BatchFailed, ExactlyOnceKafkaWriter, SinkTakenOver, TransactionTooLong
from tests.conformance.txn_site import IMPATIENT
from tests.drawn import drawn
from tests.txn.spark.chaos.account import still_open
from tests.txn.spark.site import PARTITIONS, TOPIC, AnySite, Site
from tests.txn.spark.skipping_clock import SkippingClock
from tests.waiting import until

pytestmark = drawn(2)

BOTH = pytest.mark.parametrize("guard", ["driver", "turns"])
KEYED = {"key": "value"}
TIMEOUT_MS = 60_000
LATE_MS = TIMEOUT_MS + 11_000
"""The coordinator looks every ten seconds."""


@BOTH
def test_reruns_come_to_an_end(site: Site, guard: str) -> None:
    """`max_reruns` transactions beyond the first, each aborted, and then BatchFailed, which begins with what was wrong the last time, in
    one line, and has the rest as its cause; nothing is visible, and when the trouble is over the same batch is written once."""
    refused = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).forever().error(ErrorCode.UNKNOWN_SERVER_ERROR)
    writer = site.by_hand(guard=guard, max_reruns=1)
    with pytest.raises(BatchFailed, match=r"UNKNOWN_SERVER_ERROR.*last cause of 2 for which batch 0 of .* max_reruns=1") as caught:
        writer(site.rows(*"abcdef", **KEYED), site.offsets(0))
    assert len(str(caught.value).splitlines()) == 1
    assert "Traceback" not in str(caught.value)
    assert caught.value.__cause__ is not None
    assert writer.metrics["reruns"] == 1
    refused.remove()
    assert site.committed() == []
    writer(site.rows(*"abcdef", **KEYED), 0)
    assert site.committed() == [*"abcdef"]


def test_without_reruns(site: Site) -> None:
    """With `max_reruns=0` the aborted batch is not written again, and `reruns` says so."""
    site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).error(ErrorCode.UNKNOWN_SERVER_ERROR)
    writer = site.by_hand(guard="driver", max_reruns=0)
    with pytest.raises(BatchFailed, match="max_reruns=0"):
        writer(site.rows("a"), site.offsets(0))
    assert (writer.metrics["reruns"], writer.metrics["ledger"]) == (0, "aborted")


@BOTH
def test_a_rerun_that_goes_well(site: Site, guard: str) -> None:
    """A transaction that had to be aborted is written again, and readers see it once."""
    site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).error(ErrorCode.UNKNOWN_SERVER_ERROR)
    writer = site.by_hand(guard=guard)
    writer(site.rows(*"abcdef", **KEYED), site.offsets(0))
    assert site.committed() == [*"abcdef"]
    assert writer.metrics["reruns"] == 1


def test_metrics_during_a_rerun(site: Site) -> None:
    """The aborted transaction is behind: the batch is open again, until the rerun commits."""
    site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).error(ErrorCode.UNKNOWN_SERVER_ERROR)
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).on_call(2).hold()
    writer = site.by_hand(guard="driver")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer, site.rows("1"), site.offsets(0))
        assert held.wait(timeout=60)
        assert (writer.metrics["ledger"], writer.metrics["reruns"]) == ("open", 1)
        held.release()
        writing.result(60)
    assert writer.metrics["ledger"] == "committed"


@pytest.mark.usefixtures("soon_given_up")
def test_commits_that_are_never_answered(site: Site) -> None:
    """The outcome of such a commit is unknown until the ledger is asked. Here the ledger does not have it: the batch is written again, up
    to the limit."""
    unheard = site.stub.faults.on(Api.END_TXN).before().forever().drop()
    writer = site.by_hand(max_reruns=0, timeout_ms=2_500, request_timeout_ms=500)
    with pytest.raises(BatchFailed, match=r"last cause of 1 for which batch 0 .* max_reruns=0"):
        writer(site.rows("1"), site.offsets(0))
    unheard.remove()
    assert site.committed() == []
    writer(site.rows("1"), 0)
    assert site.committed() == ["1"]


def test_writes_of_a_batch_follow_one_another(site: Site) -> None:
    """A second write while the first one is under way is refused, because they would share sequences. A write outside the batch's block is
    refused too, because nothing would commit it."""
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).hold()
    writer = site.by_hand()
    first, second = site.rows("1"), site.rows("2")
    with ThreadPoolExecutor(1) as pool, writer.batch(first, site.offsets(0)) as batch:
        writing = pool.submit(batch.write, first)
        assert held.wait(timeout=60)
        with pytest.raises(Misuse, match="another write into this batch is under way"):
            batch.write(second)
        held.release()
        writing.result(60)
    for outside in (batch, writer.batch(second, site.offsets(1))):
        with pytest.raises(Misuse, match="has not begun or is over: write inside its block"):
            outside.write(second)
    assert site.committed() == ["1"]


def test_calls_for_a_batch_follow_one_another(site: Site) -> None:
    """A second call of the writer while the first one is under way is told what to do instead, and the first one goes on."""
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).hold()
    writer = site.by_hand()
    first, second = site.rows("1"), site.rows("2")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer, first, site.offsets(0))
        assert held.wait(timeout=60)
        with pytest.raises(Misuse, match=r"batch 0 of query by hand is under way in another call of this writer.*with writer\.batch"):
            writer(second, 0)
        assert writer.metrics["ledger"] == "aborted"
        held.release()
        writing.result(60)
    assert site.committed() == ["1"]


def test_a_second_call_for_a_batch(site: Site) -> None:
    """Rows are never left out silently. A second call for a batch with another part of its rows raises. The same DataFrame once more is the
    same batch, and skipped."""
    writer = site.writer()
    site.feed("1", "2")

    def parts(df: DataFrame, batch: int) -> None:
        for part in ("1", "1", "2"):
            writer(df.where(f"value = '{part}'"), batch)

    failure = site.run(parts) or ""
    assert "Misuse: batch 0 of sink 'sink' is committed, by an earlier call and without the rows of this DataFrame" in failure
    assert [each["ledger"] for each in writer.history] == ["committed", "skipped", "aborted"]
    assert site.committed() == ["1"]


@pytest.fixture
def impatient(spark: SparkSession, tmp_path: Path) -> Iterator[Site]:
    """A site whose coordinator looks five times a second for transactions whose time is up."""
    with BrokerStub(config=IMPATIENT) as stub:
        site = Site(spark, stub, tmp_path)
        try:
            yield site
        finally:
            site.close()


def test_a_batch_that_another_driver_has_committed_meanwhile(impatient: Site) -> None:
    """A driver's transaction has timed out, and another driver has committed the batch since: it has the sink, and this driver says so
    instead of counting the other one's rows as its own."""
    writer, other = impatient.by_hand(transaction_timeout_ms=2_000), impatient.by_hand()
    frames = [impatient.rows(value) for value in "123"]
    with pytest.raises(SinkTakenOver), writer.batch(frames[0], impatient.offsets(0)) as batch:
        batch.write(frames[0])
        until(lambda: not still_open(impatient.bootstrap, TOPIC, PARTITIONS), "the coordinator has aborted the driver's transaction")
        with other.batch(frames[0], 0) as meanwhile:
            for frame in frames:
                meanwhile.write(frame)
        batch.write(frames[1])
    assert impatient.committed() == [*"123"]
    assert (writer.metrics["ledger"], other.metrics["ledger"]) == ("aborted", "committed")


@BOTH
def test_a_write_that_has_failed_ends_the_batch(site: Site, guard: str) -> None:
    """Its transaction is aborted, with the earlier writes. If the caller suppresses the error inside the block, the next write and the
    block's end raise. Readers see nothing, the ledger has nothing, and the batch can be written again as a whole."""
    writer = site.by_hand(guard=guard)
    refused = pytest.raises(Misuse, match="batch 0 of sink 'sink' cannot be committed: a write into it has failed")
    with refused as caught, writer.batch(site.rows("1"), site.offsets(0)) as batch:
        batch.write(site.rows("1"))
        with pytest.raises(BadRows):
            batch.write(site.rows("2", partition="99"))
        with pytest.raises(Misuse, match=r"a write into it has failed.* 99 is not in the range"):
            batch.write(site.rows("3"))
    assert isinstance(caught.value.__cause__, BadRows)
    assert site.committed() == []
    assert (writer.metrics["ledger"], writer.metrics["rows"]) == ("aborted", 0)
    with writer.batch(site.rows("1"), 0) as batch:
        batch.write(site.rows("1"))
        batch.write(site.rows("3"))
    assert site.committed() == ["1", "3"]
    assert writer.metrics["rows"] == 2


@pytest.mark.usefixtures("soon_given_up")
def test_a_write_that_is_under_way_when_the_block_ends(site: Site) -> None:
    """A batch without its rows is not committed."""
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).hold()
    writer = site.by_hand(max_reruns=0)
    with ThreadPoolExecutor(1) as pool:
        refused = pytest.raises(Misuse, match="a write into it is under way, in another thread")
        with refused, writer.batch(site.rows("1"), site.offsets(0)) as batch:
            writing = pool.submit(batch.write, site.rows("1"))
            assert held.wait(timeout=60)
        held.release()
        assert isinstance(writing.exception(60), FencepostError)
    assert site.committed() == []
    writer(site.rows("1"), 0)
    assert site.committed() == ["1"]


@pytest.mark.parametrize("guard", ["turns", "kafka-claims", "driver", "off", "auto"])
@pytest.mark.parametrize("schema", ["value string", "key string, value string"])
def test_a_dataframe_without_partitions(site: Site, guard: str, schema: str) -> None:
    """Spark runs no task for it: there is nothing to guard, and the batch is committed without rows."""
    empty = site.spark.createDataFrame(site.spark.sparkContext.emptyRDD(), schema)
    assert empty.rdd.getNumPartitions() == 0
    writer = site.by_hand(guard=guard)
    writer(empty, site.offsets(0))
    assert (writer.metrics["ledger"], writer.metrics["rows"], writer.metrics["reruns"]) == ("committed", 0, 0)


def test_rows_that_were_prepared_are_not_kept(site: Site, by_value: None) -> None:
    """Prepared rows are released after the batch, even if preparing them failed and the batch was written again or given up."""
    kept = site.spark.sparkContext._jsc.getPersistentRDDs
    before = kept().size()
    flag = site.place / "failed"
    writer = site.by_hand(guard="turns", stage="always", max_reruns=1)
    df = site.rows("1").mapInArrow(functools.partial(_fails_once, str(flag)), "value string")
    writer(df, site.offsets(0))
    assert (writer.metrics["reruns"], site.committed()) == (1, ["1"])
    assert kept().size() == before
    with pytest.raises(BatchFailed, match="always"):
        writer(site.rows("2", key="cast(raise_error('always') as string)"), site.offsets(1))
    assert kept().size() == before


def _fails_once(flag: str, batches: Iterator[Any]) -> Iterator[Any]:
    if not os.path.exists(flag):
        open(flag, "w").close()
        raise RuntimeError("once")
    yield from batches


@BOTH
def test_a_topic_that_grows(site: Site, guard: str) -> None:
    """While a batch is written all of its tasks go by the number of partitions with which it began; the next batch has the new ones."""
    writer = site.by_hand(guard=guard)
    held = site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).hold()
    keys = [f"k{number}" for number in range(40)]

    def grow() -> None:
        assert held.wait(timeout=60)
        site.stub.add_partitions(TOPIC, 7)
        held.release()

    with ThreadPoolExecutor(1) as pool:
        growing = pool.submit(grow)
        writer(site.rows(*keys, key="value"), site.offsets(0))
        growing.result(60)
    first = site.messages(partitions=7)
    assert sorted(message.key().decode() for message in first) == sorted(keys)
    assert {message.partition() for message in first} == set(range(PARTITIONS))
    until(lambda: _partitions_seen(site, writer, keys), "the new partitions are used", good=lambda seen: seen == set(range(7)))
    counts = [len([each for each in site.committed(partitions=7) if each == key]) for key in keys]
    assert {*counts} == {len(writer.history)}


def _partitions_seen(site: Site, writer: ExactlyOnceKafkaWriter, keys: list[str]) -> set[int]:
    """After another batch. What the driver knows of a topic it asks anew every now and then."""
    writer(site.rows(*keys, key="value"), site.offsets(len(writer.history)))
    return {message.partition() for message in site.messages(partitions=7)}


def test_a_topic_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    """Where brokers create none, it is waited for as long as one call may take, and not once more for each rerun."""
    with BrokerStub(config={"auto.create.topics.enable": False}) as stub:
        site = AnySite(spark, stub.bootstrap, tmp_path, topic="absent")
        writer = site.by_hand(timeout_ms=4_000)
        with pytest.raises(TopicUnavailable, match="absent"):
            writer(site.rows("1"), site.offsets(0))
        assert writer.metrics["reruns"] == 0
        site.close()


def test_a_transaction_timeout_that_the_brokers_do_not_allow(site: Site) -> None:
    """The writer raises before anything is written, and names the brokers' limit."""
    writer = site.by_hand(transaction_timeout_ms=3_600_000)
    with pytest.raises(NotPermitted, match=r"transaction\.max\.timeout\.ms"):
        writer(site.rows("1"), site.offsets(0))
    assert site.committed() == []


@pytest.fixture(params=[1, 2], ids=["tv1", "tv2"])
def slow(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site whose transactions are timed out as soon as the test says so."""
    clock = SkippingClock()
    monkeypatch.setattr("fencepost.txn.spark.sink.sink_session.monotonic", clock.monotonic)
    with BrokerStub(transaction_version=request.param, clock=clock) as stub:
        site = Site(spark, stub, tmp_path)
        try:
            yield site
        finally:
            site.close()


def wait_out(slow: Site, held: Fault, times: int = 1) -> None:
    """Let so many transactions be timed out while a produce request of theirs is held."""
    for hit in range(times):
        assert held.wait(hit + 1, timeout=60)
        slow.stub.advance(LATE_MS)
        held.release()


@drawn(2, kind=lambda row: row["times"])
@BOTH
@pytest.mark.parametrize("times", [1, 2])
def test_a_batch_that_outlives_its_transaction(slow: Site, guard: str, times: int) -> None:
    """The coordinator aborts it. The batch is written once more with its rows prepared first, so that the transaction contains only the
    write. If this takes too long as well, TransactionTooLong names the setting to raise. Readers never see aborted rows."""
    writer = slow.by_hand(guard=guard, transaction_timeout_ms=TIMEOUT_MS)
    held = slow.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).after_append().times(times).hold()
    rows = slow.rows("one row, and so one request", key="value")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_out, slow, held, times)
        if times == 1:
            writer(rows, slow.offsets(0))
        else:
            with pytest.raises(TransactionTooLong, match=rf"transaction_timeout_ms={TIMEOUT_MS}, with its rows prepared beforehand; raise"):
                writer(rows, slow.offsets(0))
        waiting.result(60)
    assert writer.metrics["staged"] is True
    assert writer.metrics["reruns"] == 0
    assert slow.committed() == (["one row, and so one request"] if times == 1 else [])


def test_a_run_remembers_that_it_is_too_slow(slow: Site, caplog: pytest.LogCaptureFixture) -> None:
    """After one batch that outlived its transaction the later ones of the run have their rows prepared at once, which is logged once. The
    next run, perhaps with more executors, begins anew."""
    writer = slow.by_hand(guard="turns", transaction_timeout_ms=TIMEOUT_MS)
    held = slow.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).after_append().times(1).hold()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_out, slow, held)
        writer(slow.rows("0", key="value"), slow.offsets(0))
        waiting.result(60)
    writer(slow.rows("1", key="value"), slow.offsets(1))
    next_run = slow.by_hand(guard="turns", transaction_timeout_ms=TIMEOUT_MS)
    next_run(slow.rows("2", key="value"), slow.offsets(2))
    assert [each["staged"] for each in (*writer.history, *next_run.history)] == [True, True, False]
    assert ["stage" in each["ms"] for each in (*writer.history, *next_run.history)] == [True, True, False]
    assert len([each for each in caplog.messages if "each batch of this run" in each]) == 1
    assert slow.committed() == ["0", "1", "2"]


@pytest.mark.parametrize("stage", ["auto", "never"])
@pytest.mark.parametrize("taken_over_first", [True, False])
def test_a_replaced_driver_does_not_take_the_sink_back(slow: Site, stage: str, *, taken_over_first: bool) -> None:
    """Its transaction is over twice: it took longer than its timeout, and another driver took the sink over, before or after that. The
    other driver is in the middle of the batch, and commits it."""
    rows = slow.rows("1", key="value")
    older = slow.by_hand(transaction_timeout_ms=TIMEOUT_MS, stage=stage)
    newer = slow.by_hand(transaction_timeout_ms=10 * TIMEOUT_MS)
    slow.offsets(0)
    with ExitStack() as at_work:
        with pytest.raises(SinkTakenOver, match="Nothing of it was committed by this driver"), older.batch(rows, 0) as first:
            first.write(rows)
            if not taken_over_first:
                slow.stub.advance(LATE_MS)
            at_work.enter_context(newer.batch(rows, 0)).write(rows)
            if taken_over_first:
                slow.stub.advance(LATE_MS)
        assert older.metrics["ledger"] == "aborted"
        assert slow.committed() == []
    assert newer.metrics["ledger"] == "committed"
    assert slow.committed() == ["1"]


@pytest.mark.usefixtures("soon_given_up")
def test_a_replaced_driver_whose_commit_is_in_doubt_does_not_take_the_sink_back(slow: Site) -> None:
    """It asked for the commit, and got no answer before another driver took the sink over: it says that the ledger knows."""
    rows = slow.rows("1", key="value")
    older, newer = slow.by_hand(timeout_ms=2_500, request_timeout_ms=500), slow.by_hand()
    unheard = slow.stub.faults.on(Api.END_TXN).forever().drop()
    slow.offsets(0)
    with ThreadPoolExecutor(1) as pool, ExitStack() as at_work:
        writing = pool.submit(older, rows, 0)
        assert unheard.wait(1, timeout=60)
        at_work.enter_context(newer.batch(rows, 0)).write(rows)
        with pytest.raises(SinkTakenOver, match="may have committed it; the ledger says so"):
            writing.result(60)
        assert older.metrics["ledger"] == "unknown"
        unheard.remove()
    assert slow.committed() == ["1"]


def test_a_batch_that_is_never_staged(slow: Site) -> None:
    """`stage="never"`: too long is too long."""
    writer = slow.by_hand(transaction_timeout_ms=TIMEOUT_MS, stage="never")
    held = slow.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).after_append().hold()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_out, slow, held)
        with pytest.raises(TransactionTooLong, match="stage='never'"):
            writer(slow.rows("1"), slow.offsets(0))
        waiting.result(60)
    assert slow.committed() == []


def test_preparing_takes_none_of_the_transactions_time(slow: Site) -> None:
    """Rows are prepared, or collected, before the brokers hear of the transaction: however long that takes, it is not the batch that was
    too long."""
    writer = slow.by_hand(guard="turns", transaction_timeout_ms=TIMEOUT_MS, stage="always")
    with writer.batch(slow.rows("0"), slow.offsets(0)) as batch:
        slow.stub.advance(LATE_MS)
        slow.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).error(ErrorCode.UNKNOWN_SERVER_ERROR)
        batch.write(slow.rows(*"abc", key="value"))
    assert writer.metrics["reruns"] == 1
    assert slow.committed() == [*"abc"]
