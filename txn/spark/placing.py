"""The rows of one Arrow batch as what Kafka gets of them: a batch for each topic with a partition for each row, and the rows that cannot be
written with the reason.

Rows that were routed carry their number. Rows that were not, which have neither key nor partition, go to one of the task's own partitions,
the whole batch to the same one (sticky, KIP-794), as nobody else writes there. It sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from producer.core.rows import RECORD_BOUND
from txn.spark.columns import HEADERS, KEY, NULL_TOPIC, PARTITION, TOPIC, VALUE
from txn.spark.routing import ROUTE, Routes
from txn.spark.summary import BAD, Summary

PLACED: Final = "__fencepost_partition"
"""The column that `places` adds."""
HEADER_BOUND: Final = 16
"""Bytes that a header takes at most beside its name and value."""


class Portion(Struct, frozen=True):
    """Rows for one topic. `rows` has the column PLACED."""

    topic: str
    rows: pa.RecordBatch
    bytes: int


class Placer:
    """See the module. `own`: the partitions that this task writes. `largest`: bytes that a record may have, as `limited_by` says."""

    def __init__(
        self, routes: Routes, own: list[tuple[str, int]], *, topic: str | None, largest: int, limited_by: str, task: int = 0
    ) -> None:
        self._routes = routes
        self._topic = topic
        self._largest = largest
        self._limited_by = limited_by
        self._own = {name: [partition for topic, partition in own if topic == name] for name in routes.topics}
        self._turn = task

    def place(self, batch: pa.RecordBatch) -> tuple[list[Portion], list[Summary]]:
        """What can be written, and what cannot."""
        sizes = _sizes(batch)
        large = pc.greater(sizes, pa.scalar(self._largest - RECORD_BOUND, pa.int64()))
        wrong = large
        if ROUTE in batch.schema.names:
            wrong = pc.or_(large, pc.less(batch.column(ROUTE), pa.scalar(0, pa.int32())))
        elif self._topic is None:
            wrong = pc.or_(large, pc.invert(pc.is_in(batch.column(TOPIC), value_set=pa.array(self._routes.topics, pa.string()))))
        bad: list[Summary] = []
        if pc.any(wrong).as_py():
            bad = [*self._bad(batch.filter(wrong), sizes.filter(wrong))]
            right = pc.invert(wrong)
            batch, sizes = batch.filter(right), sizes.filter(right)
        return [*self._portions(batch, sizes)], bad

    def _portions(self, batch: pa.RecordBatch, sizes: Any) -> Iterator[Portion]:
        routes = self._routes
        if batch.num_rows == 0:
            return
        if len(routes.topics) == 1:
            yield self._portion(routes.topics[0], 0, batch, sizes)
            return
        for topic, first, count in zip(routes.topics, routes.firsts, routes.counts, strict=True):
            if ROUTE in batch.schema.names:
                numbers = batch.column(ROUTE)
                chosen = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, first + count))
            else:
                chosen = pc.equal(batch.column(TOPIC), topic)
            rows = batch.filter(chosen)
            if rows.num_rows:
                yield self._portion(topic, first, rows, sizes.filter(chosen))

    def _portion(self, topic: str, first: int, rows: pa.RecordBatch, sizes: Any) -> Portion:
        if ROUTE in rows.schema.names:
            numbers = rows.column(ROUTE)
            placed = pc.subtract(numbers, pa.scalar(first, pa.int32())) if first else numbers
        else:
            own = self._own[topic]
            placed = pa.repeat(pa.scalar(own[self._turn % len(own)], pa.int32()), rows.num_rows)
            self._turn += 1
        names = [name for name in rows.schema.names if name not in (ROUTE, TOPIC, PARTITION)]
        columns = [rows.column(name) for name in names]
        return Portion(topic, pa.RecordBatch.from_arrays([*columns, placed], names=[*names, PLACED]), pc.sum(sizes).as_py() or 0)

    def _bad(self, rows: pa.RecordBatch, sizes: Any) -> Iterator[Summary]:
        for row, size in zip(rows.to_pylist(), sizes.to_pylist(), strict=True):
            topic = self._topic if self._topic is not None else row.get(TOPIC)
            number = row.get(ROUTE, 0)
            if number < 0:
                reason = self._routes.why_not(number, topic, row.get(PARTITION))
            elif topic is None:
                reason = NULL_TOPIC
            elif topic not in self._routes.topics:
                reason = f"topic {topic!r} is none of those of this batch"
            else:
                reason = f"a record of up to {size + RECORD_BOUND} bytes exceeds {self._limited_by}"
            partition = self._routes.partition(number)[1] if number >= 0 and ROUTE in row else row.get(PARTITION)
            yield Summary(
                kind=BAD,
                topic=topic,
                partition=partition,
                size=size,
                reason=reason,
                key=_bytes(row.get(KEY)),
                value=_bytes(row.get(VALUE)),
            )


def _sizes(batch: pa.RecordBatch) -> Any:
    """Bytes of each row's key, value and headers."""
    total = pc.fill_null(pc.binary_length(batch.column(VALUE)).cast(pa.int64()), 0)
    if KEY in batch.schema.names:
        total = pc.add(total, pc.fill_null(pc.binary_length(batch.column(KEY)).cast(pa.int64()), 0))
    if HEADERS in batch.schema.names:
        total = pc.add(total, _header_sizes(batch.column(HEADERS)))
    return total


def _header_sizes(headers: Any) -> Any:
    return pa.array(
        [
            sum(HEADER_BOUND + len(each["key"].encode()) + len(each["value"] or b"") for each in row) if row else 0
            for row in headers.to_pylist()
        ],
        pa.int64(),
    )


def _bytes(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None
