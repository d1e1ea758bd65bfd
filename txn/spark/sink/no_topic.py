"""A batch in which no row names a valid topic: all its rows are bad rows, and none is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from fencepost.txn.spark.connection.spark_context import context_of, settle_python
from fencepost.txn.spark.rows.bad_rows import KEPT_BYTES, RowCheck
from fencepost.txn.spark.rows.routing import Routes
from fencepost.txn.spark.rows.task_summary import SCHEMA, Summary, from_rows, to_arrow
from fencepost.txn.spark.rows.topic_limits import TopicLimits
from fencepost.txn.spark.sink.settings import WriterSettings


class Nowhere:
    """Called by `mapInArrow` with the rows. It is at top level, to be pickled."""

    def __init__(self, kept_bytes: int, bad_row_limit: int) -> None:
        self._kept_bytes = kept_bytes
        self._bad_row_limit = bad_row_limit

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check = RowCheck(
            Routes((), ()),
            topic=None,
            largest=sys.maxsize,
            limited_by="",
            limits=TopicLimits(),
            kept_bytes=self._kept_bytes,
            bad_row_limit=self._bad_row_limit,
        )
        for batch in batches:
            yield to_arrow(check.apply(batch)[-1])
        yield to_arrow(check.rest())


def nowhere(frame: DataFrame, settings: WriterSettings) -> list[Summary]:
    """The rows of a DataFrame of the sink's columns as bad rows."""
    keeps = settings.dead_letters is not None
    settle_python(context_of(frame.sparkSession))
    return from_rows(frame.mapInArrow(Nowhere(KEPT_BYTES if keeps else 0, settings.bad_rows_taken), SCHEMA).collect())
