"""The plan of one write: the DataFrame's columns, the partitions, and the number of Spark tasks that share them. And its result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field
from pyspark.sql import DataFrame

from fencepost.txn.ledger.entry import LedgerPartition
from fencepost.txn.shared.participation import Written
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.rows.columns import SinkColumns
from fencepost.txn.spark.rows.routing import Routes
from fencepost.txn.spark.rows.task_summary import Summary
from fencepost.txn.spark.rows.topic_limits import TopicLimits


class Write(Struct, frozen=True):
    """A call of `write`."""

    df: DataFrame
    topic: str | None


class WritePlan(Struct, frozen=True, kw_only=True):
    """`frame`: with exactly the sink's columns. `numbered`: whether the DataFrame has a column key or partition. `tasks`: how many Spark
    tasks write, None for those of the DataFrame. `moves`: whether a shuffle moves rows to the tasks that have their partitions. `staged`:
    whether all rows are prepared and kept before the first write. `keep_bad`: whether bad rows are collected; with more than
    `bad_row_limit` of them the batch fails. `limits`: those of the topics. `collect_bytes_max`: the limit of collected rows, if the driver
    writes."""

    frame: DataFrame
    columns: SinkColumns
    routes: Routes
    tasks: int | None
    moves: bool
    staged: bool
    kafka: KafkaSettings
    keep_bad: bool
    bad_row_limit: int
    limits: TopicLimits
    collect_bytes_max: int
    timeout_s: float

    @property
    def numbered(self) -> bool:
        return self.columns.placed


class Outcome(Struct, frozen=True, kw_only=True):
    """What one write put into the transaction. `bytes`: those of keys, values and headers."""

    partitions: tuple[LedgerPartition, ...] = ()
    rows: int = 0
    bytes: int = 0
    bad: list[Summary] = field(default_factory=list)

    def and_then(self, other: Any) -> Outcome:
        """The sum of both."""
        return Outcome(
            partitions=merged((*self.partitions, *other.partitions)),
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
            bad=[*self.bad, *other.bad],
        )


def merged(partitions: Iterable[LedgerPartition]) -> tuple[LedgerPartition, ...]:
    """One row for each partition, with all its records and the first known offset."""
    found: dict[tuple[str, int], LedgerPartition] = {}
    for each in partitions:
        place = (each.topic, each.partition)
        so_far = found.get(place)
        if so_far is None:
            found[place] = each
            continue
        offsets = [offset for offset in (so_far.first_offset, each.first_offset) if offset is not None]
        found[place] = LedgerPartition(*place, so_far.records + each.records, min(offsets, default=None))
    return tuple(found.values())


def ledger_partition(told: Written | Summary) -> LedgerPartition:
    """A ledger entry's partition, from a row about a partition."""
    assert told.topic is not None
    assert told.partition is not None
    return LedgerPartition(told.topic, told.partition, told.records, told.first_offset if told.first_offset >= 0 else None)
