"""docs/migration.md is true: names are names of the clients they are said to be of, and every call in it runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import time
from functools import cache
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

import fencepost
from fencepost import Api, AsyncProducer, AsyncTransactionalProducer, BrokerStub, GroupMetadata, Producer, TransactionalProducer
from fencepost.producer.config.settings import Settings
from tests.pages import generator, page_text
from tests.waiting import until

CODE = re.compile(r"`([^`]+)`")
NO_EQUAL = "Settings of confluent-kafka that have no equal here"


@cache
def table(heading: str) -> list[dict[str, str]]:
    """The rows of the table below a heading, by the names of its columns."""
    text = page_text("migration.md").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def names(heading: str, column: str) -> list[str]:
    """What stands in backticks in a column."""
    return [name for row in table(heading) for name in CODE.findall(row[column])]


def test_our_settings_are_all_there() -> None:
    """Each named is a setting, and each setting that another client could have is named."""
    ours = names("Settings", "ours")
    assert set(ours) <= set(Settings.__struct_fields__)
    left = set(Settings.__struct_fields__) - set(ours)
    only_ours = {"resolve_grace_ms", "exit_flush_ms", "on_statistics", "telemetry", "ssl_password", "sasl_oauthbearer_config"}
    assert left - only_ours == {"compression_gzip_level", "compression_lz4_level", "compression_zstd_level"}


def test_aiokafkas_and_kafka_pythons_settings_are_theirs() -> None:
    """aiokafka's are arguments of its producer, kafka-python's are in its list of defaults; and where the table has none, none has our
    name."""
    theirs = {
        "aiokafka": set(inspect.signature(aiokafka.AIOKafkaProducer.__init__).parameters),
        "kafka-python": set(kafka.KafkaProducer.DEFAULT_CONFIG),
    }
    for client, known in theirs.items():
        assert set(names("Settings", client)) <= known
        none = {CODE.findall(row["ours"])[0] for row in table("Settings") if row[client] == "-"}
        assert not none & known


@pytest.mark.parametrize("name", [*names("Settings", "confluent-kafka"), *names(NO_EQUAL, "there")])
def test_confluents_settings_are_theirs(name: str) -> None:
    """librdkafka knows the property: it may refuse the value, but not the name."""
    given: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, name: "\0no such value"}
    if name == "oauth_cb":
        given = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            name: lambda config: ("token", time.time() + 3600),
        }
    said = ""
    try:
        confluent_kafka.Producer(given)
    except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
        said = str(error)
    assert "No such configuration property" not in said


def test_javas_settings_are_kafkas() -> None:
    """They are on the page about configuration, which is compared with Kafka's own list."""
    made = generator("make_configuration")
    theirs = {made.kafka_name(setting): setting for setting in made.KAFKA}
    for row in table("Settings"):
        (ours,), java = CODE.findall(row["ours"]), CODE.findall(row["Java"])
        assert [theirs[name] for name in java] == ([ours] if ours in made.KAFKA else [])


def run(code: str, known: dict[str, Any]) -> Any:
    return eval(compile(code, "migration.md", "eval"), known)


async def run_awaiting(code: str, known: dict[str, Any]) -> Any:
    made = eval(compile(code, "migration.md", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), known)
    return await made if inspect.iscoroutine(made) else made


@pytest.mark.parametrize(
    ("column", "messages"), [("ours", 8), ("confluent-kafka", 7), ("kafka-python", 5)], ids=["ours", "confluent-kafka", "kafka-python"]
)
def test_the_calls_of_a_producer_run(column: str, messages: int) -> None:
    """One after the other against a stub, and what they sent is there."""
    with BrokerStub() as stub:
        stub.create_topic("t")
        known: dict[str, Any] = {
            "Producer": Producer,
            "confluent_kafka": confluent_kafka,
            "kafka": kafka,
            "bootstrap": stub.bootstrap,
            "callback": lambda *told: None,
        }
        for row in table("Calls of a `Producer`"):
            for code in CODE.findall(row[column]):
                result = run(code, known)
                if row[""] == "make":
                    known["producer"] = result
                if row[""] == "partitions":
                    assert list(result) == [0]
        assert len(stub.records("t", 0)) == messages


@pytest.mark.parametrize(("column", "messages"), [("ours", 5), ("aiokafka", 3)], ids=["ours", "aiokafka"])
def test_the_calls_of_an_async_producer_run(column: str, messages: int) -> None:
    """The calls of our asyncio producer and of aiokafka's run one after the other against a stub, and what they sent is there."""

    async def story(bootstrap: str) -> None:
        known: dict[str, Any] = {"AsyncProducer": AsyncProducer, "aiokafka": aiokafka, "bootstrap": bootstrap}
        for row in table("Calls of an `AsyncProducer`"):
            for code in CODE.findall(row[column]):
                result = await run_awaiting(code, known)
                if row[""] == "make":
                    known["producer"] = result
                if row[""] == "partitions":
                    assert list(result) == [0]

    with BrokerStub() as stub:
        stub.create_topic("t")
        asyncio.run(asyncio.wait_for(story(stub.bootstrap), 60))
        assert len(stub.records("t", 0)) == messages


@pytest.mark.parametrize("column", ["ours", "confluent-kafka", "kafka-python"])
def test_the_calls_of_a_transactional_producer_run(column: str) -> None:
    """The calls of each client's transactional producer run one after the other, and commit a record and an offset."""
    with BrokerStub() as stub:
        stub.create_topic("t")
        consumer = confluent_kafka.Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "g"})
        consumer.subscribe(["t"])
        until(lambda: consumer.poll(0.05) or consumer.assignment(), "the consumer is a member of its group", timeout_s=60.0)
        known: dict[str, Any] = {
            "TransactionalProducer": TransactionalProducer,
            "confluent_kafka": confluent_kafka,
            "kafka": kafka,
            "bootstrap": stub.bootstrap,
            "metadata": consumer.consumer_group_metadata(),
        }
        for row in table("Calls of a `TransactionalProducer`"):
            for code in CODE.findall(row[column]):
                result = run(code, known)
                if row[""] == "make":
                    known["producer"] = result
        assert [record.value for record in stub.records("t", 0)] == [b"v"]
        assert consumer.committed([confluent_kafka.TopicPartition("t", 0)], timeout=30)[0].offset == 1
        consumer.close()


@pytest.mark.parametrize("column", ["ours", "aiokafka"])
def test_the_calls_of_an_async_transactional_producer_run(column: str) -> None:
    """The calls of our asyncio transactional producer and of aiokafka's run one after the other, and commit a record."""

    async def story(bootstrap: str) -> None:
        known: dict[str, Any] = {
            "AsyncTransactionalProducer": AsyncTransactionalProducer,
            "GroupMetadata": GroupMetadata,
            "aiokafka": aiokafka,
            "bootstrap": bootstrap,
        }
        for row in table("Calls of an `AsyncTransactionalProducer`"):
            for code in CODE.findall(row[column]):
                result = await run_awaiting(code, known)
                if row[""] == "make":
                    known["producer"] = result

    with BrokerStub() as stub:
        stub.create_topic("t")
        asyncio.run(asyncio.wait_for(story(stub.bootstrap), 60))
        assert [record.value for record in stub.records("t", 0)] == [b"v"]


def test_the_errors_exist() -> None:
    """Ours are public; theirs are exceptions, or codes of confluent-kafka's KafkaError."""
    assert [name for name in names("Errors", "ours") if not issubclass(getattr(fencepost, name), Exception)] == []
    builtin = {"BufferError": BufferError, "ValueError": ValueError, "AssertionError": AssertionError}
    for column, places in {
        "confluent-kafka": (confluent_kafka, confluent_kafka.KafkaError),
        "aiokafka": (aiokafka.errors,),
        "kafka-python": (kafka.errors,),
    }.items():
        missing = [name for name in names("Errors", column) if name not in builtin and not any(hasattr(place, name) for place in places)]
        assert missing == [], column


def test_confluents_partitions_can_be_kept() -> None:
    """With partitioner="crc32" keys go where confluent-kafka's default puts them."""
    keys = [b"key-%d" % number for number in range(50)]
    with BrokerStub() as stub:
        for topic in ("theirs", "ours"):
            stub.create_topic(topic, partitions=7)
        theirs = confluent_kafka.Producer({"bootstrap.servers": stub.bootstrap})
        for key in keys:
            theirs.produce("theirs", b"", key=key)
        assert theirs.flush(20) == 0
        with Producer(bootstrap_servers=stub.bootstrap, partitioner="crc32") as ours:
            ours.send_many("ours", [(key, b"") for key in keys]).result(20)
        for partition in range(7):
            assert {record.key for record in stub.records("theirs", partition)} == {
                record.key for record in stub.records("ours", partition)
            }


def test_what_the_page_says_of_defaults() -> None:
    """Idempotence is on here and in kafka-python 3, off in aiokafka and confluent-kafka."""
    assert Settings(bootstrap_servers=()).enable_idempotence
    assert kafka.KafkaProducer.DEFAULT_CONFIG["enable_idempotence"]
    assert inspect.signature(aiokafka.AIOKafkaProducer.__init__).parameters["enable_idempotence"].default is False
    with BrokerStub() as stub:
        producer = confluent_kafka.Producer({"bootstrap.servers": stub.bootstrap})
        producer.produce("t", b"x")
        assert producer.flush(20) == 0
        assert stub.stats()["duplicates"] == 0
        assert stub.journal.requests(Api.INIT_PRODUCER_ID) == []
