"""confluent-kafka's serializers with a Schema Registry that speaks HTTP: Avro, JSON Schema and Protobuf, blocking and asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AsyncAvroSerializer, AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import AsyncJSONSerializer, JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import AsyncProtobufSerializer, ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, ConfigError, Misuse, Producer
from fencepost.txn import AsyncTransactionalProducer
from tests.producer.stub_helpers import QUICK, quick
from tests.producer.test_send_many import logged
from tests.schema_registry import SchemaRegistry, schema_registry

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
JSON_SCHEMA = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
ORDER = {"id": 7}


def message_class() -> Any:
    """What protoc makes of `message Order { int64 id = 1; }`."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(
        name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    pool: Any = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


Message = message_class()
KINDS = ("avro", "json", "protobuf")
LIMIT_S = 60


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(default_partitions=1) as found:
        yield found


def value_of(kind: str) -> Any:
    return Message(id=7) if kind == "protobuf" else ORDER


def read(kind: str, registry: SchemaRegistry, value: bytes | None) -> Any:
    with SchemaRegistryClient({"url": registry.url}) as client:
        deserializer: Any = {
            "avro": lambda: AvroDeserializer(client, AVRO),
            "json": lambda: JSONDeserializer(JSON_SCHEMA, schema_registry_client=client),
            "protobuf": lambda: ProtobufDeserializer(Message, {"use.deprecated.format": False}, client),
        }[kind]()
        return deserializer(value, SerializationContext("orders", MessageField.VALUE))


async def asynchronous(kind: str, client: AsyncSchemaRegistryClient) -> Any:
    if kind == "avro":
        return await AsyncAvroSerializer(client, AVRO)
    if kind == "json":
        return await AsyncJSONSerializer(JSON_SCHEMA, client)
    return await AsyncProtobufSerializer(Message, client, {"use.deprecated.format": False})


@pytest.mark.parametrize("kind", KINDS)
def test_blocking(kind: str, registry: SchemaRegistry, stub: BrokerStub) -> None:
    """The value has the five bytes of Confluent's wire format, and their deserializer reads it. The schema is registered once."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer: Any = {
            "avro": lambda: AvroSerializer(client, AVRO),
            "json": lambda: JSONSerializer(JSON_SCHEMA, client),
            "protobuf": lambda: ProtobufSerializer(Message, client, {"use.deprecated.format": False}),
        }[kind]()
        with quick(stub, value_serializer=serializer) as producer:
            producer.send("orders", value_of(kind), key=b"k").result(20)
            assert producer.send_many("orders", [(b"k", value_of(kind)), (b"k", None)]).result(20).acknowledged == 2
    (_, first), (_, second), (_, tombstone) = logged(stub, "orders", 1)[0]
    assert tombstone is None
    assert first == second
    assert first is not None
    assert first[:5] == b"\0" + (1).to_bytes(4, "big")
    assert read(kind, registry, first) == value_of(kind)
    assert registry.requests.count("POST /subjects/orders-value/versions") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_asynchronous(kind: str, registry: SchemaRegistry, stub: BrokerStub) -> None:
    """`send` and `send_many` await the serializer, in a transaction, too. `try_send` refuses it."""

    async def story() -> None:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            serializer = await asynchronous(kind, client)
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK, value_serializer=serializer) as producer:
                await (await producer.send("orders", value_of(kind), key=b"k"))
                assert (await (await producer.send_many("orders", [value_of(kind), (b"k", None)]))).acknowledged == 2
                with pytest.raises(Misuse, match=r"try_send does not wait, and value_serializer=.* is asynchronous: use send"):
                    producer.try_send("orders", value_of(kind))
            async with (
                AsyncTransactionalProducer(
                    bootstrap_servers=stub.bootstrap, transactional_id="t", value_serializer=serializer
                ) as transactional,
                transactional.transaction() as tx,
            ):
                await tx.send("orders", value_of(kind))

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    values = [value for _, value in logged(stub, "orders", 1)[0]]
    assert values[2] is None
    assert [read(kind, registry, value) for value in (values[0], values[1], values[3])] == [value_of(kind)] * 3


@pytest.mark.parametrize("more", [{}, {"interceptors": [lambda record: None]}], ids=["alone", "interceptors"])
def test_the_id_in_a_header(registry: SchemaRegistry, stub: BrokerStub, more: dict[str, Any]) -> None:
    """With `schema.id.serializer` the schema's id is a header of the record, with or without other headers. The caller's list stays as it
    is, so that it can be given again."""
    registry.guid = "89791762-2336-4186-9674-299b90a802e2"
    large = {"id": 1 << 40}  # their deserializer expects six bytes, wherever the id is
    conf = {"schema.id.serializer": header_schema_id_serializer}
    given: list[tuple[str, bytes | None]] = [("a", b"1")]

    async def story() -> None:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            serializer = await AsyncAvroSerializer(client, AVRO, conf=conf)
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK, value_serializer=serializer, **more) as producer:
                await (await producer.send("orders", large, headers=given))
                await (await producer.send_many("orders", [large, (b"k", large, given)]))

    with SchemaRegistryClient({"url": registry.url}) as client:
        with quick(stub, value_serializer=AvroSerializer(client, AVRO, conf=conf), **more) as producer:
            for headers in (None, given, given, tuple(given)):
                producer.send("orders", large, headers=headers).result(20)
            producer.send_many("orders", [large, (b"k", large), (b"k", large, given, 5)]).result(20)
        asyncio.run(asyncio.wait_for(story(), LIMIT_S))
        assert given == [("a", b"1")]
        records = stub.records("orders", 0)
        own = [[name for name, _ in record.headers] for record in records]
        with_one, alone = ["a", "__value_schema_id"], ["__value_schema_id"]
        assert own == [alone, with_one, with_one, with_one, alone, alone, with_one, with_one, alone, with_one]
        assert records[6].timestamp == 5
        read = AvroDeserializer(client, AVRO, conf={"schema.id.deserializer": dual_schema_id_deserializer})
        for record in records:
            assert read(record.value, SerializationContext("orders", MessageField.VALUE, list(record.headers))) == large


def test_a_producer_that_blocks_refuses_it(registry: SchemaRegistry) -> None:
    """The error names the setting and the producers that await."""

    async def story() -> None:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            with pytest.raises(ConfigError, match=r"^value_serializer=.*AsyncAvroSerializer.*asynchronous, and only AsyncProducer"):
                Producer(bootstrap_servers="localhost:1", value_serializer=await AsyncAvroSerializer(client, AVRO))

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))


def test_what_an_asynchronous_serializer_raises(stub: BrokerStub) -> None:
    """It comes out of the call, with its note, and nothing of the call was accepted. Interceptors hear of it."""
    heard: list[object] = []

    class Listening:
        def on_acknowledgement(self, metadata: object, error: Exception | None) -> None:
            heard.append(type(error))

    async def serializer(value: int) -> bytes:
        await asyncio.sleep(0)
        return b"%d" % (10 // value)

    async def story() -> None:
        async with AsyncProducer(
            bootstrap_servers=stub.bootstrap, **QUICK, value_serializer=serializer, interceptors=[Listening()]
        ) as producer:
            with pytest.raises(ZeroDivisionError) as raised:
                await producer.send("numbers", 0)
            assert raised.value.__notes__ == ["value_serializer raised this for a value of topic 'numbers'"]
            assert heard == [ZeroDivisionError]
            with pytest.raises(ZeroDivisionError) as raised:
                await producer.send_many("numbers", [1, 2, 0, 5])
            assert raised.value.__notes__[-1] == "row 2"
            assert raised.value.sent.result(1).acknowledged == 0  # type: ignore[attr-defined]
            await (await producer.send("numbers", 5))

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert logged(stub, "numbers", 1)[0] == [(None, b"2")]


def test_a_send_that_is_cancelled_while_it_serializes(stub: BrokerStub) -> None:
    """The record is not accepted, and the producer goes on."""
    reached = asyncio.Event()

    async def serializer(value: bytes) -> bytes:
        if value == b"slow":
            reached.set()
            await asyncio.sleep(LIMIT_S)
        return value

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK, value_serializer=serializer) as producer:
            task = asyncio.create_task(producer.send("t", b"slow"))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await (await producer.send("t", b"quick"))

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert logged(stub, "t", 1)[0] == [(None, b"quick")]
