"""What a SparkContext tells of itself, and what is set in it for the jobs of a batch.

It makes no session and no context. Under Spark Connect there is no context: it is None here.
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
"""The Python that Spark starts where no setting names one: the first of that name on the path."""
DESCRIPTION: Final = "spark.job.description"


def context_of(spark: Any) -> Any:
    """The SparkContext, None under Connect."""
    try:
        return spark.sparkContext
    except (PySparkException, PySparkAttributeError):
        return None


@lru_cache(maxsize=8)
def allocation_and_speculation(context: Any) -> tuple[bool, bool]:
    """Whether an application has dynamic allocation, and speculation. It is asked once, as asking the JVM takes a while."""
    return _is_true(context, "spark.dynamicAllocation.enabled"), _is_true(context, "spark.speculation")


def slots_of(context: Any) -> int:
    """Tasks that can run at once now."""
    scala = context._jsc.sc()
    try:
        return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # noqa: BLE001  # not a public method: py4j raises errors of several kinds where it is another
        return int(context.defaultParallelism)


def slots_that_may_come(spark: Any) -> int | None:
    """Tasks that will ever run at once; None where executors come and go as there is work, and under Connect, where nobody tells."""
    context = context_of(spark)
    return None if context is None or allocation_and_speculation(context)[0] else slots_of(context)


def _is_true(context: Any, name: str) -> bool:
    return str(context.getConf().get(name, "false")).lower() == "true"


def settle_python(context: Any) -> None:
    """Where executors are on this host and nobody has said which Python is theirs, it is this one: what is first on the path, where no
    environment was activated, has no fencepost. `context`: Spark's, None under Connect."""
    if context is None or not context.master.startswith("local") or os.environ.get(PYTHON) or context.pythonExec != ANY_PYTHON:
        return
    if sys.executable:
        log.info("%s is not set: Python workers on this host are %s, as the driver is", PYTHON, sys.executable)
        context.pythonExec = sys.executable


@contextmanager
def described(context: Any, text: str) -> Iterator[None]:
    """Spark's pages call the jobs of the block that; what they were called before comes back after it."""
    if context is None:
        yield
        return
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)
