"""What a DataFrame has to look like, by its schema alone: types and texts are those of Spark's Kafka sink."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from fencepost.txn.spark.rows.columns import BadColumns, read_columns


def schema(ddl: str) -> StructType:
    """Without a JVM, which `StructType.fromDDL` would ask."""
    from pyspark.sql.types import StructField, _parse_datatype_json_string

    simple = {"bytes": "binary", "int": "integer", "bigint": "long"}
    fields = []
    for each in ddl.split(", "):
        name, kind = each.split(" ")
        kind = HEADERS if kind == "headers" else f'"{simple.get(kind, kind)}"'
        fields.append(StructField(name, _parse_datatype_json_string(kind)))
    return StructType(fields)


def headers(key: str = "string", value: str = "binary", key_name: str = "key") -> str:
    one = '{{"name":"{}","type":"{}","nullable":{},"metadata":{{}}}}'
    fields = f"{one.format(key_name, key, 'false')},{one.format('value', value, 'true')}"
    return f'{{"type":"array","elementType":{{"type":"struct","fields":[{fields}]}},"containsNull":false}}'


HEADERS = headers()


def test_everything_there_is() -> None:
    """Every column of the sink is taken, in one order, and what it does not know is left."""
    found = read_columns(
        schema("other double, timestamp timestamp, value string, headers headers, key binary, partition int, topic string")
    )
    assert found.names == ("topic", "key", "value", "headers", "partition", "timestamp")
    assert found.places == (6, 4, 2, 3, 5, 1)
    assert found.topic is None
    assert found.keyed
    assert found.placed
    assert found.column("headers") == "headers"


def test_the_option_takes_the_place_of_the_column() -> None:
    """As in Spark: blanks around it do not count, and the column is not even looked at."""
    found = read_columns(schema("topic bigint, value binary"), " flights ")
    assert found.topic == "flights"
    assert found.names == ("value",)
    assert not found.placed
    assert found.column("key") is None


def test_names_are_read_as_they_are_written() -> None:
    """Spark's sink compares names with their case, and takes the first of several."""
    assert read_columns(schema("KEY int, value binary, value string"), "t").places == (1,)
    with pytest.raises(BadColumns, match="Required attribute 'value' not found"):
        read_columns(schema("Value binary"), "t")


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("value string", "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."),
        ("topic string, key string", "Required attribute 'value' not found"),
        ("topic int, value string", "topic attribute unsupported type int. topic must be a(n) string"),
        ("topic string, value bigint", "value attribute unsupported type bigint. value must be a(n) string or binary"),
        ("topic string, key double, value string", "key attribute unsupported type double. key must be a(n) string or binary"),
        ("topic string, value string, partition bigint", "partition attribute unsupported type bigint. partition must be a(n) int"),
        ("topic string, value string, partition string", "partition attribute unsupported type string. partition must be a(n) int"),
        (
            "topic string, value string, timestamp bigint",
            "timestamp attribute unsupported type bigint. timestamp must be a(n) double or timestamp",
        ),
        (
            "topic string, value string, timestamp timestamp_ntz",
            "timestamp attribute unsupported type timestamp_ntz. timestamp must be a(n) double or timestamp",
        ),
        (
            "topic string, value string, headers string",
            "headers attribute unsupported type string. headers must be a(n) array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_spark_s_own_words(ddl: str, words: str) -> None:
    """The errors are those of Spark's Kafka sink."""
    with pytest.raises(BadColumns) as raised:
        read_columns(schema(ddl))
    assert str(raised.value) == words


@pytest.mark.parametrize("wrong", [headers(value="string"), headers(key="binary"), headers(key_name="name")])
def test_headers_have_one_type(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of headers are bytes and their names strings; there is no conversion."""
    monkeypatch.setitem(globals(), "HEADERS", wrong)
    with pytest.raises(BadColumns, match=r"headers must be a\(n\) array<struct<key:string,value:binary>>"):
        read_columns(schema("value string, headers headers"), "t")


@pytest.mark.parametrize("topic", ["", "  "])
def test_an_empty_topic_is_refused(topic: str) -> None:
    """It is no name, and no absence either."""
    with pytest.raises(BadColumns, match="topic="):
        read_columns(schema("value string"), topic)
