"""The work of `format("fencepost")` in a Spark task: it writes the task's rows into the open transaction.

Spark neither routes rows for a data source nor says how many tasks there are. So the task attempt that first writes to a Kafka partition
claims it in Kafka. Another task with rows for that partition fails, and with it the batch. Rows without key and partition go to partitions
of the task's own, one of each topic.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field, structs
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from fencepost.txn.spark.datasource.partition_claims import Claims
from fencepost.txn.spark.datasource.write_begin import Begun, SharedTransaction
from fencepost.txn.spark.datasource.write_options import SinkOptions
from fencepost.txn.spark.errors import BatchUnknown
from fencepost.txn.spark.rows.bad_rows import KEPT_BYTES, RowCheck
from fencepost.txn.spark.rows.columns import KEY, NO_TIME, PARTITION, SECONDS_MAX, TIMESTAMP, TOPIC, SinkColumns
from fencepost.txn.spark.rows.routing import ROUTE, Routes, route_numbers
from fencepost.txn.spark.rows.row_placement import Placer
from fencepost.txn.spark.rows.task_summary import DONE, WRITTEN, Summary, told_of
from fencepost.txn.spark.sink.participant_pool import pooled
from fencepost.txn.spark.sink.partition_writer import send
from fencepost.txn.spark.sink.query_identity import BATCH_ID, QUERY_ID, BatchIdentity
from fencepost.txn.spark.sink.write_task import make_participant


class Told(WriterCommitMessage):
    """What a task reports to the end. `claimed`: the partitions that it has."""

    def __init__(self, begun: Begun, summaries: list[Summary], claimed: list[int]) -> None:
        self.begun = begun
        self.summaries = summaries
        self.claimed = claimed


class Attempt(Struct, frozen=True):
    """The Spark task and its attempt."""

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
    """Write the rows of the present Spark task."""
    context = TaskContext.get()
    assert context is not None, "outside a Spark task"
    _check_batch(begun, context)
    attempt = Attempt(context.stageId(), context.partitionId(), context.attemptNumber(), context.taskAttemptId())
    return write_as(attempt, begun, options, columns, batches)


def write_as(attempt: Attempt, begun: Begun, options: SinkOptions, columns: SinkColumns, batches: Iterable[pa.RecordBatch]) -> Told:
    """The same for a given attempt. If the ledger has the batch, its rows are read nevertheless, because Spark keeps state by them."""
    began = time.perf_counter()
    work = Work()
    claimed: list[int] = []
    if begun.shared is None:
        for _ in batches:
            pass
    else:
        claims = Claims(begun.shared, task=attempt.task, attempt_id=attempt.attempt_id)
        _write((batch for batch in batches if batch.num_rows), begun.shared, options, columns, claims, work)
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
    """The beginning must be of the batch that Spark runs."""
    identity = begun.identity
    if not isinstance(identity, BatchIdentity):
        return
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if (query, batch) != (identity.query, str(identity.batch)):
        raise BatchUnknown(
            f"Spark runs batch {batch} of query {query}, but the checkpoint's newest is {identity.full_name}: set checkpointLocation to the"
            " query's own, and asyncProgressTrackingEnabled to false"
        )


def _write(
    batches: Iterator[pa.RecordBatch], shared: SharedTransaction, options: SinkOptions, columns: SinkColumns, claims: Claims, work: Work
) -> None:
    batch = next(batches, None)
    if batch is None:
        return
    routes = shared.routes
    every = [routes.partition(number) for number in range(routes.total)]
    # Rows that `route` has moved say where to, even those with neither key nor partition.
    numbered = columns.placed or ROUTE in batch.schema.names
    own = every if numbered else []
    with pooled(options.kafka.key, lambda: make_participant(options.kafka)) as participant:
        participant.begin(shared.participation.part(every))
        largest, limited_by = participant.record_limit
        retried = participant.stats().record_retry_total
        kept_bytes = KEPT_BYTES if options.settings.dead_letters is not None else 0
        check = RowCheck(
            routes,
            topic=options.topic,
            largest=largest,
            limited_by=limited_by,
            limits=shared.limits,
            kept_bytes=kept_bytes,
            bad_row_limit=options.settings.bad_rows_taken,
        )
        placer = Placer(check, own)
        while batch is not None:
            rows = sink_rows(batch, columns)
            if numbered:
                rows = _numbered(rows, batch, routes, claims.task)
                claims.need(rows.column(ROUTE))
            elif new := _topics_of(rows, routes) - {topic for topic, _ in own}:
                own = [*own, *(routes.partition(claims.any(topic)) for topic in sorted(new))]
                placer.own(own)
            portions, bad = placer.place(rows)
            work.told += (_named(each, options) for each in bad)
            for portion in portions:
                send(participant, portion.topic, portion.rows)
                work.size += portion.bytes
            batch = next(batches, None)
        work.told += (*check.rest(), *map(told_of, participant.finish(options.settings.timeout_s)))
        work.retries = participant.stats().record_retry_total - retried


def _named(bad: Summary, options: SinkOptions) -> Summary:
    """The error for a row of another topic; it names the option that must list the topic."""
    if bad.topic in (None, *options.topics):
        return bad
    return replace(bad, reason=f"topic {bad.topic!r} is none of the option topics={','.join(options.topics)!r}")


def sink_rows(batch: pa.RecordBatch, columns: SinkColumns) -> pa.RecordBatch:
    """The columns for Kafka, as `select_columns` makes them."""
    named = zip(columns.names, columns.places, strict=True)
    found = [_milliseconds(batch.column(place)) if name == TIMESTAMP else batch.column(place) for name, place in named]
    return pa.RecordBatch.from_arrays(found, names=list(columns.names))


def _milliseconds(times: Any) -> Any:
    """From microseconds or seconds as in Spark's sink, cut off after the milliseconds. Whole numbers are milliseconds."""
    if pa.types.is_integer(times.type):
        return times
    if pa.types.is_floating(times.type):
        times = pc.if_else(pc.is_finite(times), times, pa.scalar(None, times.type))
        is_none = pc.greater(pc.abs(times), SECONDS_MAX)
        times = pc.cast(pc.multiply(pc.if_else(is_none, 0.0, times), 1_000_000.0), pa.int64(), safe=False)
        return pc.if_else(is_none, pa.scalar(NO_TIME, pa.int64()), pc.divide(times, 1000))
    return pc.divide(times.cast(pa.int64()), 1000)


def _topics_of(rows: pa.RecordBatch, routes: Routes) -> set[str]:
    """The routes that have rows."""
    if TOPIC not in rows.schema.names:
        return {*routes.topics}
    there = pc.is_in(pa.array(routes.topics, pa.string()), value_set=pc.unique(rows.column(TOPIC)))
    return {*compress(routes.topics, there.to_pylist())}


def _numbered(rows: pa.RecordBatch, given: pa.RecordBatch, routes: Routes, task: int) -> pa.RecordBatch:
    """The batch with the route of each row: by its key or its partition, and otherwise as `route` has placed it."""
    keys, partitions, topics = (rows.column(name) if name in rows.schema.names else None for name in (KEY, PARTITION, TOPIC))
    numbers = route_numbers(routes, rows.num_rows, keys, partitions, topics, rotation=task)
    if ROUTE in given.schema.names:
        # `route` was told how many partitions there are. If that was wrong, its number may be another topic's.
        place = pa.array([place for place, count in enumerate(routes.counts) for _ in range(count)], pa.int32())
        fits = pc.equal(*(place.take(_inside(each, routes.total)) for each in (given.column(ROUTE), numbers)))
        for each in (keys, partitions):
            fits = fits if each is None else pc.and_(fits, pc.is_null(each))
        numbers = pc.if_else(pc.fill_null(fits, False), given.column(ROUTE), numbers)
    return pa.RecordBatch.from_arrays([*rows.columns, numbers], names=[*rows.schema.names, ROUTE])


def _inside(numbers: Any, total: int) -> Any:
    """Null if it is no route."""
    return pc.if_else(pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, total)), numbers, pa.scalar(None, pa.int32()))
