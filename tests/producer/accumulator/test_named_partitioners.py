"""Partitioners by name choose as the clients that have these names. A function of the caller is called once for each record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import ConfigError, Partitioner, Producer
from tests.producer.stub_helpers import quick
from tests.producer.test_send_many import logged

KEYS = [b"", b"a", b"key", b"\xff\x00\x80", *(b"key-%d" % n for n in range(60))]


@contextmanager
def ours_and_theirs(ours: object, theirs: str) -> Iterator[tuple[BrokerStub, Producer, confluent_kafka.Producer]]:
    with BrokerStub(default_partitions=7) as stub, quick(stub, partitioner=ours) as producer:
        yield stub, producer, confluent_kafka.Producer({"bootstrap.servers": stub.bootstrap, "partitioner": theirs, "log_level": 0})


@pytest.mark.parametrize(("name", "theirs"), [("crc32", "consistent"), ("fnv1a", "fnv1a"), ("murmur2", "murmur2"), ("default", "murmur2")])
def test_keys_go_where_librdkafka_puts_them(name: str, theirs: str) -> None:
    """`send`, `send_many` and `send_arrow` place each key where librdkafka's partitioner of that kind does."""
    with ours_and_theirs(name, theirs) as (stub, producer, stranger):
        for key in KEYS:
            producer.send("single", key, key=key)
            stranger.produce("theirs", value=key, key=key)
        producer.send_many("many", [(key, key) for key in KEYS])
        producer.send_arrow("arrow", pa.table({"value": KEYS, "key": KEYS}), key="key")
        producer.flush()
        assert stranger.flush(20) == 0
        expected = logged(stub, "theirs", 7)
        assert [logged(stub, topic, 7) for topic in ("single", "many", "arrow")] == [expected] * 3


def test_a_function_is_asked() -> None:
    """With the encoded key and ascending partition numbers; None leaves it to the default; an explicit partition is not asked about."""
    asked: list[tuple[bytes | None, list[int], list[int]]] = []

    def third(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
        asked.append((key, partitions, available))
        return None if key == b"default" else partitions[2]

    with BrokerStub(default_partitions=4) as stub, quick(stub, partitioner=third) as producer:
        assert producer.send("t", b"v", key=b"k").result(20).partition == 2
        assert producer.send("t", b"v").result(20).partition == 2
        assert producer.send("t", b"v", partition=1).result(20).partition == 1
        default = producer.send("t", b"v", key=b"default").result(20).partition
        assert producer.send_many("t", [b"a", (b"k", b"b"), (b"k", b"c", None, None, 0)]).result(20).offsets.keys() == {0, 2}
        table = pa.table({"value": [b"d", b"e"], "k": [b"default", b"k"], "p": pa.array([None, 3], pa.int32())})
        assert producer.send_arrow("t", table, key="k", partition="p").result(20).offsets.keys() == {default, 3}
    assert {tuple(partitions) for _, partitions, _ in asked} == {tuple(available) for *_, available in asked} == {(0, 1, 2, 3)}
    assert [key for key, *_ in asked] == [b"k", None, b"default", None, b"k", b"default"]


@pytest.mark.parametrize("choice", [-1, 4, "0", 1.0, True])
def test_a_choice_that_is_no_partition(choice: Any) -> None:
    """ValueError with the choice and the numbers there are; nothing was accepted, and the producer goes on."""
    choices = [choice, 0]
    with BrokerStub(default_partitions=4) as stub, quick(stub, partitioner=lambda *_: choices.pop(0)) as producer:
        with pytest.raises(ValueError, match=r"the partitioner chose .* from 0 to 3"):
            producer.send("t", b"v")
        assert producer.send("t", b"v").result(20).partition == 0


def test_names() -> None:
    """A name of librdkafka's is understood, an unknown one is refused with those there are."""
    with Producer(bootstrap_servers="127.0.0.1:1", partitioner="consistent_random") as producer:
        assert producer._settings.partitioner is Partitioner.CRC32
    with pytest.raises(ConfigError, match=r"partitioner='lucky': it must be one of default, round_robin, crc32, fnv1a"):
        Producer(bootstrap_servers="127.0.0.1:1", partitioner="lucky")  # type: ignore[arg-type]  # the mistake under test


def test_a_function_may_change_the_lists_that_it_is_given() -> None:
    """The lists are copies: changes to them do not affect other records."""

    def careless(key: bytes | None, partitions: list[int], available: list[int]) -> None:
        partitions.append(77)
        available.append(99)

    with BrokerStub(default_partitions=2) as stub, quick(stub, partitioner=careless) as producer:
        assert producer.send_many("t", [b"x" * 1_000] * 200).result(20).offsets.keys() == {0, 1}
        assert all(producer.send("t", b"x" * 20_000).result(20).partition in (0, 1) for _ in range(20))
