"""A barrier stage that never gets all its slots at once: given up after a while, instead of waiting for as long as others keep them.

Spark waits without an end where slots are taken by other jobs of the application (its own check counts slots, not free ones). So the job
is watched, and cancelled where none of its tasks has run for so long. Not under Connect, which tells nothing of tasks.
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
    """Watch the jobs of the block. Raises Starved where they were cancelled, because none of their tasks ran for `limit_s` seconds."""
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
    """Looks every STEP_S. `starved`: the jobs were cancelled."""

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
            # Whoever waits for the job hears of it; only nobody watches any more.
            log.debug("the barrier stage is not watched any more: %s", error)

    def _runs(self) -> bool:
        """Whether a task of the tagged jobs runs, or none of these has begun."""
        tracker = self._context.statusTracker()
        tagged = [int(job) for job in self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag)]
        jobs = [info for info in map(tracker.getJobInfo, tagged) if info is not None]
        stages = [info for job in jobs for info in map(tracker.getStageInfo, job.stageIds) if info is not None]
        return not jobs or any(stage.numActiveTasks for stage in stages)
