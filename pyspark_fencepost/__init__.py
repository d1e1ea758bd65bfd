"""Makes Spark find `format("fencepost")` by itself: Spark looks for `DefaultSource` in packages called pyspark_*.

It contains nothing else. It raises no error if pyspark is missing, because an error here would break every Python source of the session.
"""

from __future__ import annotations

import contextlib

__all__ = ["DefaultSource"]

with contextlib.suppress(ImportError):
    from fencepost.txn.spark.datasource.datasource import FencepostDataSource as DefaultSource
