"""By its name Spark finds `format("fencepost")` without being told: it asks packages called pyspark_* for their `DefaultSource`.

It holds nothing, and raises nothing where pyspark is missing: an error here would spoil every other Python source of the session.
"""

from __future__ import annotations

import contextlib

__all__ = ["DefaultSource"]

with contextlib.suppress(ImportError):
    from fencepost.txn.spark.datasource.datasource import FencepostDataSource as DefaultSource
