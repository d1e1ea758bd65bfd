"""The rows of one Arrow batch as Kafka gets them: a batch for each topic, with a partition for each row.

Routed rows have a number. Rows without key and partition are not routed. All of a batch go to one of the partitions that the task may write
to (sticky, KIP-794), unless the caller chooses it. It sends nothing. `bad_rows` decides which rows can be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from fencepost.txn.spark.rows.bad_rows import RowCheck
from fencepost.txn.spark.rows.columns import PARTITION, TOPIC
from fencepost.txn.spark.rows.routing import ROUTE
from fencepost.txn.spark.rows.task_summary import Summary

PLACED: Final = "__fencepost_partition"
"""The column with each row's partition. `all_in` adds it, too."""


class Portion(Struct, frozen=True):
    """Rows for one topic. `rows` has the column PLACED, unless the caller of `place` chooses their partition."""

    topic: str
    rows: pa.RecordBatch
    bytes: int


class Placer:
    """See the module. `own`: the partitions that this task writes; None if the caller chooses those of unrouted rows. `rotation`: the first
    of them for unrouted rows."""

    def __init__(self, check: RowCheck, own: list[tuple[str, int]] | None, *, rotation: int = 0) -> None:
        self._check = check
        self._routes = check.routes
        self._rotation = rotation
        self.own(own)

    def own(self, partitions: list[tuple[str, int]] | None) -> None:
        """The partitions that the task writes from now on."""
        self._own = (
            {name: [partition for topic, partition in partitions if topic == name] for name in self._routes.topics}
            if partitions is not None
            else None
        )

    def place(self, batch: pa.RecordBatch) -> tuple[list[Portion], list[Summary]]:
        """The rows that can be written, and the bad ones that are described. With too many bad rows nothing is placed."""
        rows, sizes, bad = self._check.apply(batch)
        return [] if self._check.failed else [*self._portions(rows, sizes)], bad

    def _portions(self, batch: pa.RecordBatch, sizes: Any) -> Iterator[Portion]:
        routes = self._routes
        if batch.num_rows == 0:
            return
        if len(routes.topics) == 1:
            yield self._portion(routes.topics[0], 0, batch, sizes)
            return
        for topic, first in zip(routes.topics, routes.firsts, strict=True):
            chosen = self._check.goes_to(batch, topic)
            rows = batch.filter(chosen)
            if rows.num_rows:
                yield self._portion(topic, first, rows, sizes.filter(chosen))

    def _portion(self, topic: str, first: int, rows: pa.RecordBatch, sizes: Any) -> Portion:
        names = [name for name in rows.schema.names if name not in (ROUTE, TOPIC, PARTITION)]
        found = pa.RecordBatch.from_arrays([rows.column(name) for name in names], names=names)
        if ROUTE in rows.schema.names:
            numbers = rows.column(ROUTE)
            found = found.append_column(PLACED, pc.subtract(numbers, pa.scalar(first, pa.int32())) if first else numbers)
        elif self._own is not None:
            own = self._own[topic]
            found = all_in(found, own[self._rotation % len(own)])
            self._rotation += 1
        return Portion(topic, found, pc.sum(sizes).as_py() or 0)


def all_in(rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """The rows, placed in one partition."""
    return rows.append_column(PLACED, pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows))
