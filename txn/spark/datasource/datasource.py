"""`format("fencepost")`: Kafka's topics as a source and as a sink of batch and streaming queries, over fencepost's own wire code.

No Kafka package for the JVM is needed. Beside this file: `reader` and `writer` do the work, `read_options` and `write_options` hold
their options.
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
from fencepost.txn.spark.datasource.read_options import includes_headers
from fencepost.txn.spark.datasource.reader import BatchReader, StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key: string, value: binary>>"

ALREADY_THERE = "[DATA_SOURCE_ALREADY_EXISTS]"


class FencepostDataSource(DataSource):
    """What Spark makes of the name."""

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
        # Kafka has no rows to be overwritten: in every output mode the batch's rows are written, as Spark's own sink does.
        return _sink().stream_writer(self.options, schema)

    def _check(self, given: StructType) -> None:
        names = [column.partition(" ")[0] for column in COLUMNS.split(", ")] + ["headers"] * includes_headers(self.options)
        if given.fieldNames() != names:
            raise Misuse(f"the columns are {', '.join(names)}, and cannot be set: {', '.join(given.fieldNames())} were asked for")


def _sink() -> ModuleType:
    """Writers of Arrow batches came later than readers."""
    try:
        return import_module("fencepost.txn.spark.datasource.writer")
    except ImportError as error:
        raise Misuse(f"format('fencepost') writes with pyspark 4.1 or newer, this is {pyspark.__version__}: {error}") from None


def register(spark: SparkSession) -> type[Any]:
    """Make the format known to a session, classic or Connect. Where fencepost is installed Spark finds it by itself."""
    try:
        spark.dataSource.register(FencepostDataSource)
    except AnalysisException as error:
        # Spark 4.0 has found it by itself, and takes none twice.
        if ALREADY_THERE not in str(error):
            raise
    return FencepostDataSource
