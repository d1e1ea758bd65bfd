"""Gives a barrier stage up that does not get all its slots at once within a while.

Spark waits without limit if other jobs of the application have the slots (its own check counts slots, not free ones). So this module
watches the job, and cancels it if none of its tasks has run for so long. It does not work under Connect, which does not report tasks.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError

from fencepost.txn.spark.errors import Starved

log = logging.getLogger("fencepost.spark")

STEP_S: Final = 0.5


@contextmanager
def patience(context: Any, limit_s: float) -> Iterator[None]:
    """Watch the jobs of the block. Raises Starved if they were cancelled because none of their tasks ran for `limit_s` seconds."""
    if context is None:
        yield
        return
    tag = f"fencepost-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    watch = _Watch(context, tag, limit_s)
    watch.start()
    try:
        yield
    except Exception as error:
        if watch.starved:
            raise Starved(f"a barrier stage did not get all its slots within {limit_s:g} s (barrier_wait_ms)") from error
        raise
    finally:
        watch.finish()
        context.removeJobTag(tag)


class _Watch(threading.Thread):
    """Checks every STEP_S. `starved`: the jobs were cancelled."""

    def __init__(self, context: Any, tag: str, limit_s: float) -> None:
        super().__init__(name="fencepost-barrier-watch", daemon=True)
        self.starved = False
        self._context = context
        self._tag = tag
        self._limit_s = limit_s
        self._over = threading.Event()

    def finish(self) -> None:
        self._over.set()
        self.join(STEP_S * 10)

    def run(self) -> None:
        seen = time.monotonic()
        try:
            while not self._over.wait(STEP_S):
                now = time.monotonic()
                if self._runs():
                    seen = now
                elif now - seen >= self._limit_s:
                    self.starved = True
                    self._context.cancelJobsWithTag(self._tag)
                    return
        except (Py4JError, OSError) as error:
            # The thread that runs the job gets its error; only the watch ends here.
            log.debug("the barrier stage is not watched any more: %s", error)

    def _runs(self) -> bool:
        """Whether a task of the tagged jobs runs, or none of the jobs has begun."""
        tracker = self._context.statusTracker()
        tagged = [int(job) for job in self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag)]
        jobs = [info for info in map(tracker.getJobInfo, tagged) if info is not None]
        stages = [info for job in jobs for info in map(tracker.getStageInfo, job.stageIds) if info is not None]
        return not jobs or any(stage.numActiveTasks for stage in stages)
