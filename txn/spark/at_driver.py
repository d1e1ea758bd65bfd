"""One DataFrame into the open transaction, from the driver itself: for small batches. No task writes, so there is nothing to guard."""

from __future__ import annotations

from collections.abc import Callable

from txn.errors import MustAbort
from txn.ledger_entry import LedgerPartition
from txn.spark.bad_rows import KEPT_BYTES
from txn.spark.collecting import collected
from txn.spark.delivering import columns_of
from txn.spark.errors import BadRows
from txn.spark.for_good import NEVER, never
from txn.spark.metrics import BatchMetrics
from txn.spark.placing import PLACED, Placer
from txn.spark.plan import Outcome, WritePlan, merged
from txn.spark.routing import with_routes
from txn.spark.summary import Summary
from txn.transaction import Transaction


def write_at_driver(
    plan: WritePlan, transaction: Transaction, metrics: BatchMetrics, opening: Callable[[], None], limit: tuple[int, str]
) -> Outcome:
    """Collect the rows, call `opening`, and write them. `limit`: the bytes that a record may take, and the setting that says so. Raises
    TooMuch, before anything is written."""
    with metrics.phase("collect"):
        batches = collected(plan.frame, plan.collect_bytes_max)
    opening()
    routes = plan.routes
    with metrics.phase("write"):
        placer = Placer(
            routes,
            routes.every,
            topic=plan.columns.topic,
            largest=limit[0],
            limited_by=limit[1],
            limits=plan.limits,
            kept_bytes=KEPT_BYTES if plan.keep_bad else 0,
            bad_row_limit=plan.bad_row_limit,
            task=routes.turn,
        )
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
        bad += placer.rest()
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
