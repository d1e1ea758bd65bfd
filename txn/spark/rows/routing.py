"""The Kafka partition of each row, and the rows of each partition moved into one Spark task.

A key gets the partition that Java's producer would choose (murmur2), computed over Arrow's buffers without a Python object for a row. Each
(topic, partition) has a number, its route. The driver fixes the number of partitions once a batch, so that all tasks agree while a topic
grows. A row that cannot be written has a negative route, which says why; it is not dropped, and the caller decides. Rows without key and
partition are spread over their topic's partitions, in the same way each time. If no row has either, only the needed rows are moved.

This module sends no request to a broker.
"""

from __future__ import annotations

import struct
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, repeat
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from fencepost.producer.bulk.arrow_append import content
from fencepost.producer.bulk.arrow_columns import binary_array, offsets_column
from fencepost.producer.bulk.arrow_partitions import KEYLESS, NO_TOPIC, NULL, PARTITION_OUT_OF_RANGE, UNKNOWN, UNKNOWN_TOPIC, place_rows
from fencepost.producer.bulk.columns import Column as Bytes
from fencepost.producer.errors import ConfigError
from fencepost.txn.protocol.own_topics import check_own_topic
from fencepost.txn.spark.rows.columns import KEY, NULL_TOPIC, PARTITION, TOPIC, BadColumns, read_columns, select_columns
from fencepost.txn.spark.rows.spark_hash import keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["KEYLESS", "NO_TOPIC", "PARTITION_OUT_OF_RANGE", "ROUTE", "UNKNOWN_TOPIC", "Routes", "kafka_partitions", "route", "routed"]

ROUTE: Final = "__fencepost_route"
"""The column that `routed` adds."""

NAMED: Final = 5
"""An error names at most so many topics."""
COUNT_MAX: Final = 2_147_483_647
INT32: Final = pa.int32()


class Routes(Struct, frozen=True):
    """The numbers of partitions: those of the first topic from 0 on, then those of the next. `rotation`: where rows without a key begin. It
    differs from batch to batch, so that small batches do not all go to the same partition."""

    topics: tuple[str, ...]
    counts: tuple[int, ...]
    rotation: int = 0

    @classmethod
    def of(cls, counts: Mapping[str, int], *, rotation: int = 0) -> Routes:
        """From topics and their numbers of partitions."""
        if not counts:
            raise ValueError("there is no topic to route to")
        for topic, count in counts.items():
            if count < 1:
                raise ValueError(f"topic {topic!r} has {count} partitions: at least one")
        topics = tuple(sorted(counts))
        return cls(topics, tuple(counts[topic] for topic in topics), rotation)

    @property
    def firsts(self) -> tuple[int, ...]:
        """Each topic's first route."""
        return tuple(accumulate(self.counts[:-1], initial=0))

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def every(self) -> list[tuple[str, int]]:
        """The partitions in the order of their routes."""
        return self.of_task(0, 1)

    def number(self, topic: str, partition: int) -> int:
        """The route of a partition, if it is among these."""
        place = self.topics.index(topic)
        if not 0 <= partition < self.counts[place]:
            raise ValueError(f"topic {topic!r} has no partition {partition}: it has {self.counts[place]}, from 0 on")
        return self.firsts[place] + partition

    def partition(self, number: int) -> tuple[str, int]:
        """The topic and partition of a route."""
        if not 0 <= number < self.total:
            raise ValueError(f"route {number} is none: they are 0 to {self.total - 1}")
        firsts = self.firsts
        place = bisect_right(firsts, number) - 1
        return self.topics[place], number - firsts[place]

    def of_task(self, task: int, tasks: int) -> list[tuple[str, int]]:
        """The partitions whose rows `routed` moves to that one of so many tasks."""
        partitions = (tp for topic, count in zip(self.topics, self.counts, strict=True) for tp in zip(repeat(topic), range(count)))
        return list(islice(partitions, task, None, tasks))

    def why_not(self, number: int, topic: str | None, partition: int | None) -> str:
        """Why a row with a negative route cannot be written, given the row's own columns."""
        if number == NO_TOPIC:
            return NULL_TOPIC
        if number == UNKNOWN_TOPIC:
            return f"topic {topic!r} is none of those of this batch: {shortened(self.topics)}"
        assert number == PARTITION_OUT_OF_RANGE
        name = self.topics[0] if topic is None else topic
        count = self.counts[self.topics.index(name)]
        return f"Invalid partition given with record: {partition} is not in the range [0...{count}) of topic {name!r}"


def shortened(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def kafka_partitions(keys: Any, count: int) -> Any:
    """The partition of each key of an Arrow array of strings or binaries, as an int32 array; KEYLESS for a null."""
    packed = struct.pack("<i", 0), struct.pack("<i", count)
    return _numbers(place_rows(len(keys), key_column(keys), None, None, *packed, -1))


def route_numbers(routes: Routes, rows: int, keys: Any | None, partitions: Any | None, topics: Any | None, *, rotation: int = 0) -> Any:
    """The route of each row, as an int32 array, from Arrow arrays; None for a column that does not exist. Without `topics` all rows belong
    to the routes' first topic."""
    firsts, counts = (struct.pack(f"<{len(each)}i", *each) for each in (routes.firsts, routes.counts))
    return _numbers(
        place_rows(
            rows,
            key_column(keys) if keys is not None else None,
            _content(_marked(partitions)) if partitions is not None else None,
            _content(_looked_up(topics, routes.topics)) if topics is not None else None,
            firsts,
            counts,
            routes.rotation + rotation,
        )
    )


def key_column(keys: Any) -> Bytes:
    """An Arrow array of strings or binaries, as the compiled code reads it."""
    keys = binary_array(keys, KEY, KEY)
    column = offsets_column(keys)
    column.data = content(keys)
    return column


def _marked(partitions: Any) -> Any:
    """Tells values below 0 from nulls."""
    lowest = pc.min(partitions).as_py()
    if lowest is not None and lowest < 0:
        partitions = pc.if_else(pc.less(partitions, 0), pa.scalar(UNKNOWN, INT32), partitions)
    return pc.fill_null(partitions, pa.scalar(NULL, INT32))


def _looked_up(topics: Any, known: tuple[str, ...]) -> Any:
    """The place of each row's topic among the known ones."""
    text = topics.cast(pa.string())
    places = pc.fill_null(pc.index_in(text, value_set=pa.array(known, pa.string())), pa.scalar(UNKNOWN, INT32))
    return pc.if_else(pc.is_null(text), pa.scalar(NULL, INT32), places) if text.null_count else places


def _content(numbers: Any) -> bytes:
    return bytes(numbers.buffers()[1].slice(numbers.offset * 4, len(numbers) * 4).to_pybytes()) if len(numbers) else b""


def _numbers(content: bytes) -> Any:
    return pa.Array.from_buffers(INT32, len(content) // 4, [None, pa.py_buffer(content)])


def with_routes(batch: pa.RecordBatch, routes: Routes, rotation: int = 0) -> pa.RecordBatch:
    """A batch of rows with the column ROUTE. `rotation`: where its rows without a key begin, in addition to the routes' own."""
    found = {name: batch.column(name) for name in (KEY, PARTITION, TOPIC) if name in batch.schema.names}
    numbers = route_numbers(routes, batch.num_rows, found.get(KEY), found.get(PARTITION), found.get(TOPIC), rotation=rotation)
    return pa.RecordBatch.from_arrays([*batch.columns, numbers], names=[*batch.schema.names, ROUTE])


def task_number() -> int:
    """The number of the Spark task, 0 outside of one. It is not random, because a repeated task must give the same routes."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


class Router:
    """The UDF: from a batch's columns, in the order of `names`, to routes. It is pickled into every task."""

    def __init__(self, routes: Routes, names: tuple[str, ...]) -> None:
        self._routes = routes
        self._names = names

    def __call__(self, *columns: Any) -> Any:
        found = dict(zip(self._names, columns, strict=True))
        rows = len(columns[0])
        return route_numbers(self._routes, rows, found.get(KEY), found.get(PARTITION), found.get(TOPIC), rotation=task_number())


class BatchRouter:
    """The same for mapInArrow, if there is no arrow_udf: the whole batch with one more column."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield with_routes(batch, self._routes, task_number())


def routed(df: DataFrame, routes: Routes, tasks: int) -> DataFrame:
    """A DataFrame of `select_columns` with the column ROUTE, in which all rows of a partition are in one of `tasks` tasks: that of
    `routes.of_task`. Rows with neither key nor partition stay where they are. They move only if a column names the topic and a task would
    have no partition of some topic for them."""
    names = tuple(name for name in (KEY, PARTITION, TOPIC) if name in df.columns)
    if KEY not in names and PARTITION not in names and (TOPIC not in names or min(routes.counts) >= tasks):
        return df
    if TOPIC not in names and len(routes.topics) != 1:
        raise ValueError(f"without a column 'topic' all rows are of one topic, not of {len(routes.topics)}: {shortened(routes.topics)}")
    if tasks < 1:
        raise ValueError(f"tasks={tasks}: at least one")
    return spread(numbered(df, routes, names), tasks)


def scattered(df: DataFrame, routes: Routes, tasks: int) -> DataFrame:
    """Rows with neither key nor partition, spread over all partitions of their topic, with the column ROUTE. All rows of a partition are in
    one of `tasks` tasks. As many tasks compute the routes as there are now."""
    if TOPIC in df.columns:
        return spread(numbered(df, routes, (TOPIC,)), tasks)
    number = F.pmod(F.monotonically_increasing_id() + F.lit(routes.rotation), F.lit(routes.total)).cast(IntegerType())
    return spread(df.withColumn(ROUTE, number), tasks)


def numbered(df: DataFrame, routes: Routes, names: tuple[str, ...]) -> DataFrame:
    """With the column ROUTE."""
    arrow_udf: Callable[..., Any] | None = getattr(F, "arrow_udf", None)
    if arrow_udf is None:
        schema = StructType([*df.schema.fields, StructField(ROUTE, IntegerType())])
        return df.mapInArrow(BatchRouter(routes), schema)
    with warnings.catch_warnings():
        # Spark reads the kind of the function from its annotations, and looks for these where a callable object has none.
        warnings.simplefilter("ignore", UserWarning)
        function = arrow_udf(Router(routes, names), IntegerType(), scalar_arrow())
    number: Column = function(*[F.col(name) for name in names])
    return df.withColumn(ROUTE, number)


def scalar_arrow() -> int:
    """The number of that kind of function."""
    from pyspark.sql.pandas.functions import ArrowUDFType  # of 4.1 and later

    return int(ArrowUDFType.SCALAR)


def spread(df: DataFrame, tasks: int) -> DataFrame:
    """Move all rows of a route into the task whose number is the route modulo `tasks`; before Spark 4.1 by a number with the right hash."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(tasks, F.col(ROUTE))
    numbers = F.array(*[F.lit(number) for number in keys(tasks)])
    return df.repartition(tasks, F.element_at(numbers, F.pmod(F.col(ROUTE), F.lit(tasks)) + F.lit(1)))


def route(df: DataFrame, partitions: int | Mapping[str, int], *, topic: str | None = None, tasks: int | None = None) -> DataFrame:
    """Move the rows of each Kafka partition into one Spark task, before `writeStream.format("fencepost")`, which cannot do it itself.

    `partitions`: the topic's number of partitions, or each topic's if a column names a row's topic; `topic` overrides the column. `tasks`:
    how many Spark tasks write, at most one for each partition. A DataFrame of one topic without key and partition is not moved; only its
    columns are selected.
    """
    if topic is not None:
        check_own_topic("topic", topic)
    if tasks is not None:
        _check_count("tasks", tasks)
    if isinstance(partitions, Mapping):
        if not partitions:
            raise ConfigError(f"partitions={partitions!r}: at least one topic, and how many partitions it has")
        for name, count in partitions.items():
            check_own_topic("partitions", name)
            _check_count(f"partitions[{name!r}]", count)
    else:
        _check_count("partitions", partitions)
    columns = read_columns(df.schema, topic)
    if isinstance(partitions, Mapping):
        counts = dict(partitions)
    elif columns.topic is not None:
        counts = {columns.topic: partitions}
    else:
        raise BadColumns(f"partitions={partitions!r}: with a column 'topic' a mapping of each topic to its number of partitions")
    if columns.topic is not None and columns.topic not in counts:
        raise BadColumns(f"topic={columns.topic!r}: partitions says nothing of it, only of {shortened(sorted(counts))}")
    routes = Routes.of({columns.topic: counts[columns.topic]} if columns.topic is not None else counts)
    return routed(select_columns(df, columns), routes, routes.total if tasks is None else min(tasks, routes.total))


def _check_count(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= COUNT_MAX:
        raise ConfigError(f"{name}={count!r}: a whole number from 1 to {COUNT_MAX}")
