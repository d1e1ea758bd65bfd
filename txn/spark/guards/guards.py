"""Guards: they make sure that exactly one attempt of one Spark task wrote each Kafka partition of a batch.

Spark restarts tasks and stages, and reports only a part of that: after a lost executor the tasks of the stage's next attempt begin at
attempt 0 again. Two attempts under one identity mix unnoticed, because the broker takes the second one's batches for repeats. So a guard
has two ends: the task's, before it writes, and the driver's, before it commits. `selection` chooses the guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct
from pyspark import TaskContext

from fencepost.txn.shared.participation import Participation
from fencepost.txn.spark.errors import AttemptConflict
from fencepost.txn.spark.guards.kafka_claims import ClaimClient, KafkaClaims
from fencepost.txn.spark.guards.partition_lease_server import LeaseClient, LeaseServer, TaskLease
from fencepost.txn.spark.rows.task_summary import Summary


class TaskGuard(Protocol):
    """The end in the task; it is pickled."""

    def enter(self, context: TaskContext) -> TaskLease | None:
        """Raises AttemptConflict if this attempt may not write. The result says when it may; None: at any time."""


class Guard(Protocol):
    """The end in the driver. `shares`: whether tasks may write to one partition, one after another, so that rows need not be moved."""

    name: str
    shares: bool

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        """A new attempt to write the batch, with so many Spark tasks, under this participation."""

    def verify(self, done: Sequence[Summary]) -> None:
        """`done`: the last row of each task that Spark delivered. Raises AttemptConflict if another attempt may have written."""

    def close(self) -> None:
        """The guard ends."""


class LeaseTaskGuard(Struct, frozen=True):
    """A task asks the driver first, and keeps asking."""

    client: LeaseClient

    def enter(self, context: TaskContext) -> TaskLease | None:
        return self.client.enter(context.partitionId(), context.taskAttemptId())


class TurnsGuard:
    """The driver gives each task to the first attempt that asks, and each Kafka partition to one task at a time. Executors must reach the
    driver over TCP."""

    name = "turns"
    shares = True

    def __init__(self, bind: str, host: str) -> None:
        self._server = LeaseServer(bind, host)

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return LeaseTaskGuard(self._server.begin(participation))

    def verify(self, done: Sequence[Summary]) -> None:
        agree(self._server.registry(), done)

    def close(self) -> None:
        self._server.close()


class Claimed(Struct, frozen=True):
    """A task first asks Kafka, which admits one attempt, of any number that Spark gives it."""

    client: ClaimClient

    def enter(self, context: TaskContext) -> TaskLease | None:
        self.client.claim(context.partitionId(), context.taskAttemptId())
        return None


class KafkaClaimsGuard:
    """Kafka gives each task to the attempt whose record it took first. It works wherever executors reach the brokers."""

    name = "kafka-claims"
    shares = False

    def __init__(self, claims: KafkaClaims) -> None:
        self._claims = claims

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return Claimed(self._claims.begin(tasks))

    def verify(self, done: Sequence[Summary]) -> None:
        agree(self._claims.registry(), done)

    def close(self) -> None:
        return None


class FirstAttempt(Struct, frozen=True):
    """A task that Spark says was started before does not write."""

    def enter(self, context: TaskContext) -> TaskLease | None:
        if context.attemptNumber() > 0:
            raise AttemptConflict(f"attempt {context.attemptNumber()} of task {context.partitionId()}: the attempt before may have written")
        return None


class NoGuard:
    """Only the number that Spark gives a task's attempts. If an executor is lost, it loses and duplicates rows. It exists to show that."""

    name = "off"
    shares = False

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return FirstAttempt()

    def verify(self, done: Sequence[Summary]) -> None:
        return None

    def close(self) -> None:
        return None


def more_attempts(context: Any, stages: Iterable[int]) -> int:
    """Attempts of these stages beyond their first, as far as Spark's status store knows; 0 under Connect, which has none."""
    found = [context.statusTracker().getStageInfo(stage) for stage in stages] if context is not None else []
    return sum(info.currentAttemptId for info in found if info is not None)


def agree(registry: dict[int, int], done: Sequence[Summary]) -> None:
    """Check that the attempts whose rows Spark delivered are those that have the tasks. Raises AttemptConflict."""
    delivered = {each.task: each.attempt_id for each in done}
    for task in sorted(registry.keys() | delivered.keys()):
        if registry.get(task) != delivered.get(task):
            raise AttemptConflict(f"task {task} belongs to attempt {registry.get(task)}, and Spark delivered attempt {delivered.get(task)}")
