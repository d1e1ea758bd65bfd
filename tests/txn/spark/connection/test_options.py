"""What options mean: Spark's names and Kafka's in any case, what is refused and with which words, and what a producer is told."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError
from fencepost.txn.spark.connection.kafka_options import FORBIDDEN, OF_SPARK, REASONS, TUNES_JAVA, unknown
from fencepost.txn.spark.connection.options import SinkOptions, read_options
from fencepost.txn.spark.connection.secrets import KafkaSettings

HERE = {"kafka.bootstrap.servers": "localhost:9092"}


def read(given: dict[str, Any], **more: Any) -> SinkOptions:
    return read_options({**HERE, **given}, **more)


def resolved(**given: str) -> dict[str, Any]:
    return read({f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}).kafka.resolve()


def test_settings_of_kafka_s_go_to_the_producer() -> None:
    """Strings in either spelling become a producer's settings, and those of transactions theirs."""
    given = {
        "kafka.linger.ms": "20",
        "KAFKA.Compression.Type": "zstd",
        "kafka.client_id": "flights",
        "kafka.transaction.timeout.ms": "90000",
    }
    kafka = read(given).kafka
    settings = read_settings(kafka.resolve())
    assert kafka.resolve_owner(1) == (kafka.resolve(), 90_000)
    assert read({}).kafka.resolve_owner(1)[1] == 1
    assert (settings.linger_ms, settings.compression_type.name, settings.client_id) == (20.0, "ZSTD", "flights")
    assert settings.bootstrap_servers == ("localhost:9092",)
    assert settings.enable_idempotence


def test_names_in_any_case() -> None:
    """A data source is given its options in small letters; the caller finds its own as it calls them."""
    options = read(
        {"TOPIC": " flights ", "includeheaders": "TRUE", "sinkid": "s", "onBadRow": "fail", "checkpointlocation": "/c"},
        own=("sinkId", "onBadRow"),
    )
    assert options.topic == "flights"
    assert options.include_headers
    assert options.own == {"sinkId": "s", "onBadRow": "fail"}


def test_one_option_in_two_cases_is_refused() -> None:
    """It is not clear which of them is meant."""
    with pytest.raises(ConfigError, match="set twice"):
        read({"topic": "a", "Topic": "b"})
    with pytest.raises(ConfigError, match="set twice"):
        read({"kafka.linger.ms": "1", "kafka.LINGER.ms": "2"})
    with pytest.raises(ConfigError, match="linger_ms is set twice"):
        settings = read({"kafka.linger.ms": "1", "kafka.linger_ms": "2"}).kafka.resolve()
        read_settings(settings)


def test_brokers_are_needed() -> None:
    """In Spark's words."""
    with pytest.raises(ConfigError, match=r"Option 'kafka\.bootstrap\.servers' must be specified for configuring Kafka producer"):
        read_options({"topic": "t"})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("topics", "topic"),
        ("guad", "guard"),
        ("includeHeader", "includeHeaders"),
        ("kafka.liner.ms", "kafka.linger.ms"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("sasl.jaas.config", "kafka.sasl.jaas.config"),
        ("kafka.ssl.trustore.location", "kafka.ssl.truststore.location"),
    ],
)
def test_an_unknown_option_suggests_the_one_that_was_meant(given: str, meant: str) -> None:
    """Spark's sink would pass over it in silence."""
    with pytest.raises(ConfigError, match=f"unknown option '{given}'; did you mean '{meant}'"):
        read({given: "x"}, own=("guard",))


@pytest.mark.parametrize(("given", "meant"), [("topik", "topic"), ("gaurd", "guard"), ("kafka.lingerms", "kafka.linger.ms")])
def test_an_unknown_argument_is_named_as_it_was_written(given: str, meant: str) -> None:
    """Also an argument of the writer, which takes Kafka's settings with and without `kafka.`."""
    with pytest.raises(ConfigError, match=f"^unknown option '{given}'; did you mean '{meant}'"):
        KafkaSettings.of({"bootstrap_servers": "broker:9092", given: "x"}, names=("topic", "guard"))


def test_what_spark_forbids_is_refused_in_its_words() -> None:
    """As the Kafka connector says it."""
    for name, words in FORBIDDEN.items():
        with pytest.raises(ConfigError) as raised:
            read({f"kafka.{name}": "x"})
        assert str(raised.value) == f"Kafka option '{name}' {words}"
    words = r"'key\.serializer' is not supported as keys are serialized with ByteArraySerializer\."
    with pytest.raises(ConfigError, match=words):
        read({"kafka.key.serializer": "org.apache.kafka.common.serialization.StringSerializer"})


def test_what_would_spoil_the_promise_is_refused_with_the_reason() -> None:
    """The identity, the partitioner and what only Java can run."""
    for name, reason in REASONS.items():
        for spelling in (name, name.replace(".", "_")):
            with pytest.raises(ConfigError) as raised:
                read({f"kafka.{spelling}": "x"})
            assert str(raised.value) == f"kafka.{spelling} cannot be set: {reason}"


@pytest.mark.parametrize(
    ("name", "wrong"), [("acks", "1"), ("acks", "0"), ("enable.idempotence", "false"), ("enable_idempotence", "FALSE")]
)
def test_weaker_than_exactly_once_is_refused(name: str, wrong: str) -> None:
    """With the value, and what it would cost."""
    with pytest.raises(ConfigError, match=f"kafka.{name}='{wrong}' cannot be set: exactly once needs (all|true): "):
        read({f"kafka.{name}": wrong})


def test_what_is_so_anyway_may_be_said() -> None:
    """acks=all and idempotence, as many a job has it."""
    assert "acks" not in resolved(acks="all", enable_idempotence="true")
    assert "acks" not in resolved(acks="-1")


def test_no_retries_would_be_no_idempotence() -> None:
    """A producer alone takes retries=0 as a wish to do without; here it is refused."""
    with pytest.raises(ConfigError, match="needs retries above 0"):
        read_settings(resolved(retries="0"))


def test_what_only_tunes_java_is_passed_over_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Jobs that ran before run again; the log says what means nothing."""
    caplog.set_level(logging.INFO, "fencepost.spark")
    kafka = read({f"kafka.{name}": "x" for name in TUNES_JAVA}).kafka.resolve()
    assert set(kafka) == {"bootstrap.servers", "enable_idempotence"}
    assert len(caplog.records) == len(TUNES_JAVA)
    assert "kafka.client.dns.lookup has no meaning for this client" in caplog.text


@pytest.mark.parametrize("wrong", ["soon", "9.5", ""])
def test_a_timeout_is_a_number(wrong: str) -> None:
    """Named with its value."""
    with pytest.raises(ConfigError, match=r"kafka\.transaction\.timeout\.ms="):
        resolved(transaction_timeout_ms=wrong)


def test_include_headers_is_true_or_false() -> None:
    """As Scala's toBoolean takes it."""
    with pytest.raises(ConfigError, match="includeHeaders='yes': true or false"):
        read({"includeHeaders": "yes"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("includeHeaders", "the writer writes headers if the column `headers` exists"),
        ("failOnDataLoss", "it is an option of the source: give it to readStream"),
        ("checkpointLocation", "it is an option of the query: give it to writeStream"),
    ],
)
def test_an_option_of_sparks_own_is_known(given: str, words: str) -> None:
    """An option of Spark's Kafka source or of a query is refused with what to do instead, not with a name that looks alike. The writer's
    keyword arguments without `kafka.` lead to the same words."""
    for key in (given, f"kafka.{given}"):
        with pytest.raises(ConfigError) as refused:
            raise unknown(key, ())
        assert str(refused.value) == f"unknown option {given!r}: {OF_SPARK[given.lower()]}"
        assert words in str(refused.value)
