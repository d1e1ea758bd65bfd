"""The options of the read source: Spark's names and meanings, and errors that name the option, the value and what was probably meant."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fencepost.producer.errors import ConfigError
from fencepost.txn.reading.limits import Isolation
from fencepost.txn.spark.datasource.offsets import EARLIEST, LATEST
from fencepost.txn.spark.datasource.read_options import connection_settings, kafka_settings, read_source_options


def read(streaming: bool = False, **given: str) -> Any:
    return read_source_options({"subscribe": "t"} | {key.replace("__", "."): value for key, value in given.items()}, streaming=streaming)


def test_defaults_are_those_of_sparks_source() -> None:
    """The defaults are Spark's. Only the isolation differs, which is read_committed here."""
    batch, stream = read(), read(streaming=True)
    assert (batch.starting.special, batch.ending.special, stream.starting.special) == (EARLIEST, LATEST, LATEST)
    assert batch.isolation is Isolation.READ_COMMITTED
    assert batch.fail_on_data_loss
    assert not batch.include_headers


def test_options_are_read_in_any_case() -> None:
    """As Spark hands them on: names in small letters."""
    found = read(
        STARTINGOFFSETS='{"t":{"0":23,"1":-2}}',
        endingtimestamp="1000",
        failOnDataLoss="FALSE",
        kafka__isolation__level="read_uncommitted",
        kafka__max__partition__fetch__bytes="1000",
        kafka__fetch__max__bytes="500",
        minPartitions="7",
    )
    assert found.starting.offsets == {("t", 0): 23, ("t", 1): EARLIEST}
    assert found.ending.timestamp_ms == 1_000
    assert not found.fail_on_data_loss
    assert found.isolation is Isolation.READ_UNCOMMITTED
    assert found.limits.fetch_bytes == 500
    assert found.partitions_min == 7
    assert read(streaming=True, maxTriggerDelay="15m").trigger_delay_max_ms == 900_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscrib": "t"}, "unknown option 'subscrib'; did you mean 'subscribe'?"),
        ({"assign": '{"t":[0]}'}, "exactly one of the options assign, subscribe and subscribePattern"),
        ({"startingOffsets": "begin"}, "startingOffsets='begin': 'latest' or 'earliest', or offsets as JSON"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "-2 for t-0 is below -1"),
        ({"startingOffsets": "latest"}, "startingOffsets='latest': starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"0":0,"1":-1}}'}, "that of t-1 can't be latest (-1) for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "endingOffsets='earliest'"),
        ({"startingOffsets": '{"t":{"x":1}}'}, "'x': 1 is no partition with a number"),
        ({"startingOffsets": "{"}, "startingOffsets='{'"),
        ({"maxOffsetsPerTrigger": "10"}, "maxOffsetsPerTrigger: it is for streaming queries only"),
        ({"minPartitions": "0"}, "minPartitions='0': a whole number from 1 on"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss='maybe': true or false"),
        ({"kafka.group.id": "g"}, "kafka.group.id='g': it reads without a consumer group"),
        ({"kafka.isolation.level": "dirty"}, "read_committed or read_uncommitted"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], message: str) -> None:
    """The error for a wrong option names the option and its value."""
    with pytest.raises(ConfigError) as error:
        read_source_options({"subscribe": "t"} | given, streaming=False)
    assert message in str(error.value)


def test_a_batch_option_is_refused_in_a_stream() -> None:
    """A stream has no end, so it refuses endingOffsets."""
    with pytest.raises(ConfigError, match="endingOffsets: it is for batch queries only"):
        read(streaming=True, endingOffsets="latest")


def test_limits_of_a_trigger_have_to_leave_room() -> None:
    """A least number of offsets above the largest is refused, with both values."""
    with pytest.raises(ConfigError, match="minOffsetsPerTrigger=10 and maxOffsetsPerTrigger=5: no trigger can have both"):
        read(streaming=True, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="5")


def test_what_tunes_javas_consumer_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """A query that comes from Spark's own source runs; the log says what it does without."""
    given = {
        "kafka.bootstrap.servers": "h:1",
        "kafka.session.timeout.ms": "10000",
        "kafka.Max.Poll.Records": "500",
        "kafka.client.rack": "a",
    }
    with caplog.at_level(logging.INFO, "fencepost.spark"):
        connection_settings(kafka_settings(given | {"kafka.bootstrap.servers": "h:1"}))
    assert {record.getMessage().partition(" ")[0] for record in caplog.records} == {
        "kafka.session.timeout.ms",
        "kafka.max.poll.records",
        "kafka.client.rack",
    }


def test_what_is_about_connections_is_read_as_a_producers() -> None:
    """Java's login modules among it, unknown names refused; and the address has to be there."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="secret";'
    given = {"kafka.bootstrap.servers": "h:1", "kafka.fetch.min.bytes": "1", "kafka.security.protocol": "SASL_PLAINTEXT"}
    kafka = kafka_settings(given | {"kafka.sasl.jaas.config": jaas})
    settings = connection_settings(kafka)
    assert (settings.bootstrap_servers, settings.sasl_username) == (("h:1",), "ann")
    assert "secret" not in repr(kafka)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        kafka_settings({"subscribe": "t"})
    with pytest.raises(ConfigError, match=r"did you mean 'kafka\.request\.timeout\.ms'"):
        kafka_settings({"kafka.bootstrap.servers": "h:1", "kafka.request.timeout.mss": "1"})
