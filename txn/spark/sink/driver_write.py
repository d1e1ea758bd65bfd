"""One DataFrame into the open transaction, from the driver itself: for small batches. No task writes, so no guard is needed."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.txn.errors import MustAbort
from fencepost.txn.ledger.entry import LedgerPartition
from fencepost.txn.spark.errors import BadRows
from fencepost.txn.spark.rows.bad_rows import KEPT_BYTES, RowCheck
from fencepost.txn.spark.rows.routing import with_routes
from fencepost.txn.spark.rows.row_placement import PLACED, Placer
from fencepost.txn.spark.rows.task_summary import Summary
from fencepost.txn.spark.sink.collect_rows import collected
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.partition_writer import columns_of
from fencepost.txn.spark.sink.permanent_errors import NEVER, never
from fencepost.txn.spark.sink.write_plan import Outcome, WritePlan, merged
from fencepost.txn.transaction import Transaction


def write_at_driver(
    plan: WritePlan, transaction: Transaction, metrics: BatchMetrics, opening: Callable[[], None], limit: tuple[int, str]
) -> Outcome:
    """Collect the rows, call `opening`, and write them. `limit`: the bytes of a record, and the setting that limits them. Raises TooMuch
    before anything is written."""
    with metrics.phase("collect"):
        batches = collected(plan.frame, plan.collect_bytes_max)
    opening()
    routes = plan.routes
    with metrics.phase("write"):
        check = RowCheck(
            routes,
            topic=plan.columns.topic,
            largest=limit[0],
            limited_by=limit[1],
            limits=plan.limits,
            kept_bytes=KEPT_BYTES if plan.keep_bad else 0,
            bad_row_limit=plan.bad_row_limit,
        )
        placer = Placer(check, routes.every, rotation=routes.rotation)
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
        bad += check.rest()
        partitions: list[LedgerPartition] = []
        for topic, future in futures:
            told = future.result(plan.timeout_s)
            for row, failure in told.failures.items():
                if failure.code in NEVER:
                    raise BadRows(never(failure)) from failure
                raise MustAbort(f"row {row} of a portion for topic {topic!r} was not delivered: {failure}", failure)
            partitions += [
                LedgerPartition(topic, partition, sum(map(len, ranges)), min((each.start for each in ranges), default=None))
                for partition, ranges in told.offsets.items()
            ]
    return Outcome(partitions=merged(partitions), rows=sum(each.records for each in partitions), bytes=size, bad=bad)
