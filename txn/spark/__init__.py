"""Exactly once from Spark into Kafka: the rows of a micro-batch become visible together, once. It needs the
extra `spark`: `pip install '.[spark]'` in a checkout.

This package exports the public names and loads each on first use. Without pyspark or pyarrow the import raises an ImportError that says
what to install. It looks for Java when a session begins (`txn.spark.connection.java_home`).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from fencepost.producer.foundations.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from fencepost.txn.spark.connection.java_home import JavaMissing as JavaMissing
    from fencepost.txn.spark.connection.java_home import find_java as find_java
    from fencepost.txn.spark.datasource.datasource import FencepostDataSource as FencepostDataSource
    from fencepost.txn.spark.datasource.datasource import register as register
    from fencepost.txn.spark.errors import BadRows as BadRows
    from fencepost.txn.spark.errors import BatchFailed as BatchFailed
    from fencepost.txn.spark.errors import BatchUnknown as BatchUnknown
    from fencepost.txn.spark.errors import GuardUnavailable as GuardUnavailable
    from fencepost.txn.spark.errors import QueryStopped as QueryStopped
    from fencepost.txn.spark.errors import SinkTakenOver as SinkTakenOver
    from fencepost.txn.spark.errors import TransactionTooLong as TransactionTooLong
    from fencepost.txn.spark.rows.columns import BadColumns as BadColumns
    from fencepost.txn.spark.rows.routing import route as route
    from fencepost.txn.spark.sink.batch_job import write_once as write_once
    from fencepost.txn.spark.sink.foreach_batch_writer import ExactlyOnceKafkaWriter as ExactlyOnceKafkaWriter
    from fencepost.txn.spark.sink.metrics import SparkWriterStats as SparkWriterStats
    from fencepost.txn.spark.sink.micro_batch import Batch as Batch

_MISSING = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
if _MISSING:
    raise ImportError(
        f"fencepost.txn.spark needs {' and '.join(_MISSING)}: install fencepost's extra `spark`, in a checkout with pip install '.[spark]'",
        name=_MISSING[0],
    )

_HOMES: dict[str, tuple[str, ...]] = {
    "fencepost.txn.spark.rows.columns": ("BadColumns",),
    "fencepost.txn.spark.sink.micro_batch": ("Batch",),
    "fencepost.txn.spark.errors": (
        "BadRows",
        "BatchFailed",
        "BatchUnknown",
        "GuardUnavailable",
        "QueryStopped",
        "SinkTakenOver",
        "TransactionTooLong",
    ),
    "fencepost.txn.spark.sink.batch_job": ("write_once",),
    "fencepost.txn.spark.sink.metrics": ("SparkWriterStats",),
    "fencepost.txn.spark.rows.routing": ("route",),
    "fencepost.txn.spark.sink.foreach_batch_writer": ("ExactlyOnceKafkaWriter",),
    "fencepost.txn.spark.datasource.datasource": ("FencepostDataSource", "register"),
    "fencepost.txn.spark.connection.java_home": ("JavaMissing", "find_java"),
}
__all__ = [name for names in _HOMES.values() for name in names]

__getattr__, __dir__ = _lazy_names(globals(), _HOMES)
