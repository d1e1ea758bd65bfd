"""What cannot work is refused where it is said, before anything is asked of a broker, with the argument, the value and the rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fencepost.producer.errors import ConfigError, Misuse
from fencepost.txn.ledger.entry import BadLedgerEntry
from fencepost.txn.spark import ExactlyOnceKafkaWriter, route, write_once
from fencepost.txn.spark.sink.settings import WriterSettings
from tests.txn.spark.site import Site

NOWHERE = "127.0.0.1:1"
NO_TEXT: tuple[object, ...] = (0, 7, -1, 1.5, True, b"bytes", [], ["a"], {}, object, ("a",), frozenset({"a"}))
NO_NUMBER: tuple[object, ...] = (None, "", "x", "7", 1.5, float("nan"), True, False, b"7", [], {}, -1, -(1 << 31), 1 << 61, 1 << 70)
NO_TOPIC = (*NO_TEXT, "", " ", "a/b", "a b", "x" * 250, ".", "..", "a\0", "\ud800", "é", "__consumer_offsets", "__transaction_state")
UNSPEAKABLE = (*NO_TEXT, " ", "a\0b", "\ud800", "x" * 4001)
NO_CHOICE = (*NO_TEXT, None, "", "Auto", "ERROR ", "none")
WRONG: Mapping[str, tuple[object, ...]] = {
    "bootstrap": (*NO_TEXT, None, "", " ", ",", "host", "host:", ":9092", "host:0", "host:65536", "http://host:9092", "a:1,b", "::1:9092"),
    "sink_id": (*UNSPEAKABLE, None, "", "a#b", "x" * 1001),
    "topic": NO_TOPIC,
    "topics": (0, 1.5, "ab", b"a", [], {}, ["a/b"], ["a", None], ["a", ""], ("a", 7), ["__consumer_offsets"], [["a"]], {"a": 1}),
    "guard": NO_CHOICE,
    "on_bad_row": (*NO_TOPIC, None, "out", "ignore", "Skip", "drop", "FAILFAST", "__fencepost_ledger", "__fencepost_claims"),
    "bad_row_limit": (*NO_NUMBER, 0),
    "on_new_checkpoint": NO_CHOICE,
    "on_missing_ledger": NO_CHOICE,
    "on_gap": NO_CHOICE,
    "stage": NO_CHOICE,
    "max_reruns": NO_NUMBER,
    "transaction_timeout_ms": (*NO_NUMBER, 0, 1 << 31),
    "timeout_ms": (*NO_NUMBER, 0, 1 << 31),
    "tasks": (*NO_NUMBER[1:], 0),
    "collect_bytes_max": (*NO_NUMBER, 0),
    "checkpoint": (*UNSPEAKABLE, ""),
    "query": (*UNSPEAKABLE, ""),
    "ledger_topic": (*NO_TOPIC, None, "out", "__fencepost_claims"),
    "claims_topic": (*NO_TOPIC, None, "out", "__fencepost_ledger"),
    "transactional_id_prefix": (*UNSPEAKABLE, None),
    "secrets": (*NO_TEXT[:-3], {"sasl_password": "x"}, ("a",), "text", lambda: {"a": 1}),
    "linger_ms": (None, "x", -1, "five", [], {}, b"x", object, "1s", "one", float("-inf"), "\ud800"),
    "compression_type": (7, "x", [], {}, "brotli", b"x", 1.5, object, "zip", -1, ("lz4",), "GZ"),
}
"""Of the writer, and of two settings of the producer's. None stands where it is no default."""
HIDDEN = ("secrets",)
"""Values that no message may show."""


def test_every_argument_is_in_the_table() -> None:
    """A setting that is new has to say what it cannot be."""
    assert WRONG.keys() >= {"bootstrap", "secrets", *WriterSettings.__struct_fields__}
    assert min(map(len, WRONG.values())) >= 12


@pytest.mark.parametrize("name", WRONG)
def test_the_writer_refuses_what_cannot_work(name: str) -> None:
    """`write_once` hands its arguments to the same constructor."""
    for value in WRONG[name]:
        given: dict[str, Any] = {"bootstrap": NOWHERE, "sink_id": "sink", "topic": None if name == "topics" else "out", name: value}
        with pytest.raises((ConfigError, BadLedgerEntry)) as refused:
            ExactlyOnceKafkaWriter(**given)
        said = str(refused.value)
        assert {"bootstrap": "bootstrap_servers", "sink_id": "sink"}.get(name, name) in said, said
        assert name in HIDDEN or any(each in said for each in spelled(value)), said


def spelled(value: object) -> list[str]:
    """How a message may show it: as it is, cut, or what of it is wrong."""
    parts = value if isinstance(value, list | tuple) else value.split(",") if isinstance(value, str) else ()
    return [repr(value)[:20], *(repr(tuple(value))[:20] for _ in "x" if isinstance(value, list)), *(repr(each)[:20] for each in parts)]


def test_what_may_be_said() -> None:
    """None of these is refused."""
    several: list[dict[str, Any]] = [
        {"transactional_id_prefix": ""},
        {"topic": None, "topics": ["a", "b.c_d-e"]},
        {"topic": None, "topics": dict.fromkeys("ab").keys()},
        {"tasks": None, "query": None, "checkpoint": None, "secrets": None},
        {"on_bad_row": "bad", "max_reruns": 0, "collect_bytes_max": 1 << 40},
        {"bootstrap": ["a:1", "[::1]:2", "SSL://c:3"], "security_protocol": "SSL"},
        {"linger_ms": "5", "kafka.compression.type": "lz4"},
    ]
    for given in several:
        ExactlyOnceKafkaWriter(**{"bootstrap": NOWHERE, "sink_id": "sink", "topic": "out", **given}).close()


@pytest.mark.parametrize("batch", [None, "0", "x", 1.5, float("nan"), True, b"0", [], {}, -1, 1 << 63, object])
def test_batches_are_numbered(spark: SparkSession, batch: Any) -> None:
    """As Spark does it."""
    writer = ExactlyOnceKafkaWriter(NOWHERE, "sink", topic="out")
    with pytest.raises(Misuse, match=r"batch_id=.*: a whole number from 0"):
        writer(spark.range(1), batch)
    writer.close()


def test_a_topic_of_one_write(site: Site) -> None:
    """It is looked at before the write begins, so that the batch can go on with another one."""
    writer = site.by_hand()
    rows = site.rows("x")
    with writer.batch(rows, site.offsets(0)) as batch:
        for topic in NO_TOPIC:
            wrong: Any = topic
            with pytest.raises(ConfigError, match="topic="):
                batch.write(rows, topic=wrong)
        batch.write(rows)
    assert site.committed() == ["x"]


ROUTES: Mapping[str, tuple[object, ...]] = {
    "partitions": (*NO_NUMBER, 0, 1 << 31, {"out": 0}, {"out": "3"}, {"out": True}, {"a/b": 1, "out": 1}),
    "topic": NO_TOPIC,
    "tasks": (*NO_NUMBER[1:], 0, 1 << 31),
}


@pytest.mark.parametrize("name", ROUTES)
def test_routes_that_there_are_not(spark: SparkSession, name: str) -> None:
    """`route` says which argument, and what it can be."""
    df = spark.range(1).selectExpr("'x' as value", "'k' as key")
    for value in ROUTES[name]:
        given: dict[str, Any] = {"partitions": 3, "topic": "out", name: value}
        with pytest.raises(ConfigError, match=name):
            route(df, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"df": None}, "not None"),
        ({"df": "rows"}, "not 'rows'"),
        ({"df": [("a",)]}, "write_once writes a DataFrame"),
        ({"job_id": ""}, "job=''"),
        ({"job_id": 7}, "job=7"),
        ({"job_id": "x" * 1001}, "at most 1000"),
        ({"job_id": "\ud800"}, "UTF-8"),
        ({"version": None}, "job_id='j' without a version"),
        ({"version": -1}, "version=-1: a whole number from 0"),
        ({"version": "1"}, "version='1'"),
        ({"version": True}, "version=True"),
        ({"version": 1.0}, "version=1.0"),
        ({"version": 1 << 63}, "a whole number from 0"),
        ({"job_id": None}, "version=1 without a job_id"),
        ({"query": "q"}, "query='q': write_once is not part of a streaming query"),
        ({"topic": "a/b"}, "topic='a/b': it must be 1 to 249"),
        ({"sink_id": "a#b"}, "sink='a#b'"),
        ({"bootstrap": "host"}, "'host' is not 'host:port'"),
    ],
)
def test_a_job_that_cannot_be_written(spark: SparkSession, given: dict[str, Any], words: str) -> None:
    """What is its own, and what it hands on."""
    df = spark.range(1).selectExpr("'x' as value")
    with pytest.raises((ConfigError, Misuse), match=words):
        write_once(**{"df": df, "bootstrap": NOWHERE, "sink_id": "sink", "job_id": "j", "version": 1, "topic": "out", **given})


def test_a_stream_is_no_job(spark: SparkSession) -> None:
    """`write_once` refuses a stream and names what writes one."""
    with pytest.raises(Misuse, match="not a streaming one: writeStream"):
        write_once(spark.readStream.format("rate").load(), NOWHERE, "sink", job_id="j", version=1, topic="out")


@pytest.mark.parametrize("length", [1001, 4001])
def test_a_sink_id_that_is_too_long(length: int) -> None:
    """The limit that is named is the one that holds, however far beyond it is."""
    with pytest.raises(ConfigError, match=r"sink_id='xxx.*of at most 1000 characters"):
        ExactlyOnceKafkaWriter(NOWHERE, "x" * length, topic="out")


def test_a_guard_that_does_not_exist() -> None:
    """The error names the guards, and when to use which."""
    guards = "one of 'auto', 'driver', 'turns', 'kafka-claims', 'off'"
    with pytest.raises(ConfigError, match=rf"guard='claims': {guards}; use 'kafka-claims' with speculation, .* and 'auto' otherwise"):
        WriterSettings(sink_id="s", topic="t", guard="claims")
