"""The pages about Spark are true: their tables are those of the code, and their programs can be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from msgspec.structs import fields
from pyspark.sql import SparkSession

from fencepost.broker_stub import BrokerStub
from fencepost.txn.spark.guards.selection import GUARDS, TABLE
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.settings import WriterSettings
from tests.drawn import drawn
from tests.pages import ROOT, page_text, programs
from tests.schema_registry import schema_registry
from tests.waiting import until

PAGE = page_text("spark.md")
REFERENCE = page_text("spark-reference.md")
GUARANTEES = page_text("guarantees.md")
SOURCE = page_text("spark-source.md")
WRITTEN = (("orders", 12), ("invoices", 1), ("reminders", 1))
"""The topics to which the programs write, and their partitions."""
CODE = re.compile(r"`([^`]+)`")


def tables(heading: str, page: str = PAGE) -> list[list[list[str]]]:
    """The tables below a heading of a page, without their first two lines."""
    text = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in each.splitlines()[2:]] for each in found]


def test_every_setting_is_there_with_its_default() -> None:
    """In the order of the code."""
    (rows,) = tables("Settings")
    told = [(name.strip("`"), default.strip("`")) for name, default, _ in rows]
    ours = [(field.name, "required" if field.required else str(field.default)) for field in fields(WriterSettings)]
    assert [(name, default.strip('"')) for name, default in told] == ours


def test_guards_and_how_auto_chooses() -> None:
    """All guards, and the table by which `auto` goes, with its reasons."""
    guards, choice = tables("Guards", REFERENCE)
    assert {row[0].strip("`") for row in guards} == {*GUARDS} - {"auto"}
    assert [(guard.strip("`"), why) for guard, why in choice] == [(row.guard, row.why) for row in TABLE]


def test_every_metric_is_there() -> None:
    """The fields of the metrics, and the phases whose time is measured."""
    (rows,) = tables("Logs and metrics", REFERENCE)
    assert {name for row in rows for name in CODE.findall(row[0])} == {field.name for field in fields(BatchMetrics)}
    phases = {name for source in (ROOT / "txn" / "spark").rglob("*.py") for name in re.findall(r'phase\("(\w+)"\)', source.read_text())}
    assert set(re.findall(r"\w+", rows[-1][1].split(":")[1])) == phases


def test_every_event_names_the_test_that_keeps_its_promise() -> None:
    """That those exist is looked at for all pages together."""
    (rows,) = tables("Spark, event by event", GUARANTEES)
    notes = dict(re.findall(r"^\[\^([\w-]+)\]: `(.*)`$", GUARANTEES, re.MULTILINE))
    named = [(event, re.findall(r"\[\^([\w-]+)\]", tests)) for event, _, tests in rows]
    assert [event for event, names in named if not names or not all(notes[name].startswith("tests/") for name in names)] == []


@drawn(2, of="programs of the pages about Spark")
@pytest.mark.parametrize(
    ("page", "number"),
    [("spark", 0), ("spark", 1), ("spark-reference", 0), ("spark-reference", 1), ("spark-reference", 2), ("spark-source", 0)],
)
def test_each_program_runs(spark: SparkSession, page: str, number: int, tmp_path: Path) -> None:
    """As it stands, but for the brokers' address and the place of checkpoints. A query has written a batch."""
    program = programs(page_text(f"{page}.md"))[number]
    with BrokerStub(brokers=3) as stub:
        for topic, partitions in WRITTEN:
            stub.create_topic(topic, partitions=partitions)
        names: dict[str, Any] = {}
        exec(program.replace("broker:9092", stub.bootstrap).replace("/checkpoints", str(tmp_path)), names)
        if (query := names.get("query")) is not None:
            try:
                until(lambda: any(each["numInputRows"] for each in query.recentProgress), "a batch with rows", timeout_s=120)
            finally:
                query.stop()
                if (writer := names.get("writer")) is not None:
                    writer.close()  # The end of a program does it.
            assert query.exception() is None
        if "Watcher" not in names:
            written = sum(len(stub.records(topic, number)) for topic, count in WRITTEN for number in range(count))
            assert written > 0


def test_values_in_avro(spark: SparkSession) -> None:
    """The program of docs/serializers.md: what it writes has the five bytes, and Confluent's deserializer reads it."""
    program = programs(page_text("serializers.md"))[-1]
    with BrokerStub(default_partitions=2) as stub, schema_registry() as registry:
        exec(program.replace("localhost:9092", stub.bootstrap).replace("http://localhost:8081", registry.url), {"__name__": "__main__"})
        values = [record.value for partition in range(2) for record in stub.records("orders", partition)]
        with SchemaRegistryClient({"url": registry.url}) as client:
            deserializer = AvroDeserializer(client)
            read = [deserializer(value, SerializationContext("orders", MessageField.VALUE)) for value in values]
    assert sorted(each["id"] for each in read) == list(range(1000))
