"""What `format("fencepost")` does in a Spark task: the rows that Spark gives it into the open transaction.

Spark neither routes rows for a data source nor says how many tasks there are. So each Kafka partition is claimed, in Kafka, by the task
attempt that writes there first; another one that has rows for it fails, and with it the batch. Rows without key and partition go to a
partition of the task's own.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field, structs
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from txn.spark.claims_topic import KafkaClaim
from txn.spark.columns import KEY, PARTITION, TIMESTAMP, SinkColumns
from txn.spark.delivering import send
from txn.spark.errors import BatchUnknown, Tainted
from txn.spark.placing import Placer
from txn.spark.pool import borrowed
from txn.spark.query import BATCH_ID, QUERY_ID, BatchIdentity
from txn.spark.routing import ROUTE, route_numbers
from txn.spark.sink_begin import Begun, Lent
from txn.spark.sink_options import SinkOptions
from txn.spark.summary import DONE, WRITTEN, Summary
from txn.spark.task import BAD_ROWS_REPORTED, make_borrower


class Told(WriterCommitMessage):
    """What a task tells the end. `claimed`: the partitions that it has."""

    def __init__(self, begun: Begun, summaries: list[Summary], claimed: list[int]) -> None:
        self.begun = begun
        self.summaries = summaries
        self.claimed = claimed


class Attempt(Struct, frozen=True):
    """Which attempt of which Spark task this is."""

    stage: int
    task: int
    attempt: int
    attempt_id: int


class Work(Struct):
    """What a task has done so far."""

    told: list[Summary] = field(default_factory=list)
    size: int = 0
    retries: int = 0


def write_rows(begun: Begun, options: SinkOptions, columns: SinkColumns, batches: Iterable[pa.RecordBatch]) -> Told:
    """Write the rows of the Spark task that calls."""
    context = TaskContext.get()
    assert context is not None, "outside a Spark task"
    _check_batch(begun, context)
    attempt = Attempt(context.stageId(), context.partitionId(), context.attemptNumber(), context.taskAttemptId())
    return write_as(attempt, begun, options, columns, batches)


def write_as(attempt: Attempt, begun: Begun, options: SinkOptions, columns: SinkColumns, batches: Iterable[pa.RecordBatch]) -> Told:
    """The same for an attempt that is known. Where the ledger has the batch its rows are read all the same, for Spark to keep its state
    by."""
    began = time.perf_counter()
    work = Work()
    claimed: list[int] = []
    if begun.lent is None:
        for _ in batches:
            pass
    else:
        claims = Claims(begun.lent, task=attempt.task, attempt_id=attempt.attempt_id)
        _write((batch for batch in batches if batch.num_rows), begun.lent, options, columns, claims, work)
        claimed = sorted(claims.own)
    done = Summary(
        kind=DONE,
        records=sum(each.records for each in work.told if each.kind == WRITTEN),
        worker=f"{socket.gethostname()}:{os.getpid()}",
        size=work.size,
        retries=work.retries,
        ms=(time.perf_counter() - began) * 1000.0,
    )
    return Told(begun, [replace(each, **structs.asdict(attempt)) for each in (*work.told, done)], claimed)


def _check_batch(begun: Begun, context: TaskContext) -> None:
    """What was begun has to be what Spark runs."""
    identity = begun.identity
    if not isinstance(identity, BatchIdentity):
        return
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if (query, batch) != (identity.query, str(identity.batch)):
        raise BatchUnknown(
            f"Spark runs batch {batch} of query {query}, and the checkpoint's newest is {identity.full_name}: is checkpointLocation the"
            " query's own, and asyncProgressTrackingEnabled off?"
        )


def _write(batches: Iterator[pa.RecordBatch], lent: Lent, options: SinkOptions, columns: SinkColumns, claims: Claims, work: Work) -> None:
    batch = next(batches, None)
    if batch is None:
        return
    routes = lent.routes
    every = [routes.partition(number) for number in range(routes.total)]
    with borrowed(options.kafka.key, lambda: make_borrower(options.kafka)) as borrower:
        borrower.begin(lent.loan.part(every))
        largest, limited_by = borrower.record_limit
        retried = borrower.stats().record_retry_total
        own = every if columns.placed else [routes.partition(claims.any())]
        placer = Placer(routes, own, topic=options.topic, largest=largest, limited_by=limited_by)
        while batch is not None:
            rows = sink_rows(batch, columns)
            if columns.placed:
                rows = _numbered(rows, batch, lent, claims.task)
                claims.need(rows.column(ROUTE))
            portions, bad = placer.place(rows)
            note_bad(work.told, bad, options)
            for portion in portions:
                send(borrower, portion.topic, portion.rows)
                work.size += portion.bytes
            batch = next(batches, None)
        work.told += [
            Summary(
                kind=WRITTEN,
                topic=each.topic,
                partition=each.partition,
                records=each.records,
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                next_sequence=each.next_sequence,
            )
            for each in borrower.finish(options.settings.timeout_s)
        ]
        work.retries = borrower.stats().record_retry_total - retried


def note_bad(told: list[Summary], bad: list[Summary], options: SinkOptions) -> None:
    """Rows that cannot be written, as many as are of use."""
    keep = options.settings.dead_letters is not None
    limit = options.settings.bad_row_limit if keep else BAD_ROWS_REPORTED
    room = max(0, limit - len(told))
    if keep and len(bad) > room:
        raise ValueError(f"more than {limit} rows of one task cannot be written (badRowLimit); the last: {bad[-1].reason}")
    told += [each if keep else replace(each, key=None, value=None) for each in bad[:room]]


class Claims:
    """The partitions of one task attempt, by their routes. `own`: those that it has."""

    def __init__(self, lent: Lent, *, task: int, attempt_id: int) -> None:
        self.own: set[int] = set()
        self.task = task
        self._attempt_id = attempt_id
        self._lent = lent

    def need(self, numbers: Any) -> None:
        """Have all partitions of these routes. Raises Tainted where another one has them."""
        wanted = {number for number in pc.unique(numbers).to_pylist() if number >= 0} - self.own
        for winner in self._claim(sorted(wanted)):
            if self._is_ours(winner):
                continue
            topic, partition = self._lent.routes.partition(winner.task)
            if winner.claimant == self.task:
                raise Tainted(f"{topic}-{partition} belongs to attempt {winner.attempt_id} of this task, which may have written there")
            raise Tainted(
                f"Kafka partition {partition} of topic {topic!r} is produced by two Spark tasks, {winner.claimant} and {self.task};"
                f" wrap the DataFrame in route(df, {self._lent.routes.total}, topic={topic!r})"
            )

    def any(self) -> int:
        """Have a partition that nobody has; each task begins to look at another one. Raises Tainted where there is none."""
        total = self._lent.routes.total
        for step in range(total):
            (winner,) = self._claim([(self.task + self._lent.routes.turn + step) % total])
            if self._is_ours(winner):
                return winner.task
            if winner.claimant == self.task:
                raise Tainted(f"attempt {winner.attempt_id} of this task may have written already")
        raise Tainted(f"there are more Spark tasks than topic {self._lent.routes.topics[0]!r} has partitions: df.coalesce({total}) or less")

    def _claim(self, numbers: list[int]) -> list[KafkaClaim]:
        if not numbers:
            return []
        winners = self._lent.desk.claim_all([KafkaClaim(number, self._attempt_id, self.task) for number in numbers])
        self.own.update(each.task for each in winners if self._is_ours(each))
        return winners

    def _is_ours(self, claim: KafkaClaim) -> bool:
        return (claim.claimant, claim.attempt_id) == (self.task, self._attempt_id)


def sink_rows(batch: pa.RecordBatch, columns: SinkColumns) -> pa.RecordBatch:
    """The columns that Kafka gets, as `txn.spark.columns.select` would have them."""
    named = zip(columns.names, columns.places, strict=True)
    found = [_milliseconds(batch.column(place)) if name == TIMESTAMP else batch.column(place) for name, place in named]
    return pa.RecordBatch.from_arrays(found, names=list(columns.names))


def _milliseconds(times: Any) -> Any:
    """Of microseconds or of seconds as Spark's sink makes them, cut off after the milliseconds. Whole numbers are milliseconds."""
    if pa.types.is_integer(times.type):
        return times
    if pa.types.is_floating(times.type):
        times = pc.if_else(pc.is_finite(times), times, pa.scalar(None, times.type))
        times = pc.cast(pc.multiply(times, 1_000_000.0), pa.int64(), safe=False)
    return pc.divide(times.cast(pa.int64()), 1000)


def _numbered(rows: pa.RecordBatch, given: pa.RecordBatch, lent: Lent, task: int) -> pa.RecordBatch:
    """With the route of each row: by its key or its partition, and where it has neither, where `route` has brought it."""
    keys, partitions = (rows.column(name) if name in rows.schema.names else None for name in (KEY, PARTITION))
    numbers = route_numbers(lent.routes, rows.num_rows, keys, partitions, None, turn=task)
    if ROUTE in given.schema.names:
        free = [pc.is_null(each) for each in (keys, partitions) if each is not None]
        brought = given.column(ROUTE)
        lies = pc.and_(pc.greater_equal(brought, 0), pc.less(brought, lent.routes.total))
        numbers = pc.if_else(pc.and_(free[0] if len(free) == 1 else pc.and_(*free), lies), brought, numbers)
    return pa.RecordBatch.from_arrays([*rows.columns, numbers], names=[*rows.schema.names, ROUTE])
