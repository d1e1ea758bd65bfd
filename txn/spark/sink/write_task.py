"""The code that runs on executors: it writes one Spark task's rows to Kafka partitions, its own or leased, under the driver's identity.

It takes Arrow batches and yields a few rows of `task_summary`. It never ends the transaction. A killed task sees its input end like any
other, and only the driver knows which tasks Spark accepted.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace
from pyspark import TaskContext, cloudpickle

from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.version import VERSION
from fencepost.txn.shared.participant import Participant
from fencepost.txn.shared.participation import TP, Participation
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.guards.guards import TaskGuard
from fencepost.txn.spark.guards.partition_lease_server import TaskLease
from fencepost.txn.spark.rows.bad_rows import KEPT_BYTES, RowCheck
from fencepost.txn.spark.rows.routing import Routes, with_routes
from fencepost.txn.spark.rows.row_placement import Placer
from fencepost.txn.spark.rows.task_summary import DONE, WRITTEN, Summary, to_arrow, told_of
from fencepost.txn.spark.rows.topic_limits import TopicLimits
from fencepost.txn.spark.sink.participant_pool import pooled
from fencepost.txn.spark.sink.partition_writer import Delivery, LeasedPartitions, OwnPartitions, giving_if_idle
from fencepost.txn.spark.sink.permanent_errors import last_words, of_rows


class Work(Struct):
    """What a task has done. `told`: the rows for the driver, without the last."""

    told: list[Summary] = field(default_factory=list)
    size: int = 0
    retries: int = 0


class WriteTask:
    """Called by `mapInArrow` with the batches of one task. It is at top level, and small when pickled.

    `participation`: of all partitions; the task uses its own part, or the leases that its guard grants. `tasks`: how many Spark tasks share
    them. Task t has every partition whose number is t modulo `tasks`; with leases, about so many write at once. `numbers`: whether the task
    must find the partition of each row. `bad_row_limit`: the largest number of bad rows; their keys and values are kept with `keep_bad`.
    `limits`: those of the topics.
    """

    def __init__(
        self,
        *,
        participation: Participation,
        routes: Routes,
        tasks: int,
        guard: TaskGuard,
        numbers: bool,
        kafka: KafkaSettings,
        topic: str | None,
        keep_bad: bool,
        bad_row_limit: int,
        limits: TopicLimits,
        timeout_s: float,
    ) -> None:
        self._participation = participation
        self._routes = routes
        self._tasks = tasks
        self._guard = guard
        self._numbers = numbers
        self._kafka = kafka
        self._topic = topic
        self._keep_bad = keep_bad
        self._bad_row_limit = bad_row_limit
        self._limits = limits
        self._timeout_s = timeout_s
        self._version = VERSION

    def __reduce__(self) -> tuple[Any, ...]:
        # The version comes first, because another version may not be able to read the rest.
        return unpacked, (self._version, cloudpickle.dumps(self.__dict__))  # type: ignore[no-untyped-call]  # not typed by pyspark

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with last_words():
            yield self._run(batches)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        context = TaskContext.get()
        assert context is not None, "outside a Spark task"
        began = time.perf_counter()
        # The task reads its input first: if its shuffle files are gone, it must fail for that, or Spark would restart it without effect
        # until it gives up.
        first = next((batch for batch in batches if batch.num_rows), None)
        # The error is marked inside the lease, which tells it to the tasks that fail because of this one.
        with self._guard.enter(context) or nullcontext() as lease, last_words():
            work = self._write(first, batches, context.partitionId(), lease)
        done = Summary(
            kind=DONE,
            records=sum(each.records for each in work.told if each.kind == WRITTEN),
            stage=context.stageId(),
            task=context.partitionId(),
            attempt=context.attemptNumber(),
            attempt_id=context.taskAttemptId(),
            worker=f"{socket.gethostname()}:{os.getpid()}",
            size=work.size,
            retries=work.retries,
            ms=(time.perf_counter() - began) * 1000.0,
        )
        told = [replace(each, task=done.task, stage=done.stage, attempt=done.attempt, attempt_id=done.attempt_id) for each in work.told]
        return to_arrow([*told, done])

    def _write(self, first: pa.RecordBatch | None, batches: Iterator[pa.RecordBatch], task: int, lease: TaskLease | None) -> Work:
        work = Work()
        if first is None:
            if lease is not None:
                lease.give([], done=True)
            return work
        # With leases the task may write to any partition.
        own = self._routes.of_task(task, self._tasks) if lease is None else None
        with (
            pooled(self._kafka.key, lambda: make_participant(self._kafka)) as participant,
            self._delivery(participant, own, lease) as delivery,
        ):
            largest, limited_by = participant.record_limit
            retried = participant.stats().record_retry_total
            check = RowCheck(
                self._routes,
                topic=self._topic,
                largest=largest,
                limited_by=limited_by,
                limits=self._limits,
                kept_bytes=KEPT_BYTES if self._keep_bad else 0,
                bad_row_limit=self._bad_row_limit,
            )
            placer = Placer(check, own, rotation=task + self._routes.rotation)
            batch: pa.RecordBatch | None = first
            while batch is not None:
                with of_rows():
                    portions, more = placer.place(with_routes(batch, self._routes, task) if self._numbers else batch)
                    work.told += more
                    for portion in portions:
                        delivery.add(portion)
                        work.size += portion.bytes
                batch = next(batches, None)
            work.told += (*check.rest(), *map(told_of, delivery.finish()))
            work.retries = participant.stats().record_retry_total - retried
        return work

    def _delivery(self, participant: Participant, own: list[TP] | None, lease: TaskLease | None) -> AbstractContextManager[Delivery]:
        if lease is not None:
            return giving_if_idle(LeasedPartitions(participant, self._participation, lease, self._timeout_s, tasks=self._tasks))
        assert own is not None
        return nullcontext(OwnPartitions(participant, self._participation.part(own), self._timeout_s, tasks=self._tasks))


def unpacked(drivers: str, packed: bytes) -> WriteTask:
    """A task on an executor, if its driver has the same version. Raises Misuse, marked, if not."""
    with last_words():
        check_version(drivers)
    task = WriteTask.__new__(WriteTask)
    task.__dict__.update(cloudpickle.loads(packed))
    return task


def check_version(drivers: str) -> None:
    """The pickle of another version may have another meaning here. Raises Misuse."""
    if drivers != VERSION:
        raise Misuse(f"the driver has fencepost {drivers}, and the executor {socket.gethostname()} has {VERSION}: install the same on both")


def make_participant(kafka: KafkaSettings) -> Participant:
    """A participant with these settings."""
    return Participant(kafka.resolve())
