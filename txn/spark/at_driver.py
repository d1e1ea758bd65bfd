"""One DataFrame into the open transaction, from the driver itself: for small batches. No task writes, so there is nothing to guard.

The rows are collected as Arrow, up to Spark's own limit (spark.driver.maxResultSize).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from txn.errors import MustAbort
from txn.ledger_entry import LedgerPartition
from txn.spark.delivering import columns_of
from txn.spark.executing import ROWS_PER_BATCH, large_batches
from txn.spark.metrics import BatchMetrics
from txn.spark.placing import PLACED, Placer
from txn.spark.plan import Outcome, WritePlan, merged
from txn.spark.routing import with_routes
from txn.spark.summary import Summary
from txn.transaction import Transaction


def write_at_driver(
    plan: WritePlan, transaction: Transaction, metrics: BatchMetrics, opening: Callable[[], None], limit: tuple[int, str]
) -> Outcome:
    """Collect the rows, call `opening`, and write them. `limit`: the bytes that a record may take, and the setting that says so."""
    with metrics.phase("collect"), large_batches(plan.frame):
        batches = collected(plan.frame)
    opening()
    routes = plan.routes
    with metrics.phase("write"):
        every = [routes.partition(number) for number in range(routes.total)]
        placer = Placer(routes, every, topic=plan.columns.topic, largest=limit[0], limited_by=limit[1], task=routes.turn)
        bad: list[Summary] = []
        size = 0
        futures = []
        for batch in batches:
            portions, more = placer.place(with_routes(batch, routes) if plan.numbered else batch)
            bad += more
            for portion in portions:
                sent = transaction.send_arrow(portion.topic, portion.rows, partition=PLACED, **columns_of(portion.rows))
                futures.append((portion.topic, sent))
                size += portion.bytes
        partitions: list[LedgerPartition] = []
        for topic, future in futures:
            told = future.result(plan.timeout_s)
            for row, failure in told.failures.items():
                raise MustAbort(f"row {row} of a portion for topic {topic!r} was not delivered: {failure}", failure)
            partitions += [
                LedgerPartition(topic, partition, sum(map(len, ranges)), min((each.start for each in ranges), default=None))
                for partition, ranges in told.offsets.items()
            ]
    return Outcome(partitions=merged(partitions), rows=sum(each.records for each in partitions), bytes=size, bad=bad)


def collected(frame: Any) -> list[pa.RecordBatch]:
    """The rows, as Arrow batches of at most ROWS_PER_BATCH rows."""
    if hasattr(frame, "toArrow"):
        batches: list[pa.RecordBatch] = frame.toArrow().to_batches(max_chunksize=ROWS_PER_BATCH)
        return batches
    # Before Spark 4.0.
    found: list[pa.RecordBatch] = frame._collect_as_arrow()
    return found
