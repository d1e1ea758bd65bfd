"""The columns of Spark's Kafka sink, checked as the sink checks them and with its words, and the DataFrame with exactly these.

A column that the sink does not know is ignored. A null value is a tombstone. A null topic is found when rows are routed
(`txn.spark.rows.routing`), with NULL_TOPIC. Unlike Spark it guesses no column, and converts only headers and timestamps, to the one form
that tasks read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, DoubleType, IntegerType, StringType, StructType, TimestampType

from fencepost.producer.errors import Misuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOPIC: Final = "topic"
KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
PARTITION: Final = "partition"
TIMESTAMP: Final = "timestamp"

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
NO_TIME: Final = 1 - (1 << 63)
"""The value for a number that is no time, so that its row is found."""
SECONDS_MAX: Final = 9.2e12
"""The limit of Spark's microseconds. With spark.sql.ansi.enabled a cast of a larger number fails the whole query."""
MILLISECONDS: Final = {
    "timestamp": "unix_micros({0}) div 1000",
    "double": f"case when isnan({{0}}) or abs({{0}}) = double('Infinity') then null when abs({{0}}) > {SECONDS_MAX} then {NO_TIME}"
    " else unix_micros(cast({0} as timestamp)) div 1000 end",
}
"""Spark's sink cuts a time's microseconds off after the milliseconds. The expressions by the column's type."""

CONVERTED: Final = frozenset({HEADERS, TIMESTAMP})
"""The columns that are converted."""

NULL_TOPIC: Final = "null topic present in the data. Use the topic option for setting a default topic."

TEXT_OR_BYTES: Final = (StringType, BinaryType)
TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    TOPIC: (StringType,),
    KEY: TEXT_OR_BYTES,
    VALUE: TEXT_OR_BYTES,
    HEADERS: (),
    PARTITION: (IntegerType,),
    TIMESTAMP: (DoubleType, TimestampType),
}
"""The types of each column, in the order in which Spark's sink checks them. Headers have one type, which is no class."""

NAMES_OF_TYPES: Final[dict[type[DataType], str]] = {
    StringType: "string",
    BinaryType: "binary",
    IntegerType: "int",
    DoubleType: "double",
    TimestampType: "timestamp",
}


class BadColumns(Misuse, ValueError):
    """The DataFrame does not fit Kafka. Spark's sink raises an AnalysisException with the same text."""


class SinkColumns(Struct, frozen=True, kw_only=True):
    """The columns of a DataFrame for Kafka. `topic`: the option's topic for all rows; None if a column names it. `names` are those of the
    DataFrame that `select_columns` makes. `places` says where each is in the given one."""

    topic: str | None
    names: tuple[str, ...]
    places: tuple[int, ...]
    timestamp_type: str | None = None

    @property
    def keyed(self) -> bool:
        return KEY in self.names

    @property
    def placed(self) -> bool:
        """Whether a column says where a row belongs, so that rows may have to be moved."""
        return self.keyed or PARTITION in self.names

    @property
    def by_place(self) -> list[tuple[str, int]]:
        """The names, and their places in the given DataFrame."""
        return [*zip(self.names, self.places, strict=True)]

    def column(self, name: str) -> str | None:
        """The column's own name if it exists, for `send_arrow`."""
        return name if name in self.names else None


def read_columns(schema: StructType, topic: str | None = None) -> SinkColumns:
    """Check a DataFrame's schema. Raises BadColumns."""
    topic = check_topic_option(topic)
    names, places = [], []
    timestamp_type = None
    for name, allowed in TYPES.items():
        place = next((place for place, field in enumerate(schema.fields) if field.name == name), None)
        if name == TOPIC and topic is not None:
            continue
        if place is None:
            if name == TOPIC:
                raise BadColumns("topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.")
            if name == VALUE:
                raise BadColumns("Required attribute 'value' not found")
            continue
        kind = schema.fields[place].dataType
        _check_type(name, kind, allowed)
        if name == TIMESTAMP:
            timestamp_type = kind.simpleString()
        names.append(name)
        places.append(place)
    return SinkColumns(topic=topic, names=tuple(names), places=tuple(places), timestamp_type=timestamp_type)


def check_topic_option(topic: str | None) -> str | None:
    """The option without blanks around it, as Spark reads it. Raises BadColumns for an invalid name."""
    if topic is None:
        return None
    if not topic.strip():
        raise BadColumns(f"topic={topic!r}: the name of a topic, or None where a column says it")
    return topic.strip()


def _check_type(name: str, kind: DataType, allowed: tuple[type[DataType], ...]) -> None:
    found = kind.simpleString()
    if name == HEADERS:
        # To Spark the case of field names does not matter, nor whether a field may be null.
        fits, wanted = found.lower() == HEADERS_TYPE, HEADERS_TYPE
    else:
        fits, wanted = isinstance(kind, allowed), " or ".join(NAMES_OF_TYPES[each] for each in allowed)
    if not fits:
        raise BadColumns(f"{name} attribute unsupported type {found}. {name} must be a(n) {wanted}")


def select_columns(df: DataFrame, columns: SinkColumns) -> DataFrame:
    """The DataFrame with exactly the columns for Kafka, in the order of TYPES, timestamps as milliseconds since 1970 (bigint), without a
    topic if the option names it. Of several columns of one name the first is used, as in Spark's sink."""
    if columns.names == tuple(df.columns) and not CONVERTED & {*columns.names}:
        return df
    if len({name.lower() for name in df.columns}) == len(df.columns):
        return df.select(*[_wanted(columns, name, name) for name in columns.names])
    # By place, because a name may occur twice, or twice but for its case, which Spark calls ambiguous.
    numbered = df.toDF(*[f"c{place}" for place in range(len(df.columns))])
    return numbered.select(*[_wanted(columns, name, f"c{place}") for name, place in zip(columns.names, columns.places, strict=True)])


def _wanted(columns: SinkColumns, name: str, given: str) -> Column:
    if name == TIMESTAMP:
        assert columns.timestamp_type is not None
        return F.expr(MILLISECONDS[columns.timestamp_type].format(given)).alias(name)
    if name == HEADERS:
        return F.col(given).cast(HEADERS_TYPE).alias(name)
    return F.col(given).alias(name)
