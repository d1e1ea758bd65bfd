"""Exactly once from Spark into Kafka: a micro-batch becomes visible once, at once. It comes with `pip install 'fencepost[spark]'`.

What is public is exported here, and loaded when first asked for. Without pyspark or pyarrow the import ends in an ImportError that says
what to install; Java is looked for when a session is begun (`txn.spark.session`).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txn.spark.batch import Batch as Batch
    from txn.spark.columns import BadColumns as BadColumns
    from txn.spark.datasource import FencepostDataSource as FencepostDataSource
    from txn.spark.datasource import register as register
    from txn.spark.errors import BadRows as BadRows
    from txn.spark.errors import BatchFailed as BatchFailed
    from txn.spark.errors import BatchUnknown as BatchUnknown
    from txn.spark.errors import GuardUnavailable as GuardUnavailable
    from txn.spark.errors import QueryStopped as QueryStopped
    from txn.spark.errors import SinkTakenOver as SinkTakenOver
    from txn.spark.errors import TransactionTooLong as TransactionTooLong
    from txn.spark.once import write_once as write_once
    from txn.spark.routing import route as route
    from txn.spark.session import JavaMissing as JavaMissing
    from txn.spark.session import find_java as find_java
    from txn.spark.writer import ExactlyOnceKafkaWriter as ExactlyOnceKafkaWriter

_MISSING = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
if _MISSING:
    raise ImportError(f"txn.spark needs {' and '.join(_MISSING)}: pip install 'fencepost[spark]'", name=_MISSING[0])

_HOMES: dict[str, tuple[str, ...]] = {
    "txn.spark.columns": ("BadColumns",),
    "txn.spark.batch": ("Batch",),
    "txn.spark.errors": (
        "BadRows",
        "BatchFailed",
        "BatchUnknown",
        "GuardUnavailable",
        "QueryStopped",
        "SinkTakenOver",
        "TransactionTooLong",
    ),
    "txn.spark.once": ("write_once",),
    "txn.spark.routing": ("route",),
    "txn.spark.writer": ("ExactlyOnceKafkaWriter",),
    "txn.spark.datasource": ("FencepostDataSource", "register"),
    "txn.spark.session": ("JavaMissing", "find_java"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = globals()[name] = getattr(import_module(home), name)
    except AttributeError as error:  # Of which Python would say no more than that the name cannot be imported.
        raise ImportError(f"{home}: {error}") from error
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
