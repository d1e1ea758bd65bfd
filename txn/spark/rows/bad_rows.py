"""Which rows can never be written, and why: no topic, no partition, a bad header or time, too large, or against a rule of the topic.

Whole columns are checked first, so only rows that may be bad become Python objects. It sends nothing. `sink.dead_letters` decides what
happens to bad rows.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.producer.wire.records.sizes import RECORD_BOUND
from fencepost.txn.spark.rows.columns import HEADERS, KEY, NO_TIME, NULL_TOPIC, PARTITION, TIMESTAMP, TOPIC, VALUE
from fencepost.txn.spark.rows.routing import ROUTE, Routes
from fencepost.txn.spark.rows.task_summary import BAD, Summary
from fencepost.txn.spark.rows.topic_limits import TopicLimits

KEPT_BYTES: Final = 2 * 1024 * 1024
"""The bytes of bad rows' keys and values that one Spark task sends to the driver, which holds those of all tasks."""
HEADER_BOUND: Final = 16
"""The largest overhead of a header, besides its name and value."""
TEXTS: Final = (TOPIC, KEY, VALUE)
"""Columns that are strings or binaries."""
DESCRIBED: Final = 10
"""At least so many bad rows are described, if there are so many."""


class RowCheck:
    """The check of one Spark task. `topic`: of all rows; None if a column names it. `largest`: the bytes of a record, limited by
    `limited_by`. `limits`: those of the topics. `kept_bytes`: how much of the keys and values of all bad rows together is kept; each gets
    at most half of the rest, so that every row has a share. `bad_row_limit`: with more bad rows the batch fails, so bad rows are only
    counted."""

    def __init__(
        self,
        routes: Routes,
        *,
        topic: str | None,
        largest: int,
        limited_by: str,
        limits: TopicLimits,
        kept_bytes: int,
        bad_row_limit: int,
    ) -> None:
        self.routes = routes
        self._topic = topic
        self._largest = largest
        self._limited_by = limited_by
        self._limits = limits
        self._room = kept_bytes
        self._limit = bad_row_limit
        self._described = 0
        self._counted = 0

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Any, list[Summary]]:
        """The rows that can be written, with texts as bytes; their sizes; and the bad rows that are described. `rest` has the others."""
        batch = _as_bytes(batch)
        sizes, wrong = _sizes(batch), self._misplaced(batch)
        wrong = pc.or_(wrong, pc.greater(sizes, pa.scalar(self._largest - RECORD_BOUND, pa.int64())))
        if TIMESTAMP in batch.schema.names:
            wrong = pc.or_(wrong, pc.fill_null(pc.less(batch.column(TIMESTAMP), pa.scalar(0, pa.int64())), False))
        if HEADERS in batch.schema.names:
            wrong = pc.or_(wrong, bad_headers(batch.column(HEADERS)))
        suspect = pa.repeat(pa.scalar(False), batch.num_rows)
        for topic, limits in self._limits.topics.items():
            if topic in self.routes.topics:
                there = self.goes_to(batch, topic)
                wrong = pc.or_(wrong, pc.and_(there, limits.broken(batch)))
                suspect = pc.or_(suspect, pc.and_(there, limits.suspects(batch, sizes)))
        looked_at = pc.or_(wrong, suspect)
        bad: list[Summary] = []
        if pc.any(looked_at).as_py():
            bad, right = self._look(batch, sizes, wrong, looked_at)
            batch, sizes = batch.filter(right), sizes.filter(right)
        return batch, sizes, bad

    @property
    def failed(self) -> bool:
        """Whether there are more bad rows than allowed."""
        return self._described + self._counted > self._limit

    def rest(self) -> list[Summary]:
        """One summary for all bad rows that were not described, if there are any. Rows that only a close check finds are not
        counted."""
        return [Summary(kind=BAD, records=self._counted)] if self._counted else []

    def _look(self, batch: pa.RecordBatch, sizes: Any, wrong: Any, looked_at: Any) -> tuple[list[Summary], Any]:
        """Bad rows, and a mask of the good ones. `wrong`: those that are certainly bad."""
        bad: list[Summary] = []
        good = pc.invert(looked_at).to_pylist()
        certain = wrong.to_pylist()
        for place in pc.indices_nonzero(looked_at).to_pylist():
            if self.failed and self._described >= DESCRIBED:
                self._counted += certain[place]
                continue
            row, size = _row(batch, place), sizes[place].as_py()
            reason = self._why_not(row, size)
            if reason is None:
                good[place] = True
            else:
                self._described += 1
                bad.append(self._summary(row, reason, size))
        return bad, pa.array(good, pa.bool_())

    def goes_to(self, batch: pa.RecordBatch, topic: str) -> Any:
        """A mask of the rows of that topic."""
        routes = self.routes
        place = routes.topics.index(topic)
        if ROUTE in batch.schema.names:
            numbers, first = batch.column(ROUTE), routes.firsts[place]
            return pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, first + routes.counts[place]))
        if self._topic is not None:
            return pa.repeat(pa.scalar(True), batch.num_rows)
        return pc.fill_null(pc.equal(batch.column(TOPIC), pa.scalar(topic.encode(), pa.binary())), False)

    def _misplaced(self, batch: pa.RecordBatch) -> Any:
        """A mask of the rows without a topic, or without a partition in it."""
        if ROUTE in batch.schema.names:
            return pc.less(batch.column(ROUTE), pa.scalar(0, pa.int32()))
        if self._topic is not None:
            return pa.repeat(pa.scalar(False), batch.num_rows)
        return pc.invert(pc.is_in(batch.column(TOPIC), value_set=pa.array([each.encode() for each in self.routes.topics], pa.binary())))

    def _why_not(self, row: dict[str, Any], size: int) -> str | None:
        """Why the row can never be written; None if it can."""
        topic, number = self._topic_of(row), row.get(ROUTE, 0)
        if number < 0:
            return self.routes.why_not(number, topic, row.get(PARTITION))
        if topic is None:
            return NULL_TOPIC
        if topic not in self.routes.topics:
            return f"topic {topic!r} is none of those of this batch"
        for header in row.get(HEADERS) or ():
            if header is None or header["key"] is None:
                return "a header that is null, or whose key is"
            if not _is_text(header["key"]):
                return f"a header whose key is no UTF-8: {header['key'][:100]!r}"
        time_ms = row.get(TIMESTAMP)
        if time_ms is not None and time_ms < 0:
            return "a timestamp that is no time" if time_ms == NO_TIME else f"timestamp {time_ms} ms is before 1970"
        if size > self._largest - RECORD_BOUND:
            return f"a record of up to {size + RECORD_BOUND} bytes exceeds {self._limited_by}"
        headers = [{"key": each["key"].decode(), "value": each["value"]} for each in row.get(HEADERS) or ()]
        return self._limits.why_not(topic, {**row, HEADERS: headers})

    def _topic_of(self, row: dict[str, Any]) -> str | None:
        if self._topic is not None:
            return self._topic
        if ROUTE in row and row[ROUTE] >= 0:
            return self.routes.partition(row[ROUTE])[0]
        given = row.get(TOPIC)
        return given.decode(errors="backslashreplace") if given is not None else None

    def _summary(self, row: dict[str, Any], reason: str, size: int) -> Summary:
        key, value = row.get(KEY), row.get(VALUE)
        kept_key = key[: self._room // 2] if key is not None else None
        kept_value = value[: self._room // 2 - len(kept_key or b"")] if value is not None else None
        self._room -= len(kept_key or b"") + len(kept_value or b"")
        number = row.get(ROUTE, -1)
        return Summary(
            kind=BAD,
            records=1,
            topic=self._topic_of(row),
            partition=self.routes.partition(number)[1] if number >= 0 else row.get(PARTITION),
            size=size,
            reason=reason,
            key=kept_key,
            value=kept_value,
            cut=(kept_key, kept_value) != (key, value),
        )


def bad_headers(headers: Any) -> Any:
    """A mask of the rows with a header that Kafka cannot hold: a null header, or one whose key is null or no text."""
    elements, keys = headers.flatten(), _header_keys(headers)
    wrong = pc.or_(elements.is_null(), keys.is_null())
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = pc.or_(wrong, pa.array([key is not None and not _is_text(key) for key in keys.to_pylist()], pa.bool_()))
    rows = pc.list_parent_indices(headers).filter(wrong)
    return pc.is_in(pa.array(range(len(headers)), pa.int64()), value_set=rows.cast(pa.int64()))


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _row(batch: pa.RecordBatch, place: int) -> dict[str, Any]:
    """One row, with all texts as bytes, because Spark's strings need not be UTF-8."""
    row = {name: batch.column(name)[place] for name in batch.schema.names}
    headers = row.pop(HEADERS, None)
    found = {name: value.as_py() for name, value in row.items()}
    if headers is not None and headers.is_valid:
        found[HEADERS] = [
            {"key": each["key"].cast(pa.binary()).as_py(), "value": each["value"].as_py()} if each.is_valid else None for each in headers
        ]
    return found


def _as_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [batch.column(name).cast(pa.binary()) if name in TEXTS else batch.column(name) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _sizes(batch: pa.RecordBatch) -> Any:
    """The bytes of each row's key, value and headers."""
    total = _lengths(batch.column(VALUE))
    if KEY in batch.schema.names:
        total = pc.add(total, _lengths(batch.column(KEY)))
    if HEADERS in batch.schema.names:
        total = pc.add(total, _header_sizes(batch.column(HEADERS)))
    return total


def _lengths(column: Any) -> Any:
    return pc.fill_null(pc.binary_length(column).cast(pa.int64()), 0)


def _header_sizes(headers: Any) -> Any:
    values = pc.struct_field(headers.flatten(), "value")
    sizes = pc.add(pc.add(_lengths(_header_keys(headers)), _lengths(values)), HEADER_BOUND)
    before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(sizes).cast(pa.int64())])
    counts = pc.fill_null(pc.list_value_length(headers).cast(pa.int64()), 0)
    ends = pc.cumulative_sum(counts)
    return pc.subtract(before.take(ends), before.take(pc.subtract(ends, counts)))


def _header_keys(headers: Any) -> Any:
    """Of all rows, one after another."""
    return pc.struct_field(headers.flatten(), "key").cast(pa.binary())
