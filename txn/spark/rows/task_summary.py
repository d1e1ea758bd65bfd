"""The rows in which tasks report to the driver. They have one small schema, and count only where Spark delivered them.

The input of a killed task ends early and the task runs on, but Spark delivers none of its rows. So a task's last row, DONE, means that the
task read all of its input. The rows of a task without DONE mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct, structs

from fencepost.txn.shared.participation import Written

WRITTEN: Final = "written"
BAD: Final = "bad"
DONE: Final = "done"

SCHEMA: Final = (
    "kind string, topic string, partition int, records long, first_offset long, last_offset long, next_sequence int,"
    " stage int, task int, attempt int, attempt_id long, worker string, size long, retries int, ms double,"
    " reason string, key binary, value binary, cut boolean"
)
"""As `mapInArrow` needs it."""


class Summary(Struct, frozen=True, kw_only=True):
    """One row. `attempt_id`: unique in the application. `worker`: host and process. `size`: bytes of keys, values and headers. `retries`:
    records that were sent again, counted each time. `kind` is one of three:

    - WRITTEN: a Kafka partition that the task wrote.
    - BAD: a row that cannot be written, with `reason`, `key`, `value` and whether these are `cut`. Without a reason: `records` such rows.
    - DONE: the task.
    """

    kind: str
    topic: str | None = None
    partition: int | None = None
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    next_sequence: int = 0
    stage: int = -1
    task: int = -1
    attempt: int = -1
    attempt_id: int = -1
    worker: str = ""
    size: int = 0
    retries: int = 0
    ms: float = 0.0
    reason: str | None = None
    key: bytes | None = None
    value: bytes | None = None
    cut: bool = False


_KINDS: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}
ARROW: Final = pa.schema([(name, _KINDS[kind]) for name, kind in (column.split() for column in SCHEMA.split(","))])


def to_arrow(summaries: Sequence[Summary]) -> pa.RecordBatch:
    """Rows as a task yields them."""
    return pa.RecordBatch.from_pylist([structs.asdict(each) for each in summaries], schema=ARROW)


def from_rows(rows: Sequence[Any]) -> list[Summary]:
    """Rows as `collect` returns them."""
    return [Summary(**{name: _plain(value) for name, value in row.asDict().items()}) for row in rows]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def told_of(written: Written) -> Summary:
    """An account of a partition as a row."""
    return Summary(kind=WRITTEN, **structs.asdict(written))


def account_of(row: Summary) -> Written:
    """The account in a row of kind WRITTEN."""
    assert row.topic is not None
    assert row.partition is not None
    return Written(row.topic, row.partition, row.records, row.first_offset, row.last_offset, row.next_sequence)


def joined(before: Written | None, after: Written) -> Written:
    """Two accounts of one partition as one; `after` has the later sequences."""
    if before is None:
        return after
    return Written(
        after.topic,
        after.partition,
        before.records + after.records,
        min((offset for offset in (before.first_offset, after.first_offset) if offset >= 0), default=-1),
        max(before.last_offset, after.last_offset),
        after.next_sequence,
    )
