"""Serializers: by name, functions, and those of confluent-kafka as they are."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import IntegerSerializer, MessageField, SerializationContext, StringSerializer

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, ConfigError, Producer
from tests.producer.stub_helpers import QUICK, quick
from tests.producer.test_send_many import logged

SCHEMA = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'


class Order(msgspec.Struct):
    """What a service might send."""

    id: int
    name: str = ""


def test_by_name() -> None:
    """JSON, MessagePack, strings, and bytes as they are; None stays a tombstone and a missing key."""
    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, key_serializer="string", value_serializer="json") as producer:
            producer.send("json", Order(1, "ä"), key="k")
            producer.send("json", None, key="k")
            producer.send("json", [1, None])
        with quick(stub, **{"value.serializer": "msgpack"}) as producer:
            producer.send("msgpack", {"id": 1})
        (first, second, third), (packed,) = logged(stub, "json", 1)[0], logged(stub, "msgpack", 1)[0]
        with quick(stub, key_serializer="bytes", value_serializer="bytes") as producer:
            producer.send("bytes", b"as it is", key=b"k").result(20)
            with pytest.raises(TypeError):
                producer.send("bytes", {"id": 1})
        assert logged(stub, "bytes", 1)[0] == [(b"k", b"as it is")]
    assert json.loads(first[1] or b"") == {"id": 1, "name": "ä"}
    assert (first[0], second, third) == (b"k", (b"k", None), (None, b"[1,null]"))
    assert msgspec.msgpack.decode(packed[1] or b"") == {"id": 1}


def test_in_bulk_and_on_asyncio() -> None:
    """With serializers a row is a value of any type, or a tuple that begins with key and value."""
    rows: list[Any] = [{"key": 1}, ("k", {"a": 2}), ("k", None), None, ("k", [3], [("h", b"x")], None, 0)]

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK, key_serializer="string", value_serializer="json") as producer:
            await (await producer.send("aio", {"a": 1}, key="k"))
            assert (await (await producer.send_many("aio", rows))).acknowledged == 5

    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, key_serializer="string", value_serializer="json") as producer:
            assert producer.send_many("t", iter(rows)).result(20).acknowledged == 5
        asyncio.run(asyncio.wait_for(story(), 60))
        expected = [(None, b'{"key":1}'), (b"k", b'{"a":2}'), (b"k", None), (None, None), (b"k", b"[3]")]
        assert logged(stub, "t", 1)[0] == expected
        assert logged(stub, "aio", 1)[0] == [(b"k", b'{"a":1}'), *expected]


def test_those_of_confluent_kafka() -> None:
    """A schema-registry serializer gets its SerializationContext: topic, field and headers; what it wrote, its deserializer reads."""
    registry = SchemaRegistryClient.new_client({"url": "mock://serializers"})
    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, key_serializer=StringSerializer(), value_serializer=JSONSerializer(SCHEMA, registry)) as producer:
            producer.send("orders", {"id": 7}, key="k").result(20)
            with pytest.raises(Exception, match="'id' is a required property"):
                producer.send("orders", {"name": "x"}, key="k")
        with quick(stub, value_serializer=IntegerSerializer()) as producer:
            producer.send("numbers", 258).result(20)
        ((key, value),) = logged(stub, "orders", 1)[0]
        assert key == b"k"
        assert JSONDeserializer(SCHEMA)(value, SerializationContext("orders", MessageField.VALUE)) == {"id": 7}
        assert logged(stub, "numbers", 1)[0] == [(None, b"\x00\x00\x01\x02")]
    assert registry.get_latest_version("orders-value").schema.schema_str == SCHEMA


def test_functions_and_objects() -> None:
    """A function of the value, and an object with serialize(topic, value) as kafka-python has them."""

    class Shouting:
        def serialize(self, topic: str, value: str) -> bytes:
            return f"{topic}: {value}!".encode()

    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, key_serializer=lambda number: b"%d" % number, value_serializer=Shouting()) as producer:
            producer.send("t", "hello", key=5).result(20)
        assert logged(stub, "t", 1)[0] == [(b"5", b"t: hello!")]


def test_what_goes_wrong_is_said_by_send() -> None:
    """What a serializer raises comes out of `send`, and what it returns must be bytes; nothing was accepted."""
    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, value_serializer="string") as producer, pytest.raises(TypeError, match="takes a str, not bytes"):
            producer.send("t", b"x")
        with quick(stub, value_serializer=str) as producer:
            with pytest.raises(TypeError, match="value must be bytes or None, not str"):
                producer.send("t", 1)
            with pytest.raises(TypeError, match="row 1"):
                producer.send_many("t", [None, 1])


def test_a_value_that_cannot_be_serialized() -> None:
    """The error has a note that names the setting and the topic, and the row in `send_many`."""
    with BrokerStub(default_partitions=1) as stub, quick(stub, value_serializer="json") as producer:
        with pytest.raises(TypeError, match="unsupported") as raised:
            producer.send("orders", object())
        assert raised.value.__notes__ == ["value_serializer raised this for a value of topic 'orders'"]
        with pytest.raises(TypeError, match="unsupported") as raised:
            producer.send_many("orders", [1, 2, object()])
        assert raised.value.__notes__[-1] == "row 2"


def test_a_serializer_that_raises_stop_iteration() -> None:
    """As with `next` of an empty iterator. It does not end the rows of `send_many`: those behind it would be lost without an error."""

    def first(value: list[bytes]) -> bytes:
        return next(iter(value))

    with BrokerStub(default_partitions=1) as stub:
        stub.create_topic("orders")
        with quick(stub, value_serializer=first) as producer:
            with pytest.raises(StopIteration):
                producer.send("orders", [])
            for rows in ([[b"1"], [], [b"2"]], iter([[b"1"], [], [b"2"]])):
                with pytest.raises(RuntimeError, match="StopIteration") as raised:
                    producer.send_many("orders", rows)
                assert raised.value.__notes__ == ["value_serializer raised this for a value of topic 'orders'", "row 1"]

        async def story() -> None:
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, value_serializer=first) as producer:
                with pytest.raises(RuntimeError, match="StopIteration"):
                    await producer.send_many("orders", [[b"1"], [], [b"2"]])

        asyncio.run(asyncio.wait_for(story(), 60))
        assert stub.records("orders", 0) == []


def test_a_key_of_text_beside_a_serializer_of_values() -> None:
    """The error names key_serializer, as value_serializer does not serialize keys. What a serializer returned is named as its own."""
    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, value_serializer="json") as producer:
            with pytest.raises(TypeError, match=r"^key must be bytes or None, not str: encode it first, or set key_serializer$"):
                producer.send("t", 1, key="k")
            with pytest.raises(TypeError, match=r"^row 0: key must be bytes or None, not str: encode it first, or set key_serializer$"):
                producer.send_many("t", [("k", 1)])
        with quick(stub, key_serializer=str) as producer, pytest.raises(TypeError, match=r"not str: key_serializer returned it$"):
            producer.send("t", b"x", key=1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("yaml", "value_serializer='yaml': it must be one of bytes, json, msgpack, string, or a function"),
        (5, "value_serializer=5 is not a serializer"),
    ],
)
def test_unknown_serializers(value: Any, words: str) -> None:
    """Refused with what there is."""
    with pytest.raises(ConfigError, match=words):
        Producer(bootstrap_servers="127.0.0.1:1", value_serializer=value)
