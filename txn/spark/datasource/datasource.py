"""`format("fencepost")`: Kafka's topics as a source and a sink of batch and streaming queries, with fencepost's own wire code.

It needs no Kafka package for the JVM. `reader` and `writer` do the work, `read_options` and `write_options` hold their options.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyspark

try:
    from pyspark.sql.datasource import DataSource
except ImportError:
    raise ImportError(f"format('fencepost') needs pyspark 4.0 or newer, this is {pyspark.__version__}") from None

from pyspark.errors import AnalysisException

from fencepost.producer.errors import Misuse
from fencepost.txn.spark.connection.spark_context import context_of, settle_python
from fencepost.txn.spark.datasource.read_options import includes_headers
from fencepost.txn.spark.datasource.reader import BatchReader, StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key: string, value: binary>>"

ALREADY_THERE = "[DATA_SOURCE_ALREADY_EXISTS]"


class FencepostDataSource(DataSource):
    """The format's name in Spark."""

    @classmethod
    def name(cls) -> str:
        return "fencepost"

    def schema(self) -> str:
        """The columns of Spark's Kafka source."""
        return f"{COLUMNS}, {HEADERS}" if includes_headers(self.options) else COLUMNS

    def reader(self, schema: StructType) -> BatchReader:
        self._check(schema)
        return BatchReader(self.options)

    def streamReader(self, schema: StructType) -> StreamReader:
        self._check(schema)
        return StreamReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return _sink().batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        # Kafka has no rows to overwrite. In every output mode the batch's rows are written, as in Spark's own sink.
        return _sink().stream_writer(self.options, schema)

    def _check(self, given: StructType) -> None:
        names = [column.partition(" ")[0] for column in COLUMNS.split(", ")] + ["headers"] * includes_headers(self.options)
        if given.fieldNames() != names:
            raise Misuse(f"the columns are {', '.join(names)}, and cannot be set: {', '.join(given.fieldNames())} were asked for")


def _sink() -> ModuleType:
    """pyspark got writers of Arrow batches later than readers."""
    try:
        return import_module("fencepost.txn.spark.datasource.writer")
    except ImportError as error:
        raise Misuse(f"format('fencepost') writes with pyspark 4.1 or newer, this is {pyspark.__version__}: {error}") from None


def register(spark: SparkSession) -> type[Any]:
    """Register the format in a session, classic or Connect. If fencepost is installed for the Python of Spark's workers, Spark finds it by
    itself. With a master on this host the workers then use the driver's Python, unless a setting names another one."""
    settle_python(context_of(spark))
    try:
        spark.dataSource.register(FencepostDataSource)
    except AnalysisException as error:
        # Spark 4.0 has found it by itself, and refuses a second registration.
        if ALREADY_THERE not in str(error):
            raise
    return FencepostDataSource
