"""Guards: they make sure that exactly one attempt of one Spark task wrote each Kafka partition of a batch.

Spark restarts tasks and stages, and reports only a part of that: after a lost executor the tasks of the stage's next attempt begin at
attempt 0 again. Two attempts under one identity mix unnoticed, because the broker takes the second one's batches for repeats. So a guard
has two ends: the task's, before it writes, and the driver's, before it commits. `selection` chooses the guard.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct
from pyspark import TaskContext

from fencepost.txn.shared.participation import Participation
from fencepost.txn.spark.errors import AttemptConflict
from fencepost.txn.spark.guards.claims import ClaimDesk, ClaimServer
from fencepost.txn.spark.guards.kafka_claims import KafkaClaims, KafkaDesk
from fencepost.txn.spark.guards.partition_lease_server import LeaseServer, Turn, TurnDesk
from fencepost.txn.spark.rows.task_summary import Summary

Server = TypeVar("Server", ClaimServer, LeaseServer)

STATUS_WAIT_S: Final = 10.0
"""How long the status store may be behind; Spark fills it from a queue of events."""
STATUS_STEP_S: Final = 0.01


class TaskGuard(Protocol):
    """The end in the task; it is pickled."""

    def enter(self, context: TaskContext) -> Turn | None:
        """Raises AttemptConflict if this attempt may not write. The result says when it may; None: at any time."""


class Guard(Protocol):
    """The end in the driver. `barrier`: whether the write stage is a barrier stage. `shares`: whether any task may write to any partition,
    by turns, so that rows need not be moved."""

    name: str
    barrier: bool
    shares: bool

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        """A new attempt to write the batch, with so many Spark tasks, under this participation."""

    def verify(self, done: Sequence[Summary]) -> None:
        """`done`: the last row of each task that Spark delivered. Raises AttemptConflict if another attempt may have written."""

    def close(self) -> None:
        """The guard ends."""


class FirstAttempt(Struct, frozen=True):
    """A task that Spark says was started before does not write."""

    def enter(self, context: TaskContext) -> Turn | None:
        if context.attemptNumber() > 0:
            raise AttemptConflict(f"attempt {context.attemptNumber()} of task {context.partitionId()}: the attempt before may have written")
        return None


class BarrierGuard:
    """All tasks run at once. If one fails, Spark gives all of them up and starts none again (SPARK-24374)."""

    name = "barrier"
    barrier = True
    shares = False

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return FirstAttempt()

    def verify(self, done: Sequence[Summary]) -> None:
        if done:
            _one_stage(done)

    def close(self) -> None:
        return None


class StatusGuard:
    """Spark's status store lists the stage's attempts and the failed tasks. Not under Connect, and not with speculation."""

    name = "status"
    barrier = False
    shares = False

    def __init__(self, spark_context: Any) -> None:
        self._context = spark_context

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return FirstAttempt()

    def verify(self, done: Sequence[Summary]) -> None:
        if not done:
            return  # A DataFrame without partitions has no stage: for a task Spark would have delivered a row, or the job's failure.
        stage = _one_stage(done)
        deadline = time.monotonic() + STATUS_WAIT_S
        while True:
            info = self._context.statusTracker().getStageInfo(stage)
            if info is not None and info.currentAttemptId:
                raise AttemptConflict(f"stage {stage} was attempted {info.currentAttemptId + 1} times")
            if info is not None and info.numFailedTasks:
                raise AttemptConflict(f"{info.numFailedTasks} tasks of stage {stage} failed and were started again")
            if info is not None and info.numCompletedTasks == info.numTasks and not info.numActiveTasks:
                return
            if time.monotonic() >= deadline:
                seen = "nothing" if info is None else f"{info.numCompletedTasks} of {info.numTasks} tasks"
                raise AttemptConflict(f"Spark's status store shows {seen} of stage {stage} completed after {STATUS_WAIT_S:g} s")
            time.sleep(STATUS_STEP_S)

    def close(self) -> None:
        return None


class Claimed(Struct, frozen=True):
    """A task first asks the driver or Kafka, which admits one attempt, whatever number Spark gives it."""

    desk: ClaimDesk | KafkaDesk

    def enter(self, context: TaskContext) -> Turn | None:
        self.desk.claim(context.partitionId(), context.taskAttemptId())
        return None


class _AsksDriver(Generic[Server]):
    """What guards share whose tasks ask a server in the driver. Executors must reach it over TCP."""

    barrier = False

    def __init__(self, server: Server) -> None:
        self._server: Server = server

    def verify(self, done: Sequence[Summary]) -> None:
        agree(self._server.registry(), done)

    def close(self) -> None:
        self._server.close()


class ClaimsGuard(_AsksDriver[ClaimServer]):
    """The driver gives each task to the first attempt that asks."""

    name = "claims"
    shares = False

    def __init__(self, bind: str, host: str) -> None:
        super().__init__(ClaimServer(bind, host))

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return Claimed(self._server.begin())


class TakesTurns(Struct, frozen=True):
    """A task asks the driver first, and keeps asking."""

    desk: TurnDesk

    def enter(self, context: TaskContext) -> Turn | None:
        return self.desk.enter(context.partitionId(), context.taskAttemptId())


class LeaseGuard(_AsksDriver[LeaseServer]):
    """As `claims`; the driver also gives each Kafka partition to one task at a time, whatever rows the task has."""

    name = "turns"
    shares = True

    def __init__(self, bind: str, host: str) -> None:
        super().__init__(LeaseServer(bind, host))

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return TakesTurns(self._server.begin(participation))


class KafkaClaimsGuard:
    """Kafka gives each task to the attempt whose record it took first. It works wherever executors reach the brokers."""

    name = "kafka-claims"
    barrier = False
    shares = False

    def __init__(self, claims: KafkaClaims) -> None:
        self._claims = claims

    def begin(self, tasks: int, participation: Participation) -> TaskGuard:
        return Claimed(self._claims.begin(tasks))

    def verify(self, done: Sequence[Summary]) -> None:
        agree(self._claims.registry(), done)

    def close(self) -> None:
        return None


class NoGuard:
    """Only the number that Spark gives a task's attempts. It loses and doubles rows if an executor is lost; it exists to show that."""

    name = "off"
    barrier = False
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


def _one_stage(done: Sequence[Summary]) -> int:
    stages = {each.stage for each in done}
    if len(stages) != 1:
        raise AttemptConflict(f"the batch was written by {len(stages)} stages ({', '.join(map(str, sorted(stages)))})")
    return stages.pop()
