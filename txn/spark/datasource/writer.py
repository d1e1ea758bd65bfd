"""The writer objects for Spark: a write begins when its writer is pickled for the tasks, and ends in the process that Spark chooses.

For each batch of a stream Spark makes a writer where it plans the batch, and pickles it there. It makes another one, elsewhere, for the
batch's end. So a stream's writer begins its transaction when it is pickled, and the other one uses the tasks' messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from fencepost.producer.errors import Misuse
from fencepost.txn.spark.datasource.write_begin import Begun, begin
from fencepost.txn.spark.datasource.write_end import abort, commit
from fencepost.txn.spark.datasource.write_options import SinkOptions, read_sink_options
from fencepost.txn.spark.datasource.write_task import Told, write_rows
from fencepost.txn.spark.rows.columns import HEADERS, HEADERS_TYPE, TIMESTAMP, BadColumns, SinkColumns, read_columns
from fencepost.txn.spark.sink.batch_job import job_version


class _Writer:
    """What both writers share."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns
        self._begun: Begun | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._begun is None:
            self._begun = begin(self._options)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Told:
        assert self._begun is not None
        return write_rows(self._begun, self._options, self._columns, iterator)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of one batch of a query."""

    def commit(self, messages: list[Any], batchId: int) -> None:
        commit(self._options, messages, batch=batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        abort(self._options, messages, batch=batchId)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of one batch job."""

    def commit(self, messages: list[Any]) -> None:
        commit(self._options, messages, begun=self._begun)

    def abort(self, messages: list[Any]) -> None:
        abort(self._options, messages, begun=self._begun)


def sink_columns(schema: StructType, options: SinkOptions) -> SinkColumns:
    """`read_columns`; a timestamp may also be a bigint of milliseconds, as `route` makes it. Raises BadColumns, and Misuse for a column
    `topic` without the option that lists its topics."""
    fields = [
        StructField(field.name, TimestampType()) if field.name == TIMESTAMP and isinstance(field.dataType, LongType) else field
        for field in schema.fields
    ]
    columns = read_columns(StructType(fields), options.topic)
    if not options.topics:
        raise Misuse(
            "the option topics is missing: the column topic says where a row goes, and which topics there may be has to be known before any"
            ' row is read, as the transaction is begun for them: topics="a,b"'
        )
    headers = next((field.dataType.simpleString() for field in fields if field.name == HEADERS), HEADERS_TYPE)
    if headers != HEADERS_TYPE:
        raise BadColumns(f"headers attribute unsupported type {headers}. headers must be a(n) {HEADERS_TYPE}, its names in small letters")
    return columns


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """Raises ConfigError and BadColumns."""
    read = read_sink_options(options, streaming=True)
    return StreamWriter(read, sink_columns(schema, read))


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Raises ConfigError, BadColumns, and Misuse for a mode that would have to delete rows."""
    if overwrite:
        raise Misuse('mode("overwrite"): nothing that Kafka has can be overwritten; use mode("append")')
    read = read_sink_options(options, streaming=False)
    job_version(read.settings.sink_id, read.job, read.version)
    return BatchWriter(read, sink_columns(schema, read))
