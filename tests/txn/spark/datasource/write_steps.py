"""A write of `format("fencepost")` step by step, without Spark: its beginning, tasks and end, each as in another process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from fencepost.txn.spark.datasource.write_begin import Begun, begin
from fencepost.txn.spark.datasource.write_end import abort, commit
from fencepost.txn.spark.datasource.write_options import read_sink_options
from fencepost.txn.spark.datasource.write_task import Attempt, Told, write_as
from fencepost.txn.spark.datasource.writer import sink_columns
from fencepost.txn.spark.sink.participant_pool import close_kept

T = TypeVar("T")

TYPES: Final[Mapping[Any, DataType]] = {
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.timestamp("us", "UTC"): TimestampType(),
}


class Play:
    """One write with these options; with a checkpoint, the write of a query."""

    def __init__(self, bootstrap: str, topic: str | None, checkpoint: str | None = None, **options: object) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, "sinkId": "sink", "kafka.retry.backoff.ms": 5, **options}
        if topic is not None:
            given["topic"] = topic
        if checkpoint is not None:
            given["checkpointLocation"] = checkpoint
        self.options = read_sink_options({name: str(value) for name, value in given.items()}, streaming=checkpoint is not None)

    def begin(self) -> Begun:
        return _sent(begin(self.options))

    def task(self, begun: Begun, task: int, attempt_id: int = 0, **columns: Any) -> Told:
        """The account of a task with these columns; lists are columns of strings."""
        arrays = {name: column if isinstance(column, pa.Array) else pa.array(column, pa.string()) for name, column in columns.items()}
        schema = StructType([StructField(name, TYPES[column.type]) for name, column in arrays.items()])
        attempt = Attempt(stage=0, task=task, attempt=0, attempt_id=attempt_id or 100 + task)
        batch = pa.RecordBatch.from_pydict(arrays)
        return _sent(write_as(attempt, begun, self.options, sink_columns(schema, self.options), iter([batch])))

    def commit(self, *told: Told | None, begun: Begun | None = None, batch: int | None = None) -> None:
        commit(self.options, told, begun=begun, batch=batch)

    def abort(self, *told: Told | None, begun: Begun | None = None, batch: int | None = None) -> None:
        abort(self.options, told, begun=begun, batch=batch)


@pytest.fixture(scope="module", autouse=True)
def no_participant_is_kept() -> Iterator[None]:
    """Tasks of this process leave no participants in its pool."""
    yield
    close_kept()


def plan(checkpoint: Path, batch: int, offsets: str = "{}", *, query: str = "a-query") -> None:
    """What Spark writes into a query's checkpoint before a batch."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text(f'{{"id":"{query}"}}')
    (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
    (checkpoint / "offsets" / f".{batch}.crc").touch()


def _sent(what: T) -> T:
    copy: T = pickle.loads(pickle.dumps(what))
    return copy
