"""The topics of ledger and claims: names that they cannot have, and topics that are there and cannot be it. No Spark is needed."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.protocol.own_topics import KAFKAS
from fencepost.txn.spark import ExactlyOnceKafkaWriter
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.errors import GuardUnavailable
from fencepost.txn.spark.guards.kafka_claims import KafkaClaims
from fencepost.txn.spark.sink.settings import WriterSettings

WAIT_S = 30.0


@pytest.mark.parametrize("setting", ["ledger_topic", "claims_topic", "on_bad_row"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, "one of Kafka's internal topics, to which clients may not write; use another name") for name in sorted(KAFKAS)),
        ("a/b", "1 to 249 of the characters"),
        ("..", "1 to 249 of the characters"),
        ("x" * 250, "1 to 249 of the characters"),
    ],
)
def test_names_that_they_cannot_have(setting: str, name: str, words: str) -> None:
    """The settings refuse a name that no topic of the writer can have, with its reason, before any broker is asked."""
    given: dict[str, Any] = {setting: name}
    with pytest.raises(ConfigError) as caught:
        WriterSettings(sink_id="s", **given)
    assert str(caught.value).startswith(f"{setting}={name!r}: ")
    assert words in str(caught.value)


def test_a_ledger_by_itself() -> None:
    """A ledger without Spark refuses the name of one of Kafka's internal topics."""
    with pytest.raises(ConfigError, match="topic='__consumer_offsets': one of Kafka's internal topics"):
        Ledger(read_settings({"bootstrap_servers": "b:9092"}), "__consumer_offsets")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"topic": "out", "ledger_topic": "out"}, "ledger_topic='out': a topic of its own, not the one that rows go to"),
        ({"topics": ("a", "b"), "claims_topic": "b"}, "claims_topic='b': a topic of its own, not the one that rows go to"),
        (
            {"on_bad_row": "bad", "ledger_topic": "bad"},
            "ledger_topic='bad': a topic of its own, not the one that bad rows go to (on_bad_row)",
        ),
        ({"ledger_topic": "x", "claims_topic": "x"}, "claims_topic='x': a topic of its own, not the one that ledger_topic names"),
    ],
)
def test_one_topic_for_two_things(settings: dict[str, Any], words: str) -> None:
    """A ledger among rows would be read as one, and claims are no rows."""
    with pytest.raises(ConfigError) as caught:
        WriterSettings(sink_id="s", **settings)
    assert str(caught.value) == words


@pytest.mark.parametrize("given", [{"topic": "out"}, {"topics": ("in", "out")}])
def test_bad_rows_among_the_others(given: dict[str, Any]) -> None:
    """Tasks write there what the driver would have to."""
    with pytest.raises(ConfigError, match="on_bad_row='out': a topic of its own, none of the sink's"):
        WriterSettings(sink_id="s", on_bad_row="out", **given)


@pytest.mark.parametrize("wrong", ["orders", (), [], {"a": 1}, (1,), (" ",)])
def test_topics_are_several_names(wrong: Any) -> None:
    """A text alone is not taken for its letters, and no name at all is refused before there is a batch."""
    with pytest.raises(ConfigError, match=r"topics=.*: a list of topics' names, at least one"):
        ExactlyOnceKafkaWriter("b:9092", "s", topics=wrong)


@pytest.mark.parametrize(
    ("given", "meant"), [("gaurd", "guard"), ("Topic", "topic"), ("on_badrow", "on_bad_row"), ("compresion_type", "kafka.compression.type")]
)
def test_an_unknown_setting(given: str, meant: str) -> None:
    """The one that was meant is a writer's or a producer's."""
    settings: dict[str, Any] = {given: "x"}
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        ExactlyOnceKafkaWriter("b:9092", "s", **settings)


def test_names_of_the_users_own() -> None:
    """Two underscores are nothing special."""
    settings = WriterSettings(sink_id="s", topic="__out", ledger_topic="__my.ledger", claims_topic="__my.claims", on_bad_row="__bad")
    assert settings.dead_letters == "__bad"


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_claims_in_a_compacted_topic(policy: str) -> None:
    """Claims have no keys, and Kafka takes none without there: refused before anything is written, naming both ways out."""
    with BrokerStub() as stub:
        stub.create_topic("claims", partitions=1, config={"cleanup.policy": policy})
        claims = KafkaClaims(
            KafkaSettings.of({"bootstrap_servers": stub.bootstrap}), topic="claims", timeout_s=WAIT_S, transaction_timeout_ms=60_000
        )
        words = f"'claims' has cleanup.policy={policy}, and compacted topics take no records without a key: set .*delete.* claims_topic="
        with pytest.raises(GuardUnavailable, match=words):
            claims.begin(1)
