"""What a SparkContext tells about itself, and what is set in it for the jobs of a batch.

It makes no session and no context. Under Spark Connect there is no context; then it is None here.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from pyspark.errors import PySparkAttributeError, PySparkException

log = logging.getLogger("fencepost.spark")

PYTHON: Final = "PYSPARK_PYTHON"
ANY_PYTHON: Final = "python3"
"""The Python that Spark starts if no setting names one: the first of that name on the path."""
DESCRIPTION: Final = "spark.job.description"


def context_of(spark: Any) -> Any:
    """The SparkContext, None under Connect."""
    try:
        return spark.sparkContext
    except (PySparkException, PySparkAttributeError):
        return None


@lru_cache(maxsize=8)
def allocation_and_speculation(context: Any) -> tuple[bool, bool]:
    """Whether an application has dynamic allocation, and speculation. It is read once, because a call to the JVM takes a while."""
    return _is_true(context, "spark.dynamicAllocation.enabled"), _is_true(context, "spark.speculation")


def slots_of(context: Any) -> int:
    """The tasks that can run at once now."""
    scala = context._jsc.sc()
    try:
        return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # noqa: BLE001  # not a public method: py4j raises errors of several kinds where it is another
        return int(context.defaultParallelism)


def slots_that_may_come(spark: Any) -> int | None:
    """The tasks that can ever run at once. None with dynamic allocation, and under Connect, which does not tell."""
    context = context_of(spark)
    return None if context is None or allocation_and_speculation(context)[0] else slots_of(context)


def _is_true(context: Any, name: str) -> bool:
    return str(context.getConf().get(name, "false")).lower() == "true"


def settle_python(context: Any) -> None:
    """If executors run on this host and no setting names their Python, let them use this one: without an activated environment the first
    Python on the path has no fencepost. `context`: Spark's, None under Connect."""
    if context is None or not context.master.startswith("local") or os.environ.get(PYTHON) or context.pythonExec != ANY_PYTHON:
        return
    if sys.executable:
        log.info("%s is not set: Python workers on this host are %s, as the driver is", PYTHON, sys.executable)
        context.pythonExec = sys.executable


@contextmanager
def described(context: Any, text: str) -> Iterator[None]:
    """Spark's web pages show the jobs of the block under this description; afterwards the previous one is restored."""
    if context is None:
        yield
        return
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)
