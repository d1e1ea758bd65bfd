"""The programs of docs/serializers.md run as printed, and what they send can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.type.money_pb2 import Money

from fencepost.broker_stub import BrokerStub
from tests.pages import page_text, programs
from tests.schema_registry import SchemaRegistry, schema_registry

PAGE: Final = page_text("serializers.md")
PROGRAMS: Final = programs(PAGE)
PROTOBUF_HEAD: Final = b"\0\0\0\0\1\0"
"""The five bytes, and the index of the first message of its file."""


def run(program: str, stub: BrokerStub, registry: SchemaRegistry, directory: Path) -> str:
    program = program.replace("localhost:9092", stub.bootstrap).replace("http://localhost:8081", registry.url)
    done = subprocess.run([sys.executable, "-c", program], cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def values(stub: BrokerStub, topic: str) -> list[bytes | None]:
    return [record.value for record in stub.records(topic, 0)]


@pytest.mark.parametrize("number", [0, 1, 2, 3], ids=["json", "avro", "protobuf", "asyncio"])
def test_it_runs_as_printed(number: int, tmp_path: Path) -> None:
    """What it sends is what the page says."""
    with BrokerStub(default_partitions=1) as stub, schema_registry() as registry:
        out = run(PROGRAMS[number], stub, registry, tmp_path)
        if number == 0:
            assert out == "Order(id=7, city='Berlin', paid=False)\n"
            assert values(stub, "orders") == [b'{"id":7,"city":"Berlin","paid":false}']
        elif number == 2:
            (sent,) = values(stub, "payments")
            assert sent is not None
            assert (sent[:6], Money.FromString(sent[6:])) == (PROTOBUF_HEAD, Money(currency_code="EUR", units=12))
        else:
            assert avro(registry, values(stub, "orders")) == [{"id": 7}, {"id": 8}][: 2 if number == 1 else 1]


def avro(registry: SchemaRegistry, sent: list[bytes | None]) -> list[Any]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        deserializer = AvroDeserializer(client)
        return [deserializer(value, SerializationContext("orders", MessageField.VALUE)) for value in sent]
