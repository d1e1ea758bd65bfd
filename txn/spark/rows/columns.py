"""The columns that Spark's Kafka sink takes, checked as it checks them and with its words, and the DataFrame that has exactly these.

A column that the sink does not know is ignored. A null value is a tombstone; a null topic is looked for where rows are
(`txn.spark.rows.routing`), with NULL_TOPIC. Strictness where Spark has none: no column is guessed at, and none is converted but headers and
timestamps, which are brought to the one form that tasks read.
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
"""What becomes of a number that is no time, so that its row is found."""
SECONDS_MAX: Final = 9.2e12
"""Beyond that Spark's microseconds end; with spark.sql.ansi.enabled a cast of such a number fails the whole query."""
MILLISECONDS: Final = {
    "timestamp": "unix_micros({0}) div 1000",
    "double": f"case when isnan({{0}}) or abs({{0}}) = double('Infinity') then null when abs({{0}}) > {SECONDS_MAX} then {NO_TIME}"
    " else unix_micros(cast({0} as timestamp)) div 1000 end",
}
"""What Spark's sink does with a time: its microseconds, cut off after the milliseconds. By the column's type."""

CONVERTED: Final = frozenset({HEADERS, TIMESTAMP})
"""What does not stay as it is."""

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
"""What each column may be, in the order in which Spark's sink looks at them. Headers have one type, which is no class."""

NAMES_OF_TYPES: Final[dict[type[DataType], str]] = {
    StringType: "string",
    BinaryType: "binary",
    IntegerType: "int",
    DoubleType: "double",
    TimestampType: "timestamp",
}


class BadColumns(Misuse, ValueError):
    """The DataFrame is not one for Kafka. Spark's sink raises an AnalysisException with the same text."""


class SinkColumns(Struct, frozen=True, kw_only=True):
    """What a DataFrame has for Kafka. `topic`: the option's, for all rows; None where a column says it. `names` are those of the DataFrame
    that `select` makes, `places` where each of them is in the one that was given."""

    topic: str | None
    names: tuple[str, ...]
    places: tuple[int, ...]
    timestamp_type: str | None = None

    @property
    def keyed(self) -> bool:
        return KEY in self.names

    @property
    def placed(self) -> bool:
        """Whether something says where a row belongs, so that rows may have to be brought there."""
        return self.keyed or PARTITION in self.names

    @property
    def by_place(self) -> list[tuple[str, int]]:
        """Names, and where they are in the DataFrame that was given."""
        return [*zip(self.names, self.places, strict=True)]

    def column(self, name: str) -> str | None:
        """Its own name where it is there: what `send_arrow` is to be told."""
        return name if name in self.names else None


def read_columns(schema: StructType, topic: str | None = None) -> SinkColumns:
    """Look at a DataFrame's schema. Raises BadColumns."""
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
    """The option without blanks around it, as Spark takes it. Raises BadColumns for what is no name."""
    if topic is None:
        return None
    if not topic.strip():
        raise BadColumns(f"topic={topic!r}: the name of a topic, or None where a column says it")
    return topic.strip()


def _check_type(name: str, kind: DataType, allowed: tuple[type[DataType], ...]) -> None:
    found = kind.simpleString()
    if name == HEADERS:
        # Names of fields in another case are the same to Spark, and whether a field may be null is of no account.
        fits, wanted = found.lower() == HEADERS_TYPE, HEADERS_TYPE
    else:
        fits, wanted = isinstance(kind, allowed), " or ".join(NAMES_OF_TYPES[each] for each in allowed)
    if not fits:
        raise BadColumns(f"{name} attribute unsupported type {found}. {name} must be a(n) {wanted}")


def select(df: DataFrame, topic: str | None = None) -> DataFrame:
    """The DataFrame with exactly the columns that Kafka gets, in the order of TYPES, timestamps as milliseconds since 1970 (bigint); no
    topic where the option says it. Of columns of one name the first is taken, as Spark's sink does. Raises BadColumns."""
    return select_columns(df, read_columns(df.schema, topic))


def select_columns(df: DataFrame, columns: SinkColumns) -> DataFrame:
    """The same, for whoever has looked at the columns already."""
    if columns.names == tuple(df.columns) and not CONVERTED & {*columns.names}:
        return df
    if len({name.lower() for name in df.columns}) == len(df.columns):
        return df.select(*[_wanted(columns, name, name) for name in columns.names])
    # By place, because a name is there twice, or twice but for its case, which Spark calls ambiguous.
    numbered = df.toDF(*[f"c{place}" for place in range(len(df.columns))])
    return numbered.select(*[_wanted(columns, name, f"c{place}") for name, place in zip(columns.names, columns.places, strict=True)])


def _wanted(columns: SinkColumns, name: str, given: str) -> Column:
    if name == TIMESTAMP:
        assert columns.timestamp_type is not None
        return F.expr(MILLISECONDS[columns.timestamp_type].format(given)).alias(name)
    if name == HEADERS:
        return F.col(given).cast(HEADERS_TYPE).alias(name)
    return F.col(given).alias(name)
