"""Faults in tasks: the writing code gets its input in slices. Between two slices the executor is killed, the worker is frozen, or the task
fails.

The faults follow only the plan, and are written to the plan's events.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from fencepost.txn.shared.participant import Participant
from fencepost.txn.spark.sink import write_task as writer_task
from fencepost.txn.spark.sink.write_task import WriteTask
from tests.txn.spark.chaos.loading import load
from tests.txn.spark.chaos.plan import Plan, Strike

ACKED_WITHIN_S = 60.0
"""How long a trouble waits for the first acknowledgement."""
AFTER_WITHIN_S = 60.0
ROOT = Path(__file__).parents[4]
T = TypeVar("T")
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Troubles:
    """The faults of one task attempt. `module`: the module from which the task's work takes its participant."""

    def __init__(self, plan: Plan, module: ModuleType) -> None:
        self._plan = plan
        self._events = plan.events
        self._module: Any = module
        self._participant: Participant | None = None
        self._acked_before = 0

    def around(self, work: Callable[[Iterator[pa.RecordBatch]], Iterator[T]], batches: Iterator[pa.RecordBatch]) -> Iterator[T]:
        """The work, with its input in slices."""
        context = TaskContext.get()
        assert context is not None
        who = {
            "run": self._plan.run,
            "batch": int(context.getLocalProperty("streaming.sql.batchId") or -1),
            "stage": context.stageId(),
            "task": context.partitionId(),
            "attempt": context.attemptNumber(),
            "attempt_id": context.taskAttemptId(),
        }
        self._events.tell("began", **who)
        with self._watched():
            try:
                yield from work(self._slices(batches, who))
            except Exception as error:
                code = getattr(error, "code", None)
                self._events.tell(
                    "failed", error=type(error).__name__, text=str(error)[:300], code=None if code is None else int(code), **who
                )
                raise
        self._events.tell("ended", **who)

    @property
    def _acked(self) -> int:
        """How many records of this task the brokers have acknowledged."""
        return 0 if self._participant is None else self._participant.stats().record_acknowledged_total - self._acked_before

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Remember the task's participant."""
        pooled = self._module.pooled

        @contextmanager
        def noted(key: object, make: Callable[[], Participant]) -> Iterator[Participant]:
            with pooled(key, make) as participant:
                self._participant, self._acked_before = participant, participant.stats().record_acknowledged_total
                yield participant

        self._module.pooled = noted
        try:
            yield
        finally:
            self._module.pooled = pooled

    def _slices(self, batches: Iterator[pa.RecordBatch], who: dict[str, int]) -> Iterator[pa.RecordBatch]:
        trouble, name = self._drawn(who)
        count = 0
        for batch in batches:
            length = max(1, -(-batch.num_rows // self._plan.slices))
            for start in range(0, batch.num_rows, length):
                # In the middle of the task: some rows are written, and others are not.
                if trouble is not None and count == self._plan.slices // 2 + 1:
                    self._strike(trouble, name, who, rows_left=batch.num_rows - start)
                    trouble = None
                yield batch.slice(start, length)
                count += 1

    def _drawn(self, who: dict[str, int]) -> tuple[Strike | None, str]:
        """The fault of this attempt."""
        for number, strike in enumerate(self._plan.strikes):
            name = f"strike-{number}"
            if (strike.batch, strike.task) == (who["batch"], who["task"]) and not self._events.happened(name):
                return strike, name
        chance = random.Random(f"{self._plan.seed}/{self._plan.run}/{who['attempt_id']}").random()
        killed = self._plan.kill_chance / 2
        for what, share in (("kill", killed), ("lose", killed), ("raise", self._plan.raise_chance)):
            if chance < share:
                return Strike(what=what, batch=who["batch"], task=who["task"]), f"{what}-{self._plan.run}-{who['attempt_id']}"
            chance -= share
        return None, ""

    def _strike(self, strike: Strike, name: str, who: dict[str, int], rows_left: int) -> None:
        if strike.after is not None:
            _wait(lambda: self._events.happened(f"strike-{strike.after}"), AFTER_WITHIN_S)
        _wait(lambda: self._acked > 0, ACKED_WITHIN_S)
        if not self._events.first(name):
            return
        self._events.tell(strike.what, acked=self._acked, rows_left=rows_left, **who)
        if strike.what == "raise":
            raise RuntimeError(f"a failure that was asked for, in task {who['task']}")
        if strike.what == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
            self._events.tell("woken", **who)
        else:
            os.kill(executor_of(os.getpid()), signal.SIGKILL)
            if strike.what == "lose":
                os.killpg(_workers(), signal.SIGKILL)


class TroubledTask:
    """Replaces `WriteTask`."""

    def __init__(self, plan: Plan, **given: Any) -> None:
        self._given = given
        self._task = WriteTask(**given)
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from Troubles(self._plan, writer_task).around(self._task, batches)

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (str(ROOT), msgspec.json.encode(self._plan), self._given)


def executor_of(pid: int) -> int:
    """The process id of the executor's JVM above this Python worker."""
    while pid > 1:
        with open(f"/proc/{pid}/stat", "rb") as file:
            pid = int(file.read().rsplit(b")", 1)[1].split()[1])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if EXECUTOR in file.read():
                return pid
    raise RuntimeError("there is no executor above this process")


def _workers() -> int:
    """The process group of all workers of this executor."""
    group = os.getpgid(0)
    with open(f"/proc/{group}/cmdline", "rb") as file:
        assert b"pyspark.daemon" in file.read()
    return group


def _wait(ask: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not ask() and time.monotonic() < deadline:
        time.sleep(0.002)
