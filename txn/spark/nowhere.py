"""Rows of a batch none of which names a topic that rows can go to: all of them are bad rows, and nobody writes any."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from txn.spark.bad_rows import KEPT_BYTES
from txn.spark.choosing import context_of
from txn.spark.placing import Placer
from txn.spark.routing import Routes
from txn.spark.session import settle_python
from txn.spark.summary import SCHEMA, Summary, from_rows, to_arrow
from txn.spark.topic_limits import TopicLimits
from txn.spark.writer_settings import WriterSettings


class Nowhere:
    """Called by `mapInArrow` with the rows. Top level, to be pickled."""

    def __init__(self, kept_bytes: int, bad_row_limit: int) -> None:
        self._kept_bytes = kept_bytes
        self._bad_row_limit = bad_row_limit

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        placer = Placer(
            Routes((), ()),
            [],
            topic=None,
            largest=sys.maxsize,
            limited_by="",
            limits=TopicLimits(),
            kept_bytes=self._kept_bytes,
            bad_row_limit=self._bad_row_limit,
        )
        for batch in batches:
            yield to_arrow(placer.place(batch)[1])
        yield to_arrow(placer.rest())


def nowhere(frame: DataFrame, settings: WriterSettings) -> list[Summary]:
    """The rows of a DataFrame of the sink's columns as bad ones."""
    keeps = settings.dead_letters is not None
    settle_python(context_of(frame.sparkSession))
    return from_rows(frame.mapInArrow(Nowhere(KEPT_BYTES if keeps else 0, settings.bad_rows_taken), SCHEMA).collect())
