"""The totals of a Spark writer's batches, as Prometheus reads them."""

from __future__ import annotations

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame

from fencepost.producer import prometheus_text
from fencepost.txn.spark.sink.metrics import HISTORY, BatchMetrics, MetricsHistory, SparkWriterStats
from tests.txn.spark.site import Site


def batch(number: int, ledger: str) -> BatchMetrics:
    return BatchMetrics(sink="s", query=None, batch=number, rows=10, bytes=100, bad_rows=1, retries=2, ledger=ledger, ms={"write": 500.0})


def test_totals_outlive_the_history() -> None:
    """Each batch counts once, with what it is in the end, also after its metrics are no longer kept."""
    history = MetricsHistory()
    for number in range(3 * HISTORY):
        metrics = batch(number, "open")
        history.add(metrics)
        metrics.ledger = ("committed", "skipped", "aborted")[number % 3]
        metrics.committed_at = float(number)
    history.add(batch(900, "open"))
    assert len(history.all()) == HISTORY
    assert history.stats("s") == SparkWriterStats(
        sink="s",
        started_at=history.started_at,
        committed=HISTORY,
        skipped=HISTORY,
        aborted=HISTORY,
        rows=10 * HISTORY,
        bytes=100 * HISTORY,
        bad_rows=3 * HISTORY + 1,
        retries=2 * (3 * HISTORY + 1),
        batch=3 * HISTORY - 3,
        batch_rows=10,
        batch_seconds=0.5,
        committed_at=float(3 * HISTORY - 3),
    )


def test_a_writer(site: Site) -> None:
    """Two batches, and the second one again: Prometheus reads them with the sink's name."""
    before = time.time()
    writer = site.writer()
    site.feed("1", "2")
    site.feed("3", "4")

    def twice(df: DataFrame, batch_id: int) -> None:
        writer(df, batch_id)
        if batch_id == 1:
            writer(df, batch_id)

    assert site.run(twice) is None
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(prometheus_text(writer.stats()))
        for sample in family.samples
        if sample.labels == {"sink": site.sink}
    }
    assert (found["fencepost_spark_batches_committed_total"], found["fencepost_spark_batches_skipped_total"]) == (2, 1)
    assert (found["fencepost_spark_rows_total"], found["fencepost_spark_batch"], found["fencepost_spark_batch_rows"]) == (4, 1, 2)
    assert before <= found["fencepost_spark_started_at_seconds"] < found["fencepost_spark_committed_at_seconds"] <= time.time()


def test_what_is_no_snapshot() -> None:
    """The error names its class."""
    with pytest.raises(TypeError, match=r"^prometheus_text takes what stats\(\) returns, not dict$"):
        prometheus_text({})
