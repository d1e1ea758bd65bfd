"""Routes without Spark: the partitions that keys have, rows that can have none, and numbers for topics and partitions."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.txn.spark.rows.columns import NULL_TOPIC
from fencepost.txn.spark.rows.routing import (
    KEYLESS,
    NO_TOPIC,
    PARTITION_OUT_OF_RANGE,
    UNKNOWN_TOPIC,
    Routes,
    kafka_partitions,
    route_numbers,
)

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Hashes as Kafka's own UtilsTest has them."""

TWO = Routes.of({"b": 3, "a": 2})


def of(*keys: bytes | None) -> Any:
    return pa.array(keys, pa.binary())


def int32(*numbers: int | None) -> Any:
    return pa.array(numbers, pa.int32())


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 2_147_483_647])
def test_partitions_are_those_of_java(count: int) -> None:
    """The hash that Java has, its sign bit taken off, modulo the partitions."""
    assert kafka_partitions(of(*JAVA), count).to_pylist() == [(signed & 0x7FFFFFFF) % count for signed in JAVA.values()]


def test_every_length_and_every_alignment() -> None:
    """Keys of any length, empty ones, nulls between them and a slice that begins in the middle are as the producer has them."""
    drawn = random.Random(6)
    keys = [None if drawn.random() < 0.2 else drawn.randbytes(drawn.randrange(40)) for _ in range(2000)]
    expected = [KEYLESS if key is None else partition_for_key(key, 12) for key in keys]
    assert kafka_partitions(of(*keys), 12).to_pylist() == expected
    assert kafka_partitions(of(*keys).slice(301, 700), 12).to_pylist() == expected[301:1001]
    assert kafka_partitions(of(*keys).slice(2000), 12).to_pylist() == []


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view()])
def test_strings_are_their_utf8(kind: Any) -> None:
    """A string goes to the partition of its UTF-8 bytes, in every Arrow type for strings."""
    texts = ["", "ключ", "鍵", "🔑", "clé", "plain", None]
    keys = pa.array(texts, pa.string()).cast(pa.binary() if "binary" in str(kind) else pa.string()).cast(kind)
    assert kafka_partitions(keys, 97).to_pylist() == [KEYLESS if each is None else partition_for_key(each.encode(), 97) for each in texts]


def test_null_keys_only() -> None:
    """A column of nothing but nulls has no data at all."""
    assert kafka_partitions(pa.nulls(3, pa.binary()), 4).to_pylist() == [KEYLESS] * 3
    assert kafka_partitions(pa.nulls(0, pa.string()), 4).to_pylist() == []


def test_a_key_of_another_type_is_refused() -> None:
    """What is neither text nor bytes has no hash."""
    with pytest.raises(TypeError, match="must be a string or binary column, not int64"):
        kafka_partitions(pa.array([1]), 4)


def test_topics_are_numbered_one_after_the_other() -> None:
    """Each partition of each topic has a number of its own, there and back."""
    assert (TWO.topics, TWO.counts, TWO.firsts, TWO.total) == (("a", "b"), (2, 3), (0, 2), 5)
    assert [TWO.partition(number) for number in range(5)] == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]
    assert [TWO.number(*TWO.partition(number)) for number in range(5)] == [0, 1, 2, 3, 4]
    assert TWO.of_task(0, 2) == [("a", 0), ("b", 0), ("b", 2)]
    assert TWO.of_task(4, 9) == [("b", 2)]
    assert TWO.of_task(5, 9) == []


@pytest.mark.parametrize("call", [lambda: TWO.number("b", 3), lambda: TWO.partition(5), lambda: Routes.of({}), lambda: Routes.of({"t": 0})])
def test_what_is_not_there_has_no_number(call: Any) -> None:
    """Partitions, routes and topics that do not exist are refused, and not wrapped around."""
    with pytest.raises(ValueError):
        call()


def test_keys_partitions_and_topics_together() -> None:
    """An explicit partition goes before the key; the topic decides how many there are."""
    numbers = route_numbers(TWO, 4, of(b"21", b"21", b"21", b"abc"), int32(None, 1, None, 2), pa.array(["a", "a", "b", "b"])).to_pylist()
    hashed = JAVA[b"21"] & 0x7FFFFFFF
    assert numbers == [hashed % 2, 1, 2 + hashed % 3, 2 + 2]


def test_rows_that_cannot_be_written_say_why() -> None:
    """Nothing wraps around and nothing is guessed: a null or unknown topic and a partition below 0 or above the last have a number each,
    and words that name topic, partition and range."""
    topics = pa.array(["a", "a", "a", None, "c", "b"])
    numbers = route_numbers(TWO, 6, None, int32(2, -1, -7, 0, 0, 2), topics).to_pylist()
    assert numbers == [PARTITION_OUT_OF_RANGE] * 3 + [NO_TOPIC, UNKNOWN_TOPIC, 4]
    assert TWO.why_not(numbers[0], "a", 2) == "Invalid partition given with record: 2 is not in the range [0...2) of topic 'a'"
    assert TWO.why_not(numbers[3], None, 0) == NULL_TOPIC
    assert TWO.why_not(numbers[4], "c", 0) == "topic 'c' is none of those of this batch: a, b"


def test_a_slice_of_every_column() -> None:
    """Arrays that begin in the middle of their buffers are read from where they begin."""
    keys, partitions, topics = of(b"x", b"21", None), int32(9, None, 1), pa.array(["a", "b", None])
    whole = route_numbers(TWO, 3, keys, partitions, topics).to_pylist()
    parts = [route_numbers(TWO, 1, keys.slice(n, 1), partitions.slice(n, 1), topics.slice(n, 1)).to_pylist()[0] for n in range(3)]
    assert parts == whole


def test_rows_without_a_key_are_spread_evenly_and_the_same_way_each_time() -> None:
    """Beside keyed rows they go to all partitions of their topic, in runs; where they begin is told, not drawn."""
    routes = Routes.of({"t": 4}, rotation=1)
    keys = pa.nulls(1000, pa.binary())
    numbers = route_numbers(routes, 1000, keys, None, None, rotation=2).to_pylist()
    assert [numbers.count(each) for each in range(4)] == [250] * 4
    assert numbers[0] == 3
    assert numbers == route_numbers(routes, 1000, keys, None, None, rotation=2).to_pylist()
