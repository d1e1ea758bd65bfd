"""One DataFrame into the open transaction, through executors: the participation, the job, and two checks of what Spark delivered.

It does not end the transaction. The guard checks that the job's rows are valid; this module checks that each partition had one writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from fencepost.producer.core.idempotence.sequence import SEQUENCE_RING, advance, distance
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.shared.participation import TP, Participation, Written, name
from fencepost.txn.spark.connection.spark_context import context_of, settle_python, slots_that_may_come
from fencepost.txn.spark.errors import AttemptConflict
from fencepost.txn.spark.guards.guards import Guard, more_attempts
from fencepost.txn.spark.rows.routing import routed, scattered
from fencepost.txn.spark.rows.task_summary import BAD, DONE, SCHEMA, WRITTEN, Summary, account_of, from_rows, joined
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.write_plan import Outcome, WritePlan, ledger_partition
from fencepost.txn.spark.sink.write_task import WriteTask
from fencepost.txn.transaction import Transaction

ROWS_PER_BATCH: Final = 100_000
ARROW_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
BLOCKS: Final = "spark.fencepost.largeBatches"
"""The number of open blocks of `large_batches` in a session. It is kept beside the setting, because a program may have several objects for
one session."""
_CONF: Final = RLock()


def write_on_executors(
    plan: WritePlan, guard: Guard, transaction: Transaction, metrics: BatchMetrics, opening: Callable[[], None]
) -> Outcome:
    """Let the executors write. `opening` is called first. Raises AttemptConflict unless exactly one attempt of each task certainly
    wrote."""
    settle_python(context_of(plan.frame.sparkSession))
    frame = _brought(plan)
    tasks = plan.tasks or _at_once(plan)
    with prepared(frame, plan, metrics):
        opening()
        with metrics.phase("share"):
            participation = transaction.share(plan.routes.every)
        task = WriteTask(
            participation=participation,
            routes=plan.routes,
            tasks=tasks,
            guard=guard.begin(tasks, participation),
            numbers=plan.numbered and not plan.moves,
            kafka=plan.kafka,
            topic=plan.columns.topic,
            keep_bad=plan.keep_bad,
            bad_row_limit=plan.bad_row_limit,
            limits=plan.limits,
            timeout_s=plan.timeout_s,
        )
        with metrics.phase("write"), large_batches(frame):
            rows = frame.mapInArrow(task, SCHEMA).collect()
    with metrics.phase("verify"):
        summaries = from_rows(rows)
        done = [each for each in summaries if each.kind == DONE]
        metrics.tasks += len(done)
        metrics.retries += sum(each.retries for each in done)
        metrics.stage_attempts += more_attempts(context_of(frame.sparkSession), {each.stage for each in done})
        guard.verify(done)
        written = account(participation, check(summaries, shared=guard.shares))
        transaction.returned([*written, *participation.unused(written)])
    return Outcome(
        partitions=tuple(map(ledger_partition, written)),
        rows=sum(each.records for each in written),
        bytes=sum(each.size for each in done),
        bad=[each for each in summaries if each.kind == BAD],
    )


@contextmanager
def prepared(frame: DataFrame, plan: WritePlan, metrics: BatchMetrics) -> Iterator[None]:
    """If wanted, move the rows to the tasks that write them, and keep them there during the block."""
    if not plan.staged:
        yield
        return
    # Rows that the user has cached stay cached.
    keeps = not (frame.storageLevel.useDisk or frame.storageLevel.useMemory)
    try:
        with metrics.phase("stage"):
            if keeps:
                frame.persist(StorageLevel.DISK_ONLY)
            frame.write.format("noop").mode("overwrite").save()
        yield
    except BaseException:
        if keeps:
            # Spark may meet the same error again here.
            with suppress(PySparkException, Py4JError):
                frame.unpersist()
        raise
    if keeps:
        frame.unpersist()


def _brought(plan: WritePlan) -> DataFrame:
    """The rows in the tasks that write them."""
    if plan.tasks is None:
        return plan.frame
    if not plan.moves:
        return plan.frame.coalesce(plan.tasks)
    return (routed if plan.numbered else scattered)(plan.frame, plan.routes, plan.tasks)


def _at_once(plan: WritePlan) -> int:
    """The approximate number of tasks that write at once, if Spark chooses it."""
    return max(1, min(plan.routes.total, slots_that_may_come(plan.frame.sparkSession) or plan.routes.total))


def check(summaries: Sequence[Summary], *, shared: bool = False) -> list[Summary]:
    """The rows about written partitions: each partition once unless it is shared, each from a task that read all of its input. Raises
    AttemptConflict."""
    attempts = {(each.task, each.attempt_id) for each in summaries if each.kind == DONE}
    written = [each for each in summaries if each.kind == WRITTEN]
    owners: dict[tuple[str | None, int | None], Summary] = {}
    for each in written:
        other = owners.setdefault((each.topic, each.partition), each)
        if other is not each and not shared:
            raise AttemptConflict(f"{each.topic}-{each.partition} was written by task {other.task} and by task {each.task}")
        if (each.task, each.attempt_id) not in attempts:
            raise AttemptConflict(f"task {each.task} did not read all of its input, but Spark delivered rows of it")
    if len({task for task, _ in attempts}) != len(attempts):
        raise AttemptConflict("Spark delivered the rows of two attempts of one task")
    return written


@contextmanager
def large_batches(frame: DataFrame) -> Iterator[None]:
    """Use Arrow batches of ROWS_PER_BATCH rows for the jobs of the block. Two cases are left alone: the user has set the number of rows, or
    Spark does not limit the bytes of a batch, so that many large rows would not fit. Blocks of one session may overlap: the last one
    restores the setting."""
    conf = frame.sparkSession.conf
    if not _bytes_are_limited(conf):
        yield
        return
    with _CONF:
        inside = int(conf.get(BLOCKS, "0") or 0)
        ours = inside > 0 or conf.get(ARROW_ROWS, None) is None
        if ours:
            conf.set(BLOCKS, str(inside + 1))
        if ours and not inside:
            conf.set(ARROW_ROWS, str(ROWS_PER_BATCH))
    try:
        yield
    finally:
        if ours:
            _leave(conf)


def _bytes_are_limited(conf: Any) -> bool:
    """Whether this release of Spark limits the bytes of a batch."""
    try:
        conf.get(ARROW_BYTES)
    except (PySparkException, Py4JError):
        return False
    return True


def _leave(conf: Any) -> None:
    with _CONF:
        inside = int(conf.get(BLOCKS, "1") or 1) - 1
        if inside:
            conf.set(BLOCKS, str(inside))
            return
        conf.unset(BLOCKS)
        if conf.get(ARROW_ROWS, None) == str(ROWS_PER_BATCH):
            conf.unset(ARROW_ROWS)


def account(participation: Participation, rows: Sequence[Summary]) -> list[Written]:
    """What was written to each partition, by any number of tasks. Raises AttemptConflict if their records do not take all sequences up to
    the last one."""
    begins = {(topic, partition): sequence for topic, partition, sequence in participation.sequences}
    found: dict[TP, Written] = {}
    for written in sorted(map(account_of, rows), key=lambda each: distance(begins[each.topic, each.partition], each.next_sequence)):
        tp = written.topic, written.partition
        found[tp] = joined(found.get(tp), written)
    for tp, written in found.items():
        if advance(begins[tp], written.records % SEQUENCE_RING) != written.next_sequence:
            raise AttemptConflict(
                f"{name(tp)}: Spark delivered accounts of {counted(written.records, 'record')}, and their sequences go from {begins[tp]} to"
                f" {written.next_sequence}"
            )
    return [*found.values()]
