"""Spark gives a Python process of a query (a sink's end, a callback with Connect) ten seconds to start, and then fails the query.

A busy machine may need longer. An exactly-once query can be started again, so the tests start it again, after this failure only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.errors import PySparkException

LATE: Final = "Timed out while waiting for the Python worker to connect back"
TRIES: Final = 8


def despite_late_workers(run: Callable[[], str | None]) -> str | None:
    """The result of `run` once no worker was late. `run` raises or returns the text of a failure, or None."""
    for _ in range(TRIES):
        try:
            failure = run()
        except PySparkException as error:
            if LATE not in str(error):
                raise
            continue
        if failure is None or LATE not in failure:
            return failure
    raise AssertionError(f"Spark's Python workers did not begin within its ten seconds, {TRIES} times")
