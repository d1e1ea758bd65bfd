"""Configs of topics and brokers: defaults, checks, and which value wins."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.configs.topic_configs import TOPIC_CONFIGS, BrokerConfig, InvalidConfig, check_topic_config


def test_defaults_are_legal_and_known() -> None:
    """Every default passes its own check, so that a config read back can be given again."""
    for name, definition in TOPIC_CONFIGS.items():
        check_topic_config(name, definition.default)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.config", "1"),
        ("retention.ms", None),
        ("retention.ms", "-2"),
        ("retention.ms", "1.5"),
        ("segment.bytes", "100"),
        ("cleanup.policy", "shred"),
        ("min.cleanable.dirty.ratio", "2"),
        ("min.cleanable.dirty.ratio", "much"),
        ("preallocate", "yes"),
        ("message.timestamp.type", "createtime"),
        ("follower.replication.throttled.replicas", "1-2"),
        ("min.insync.replicas", "0"),
        ("compression.gzip.level", "0"),
    ],
)
def test_bad_topic_configs_are_refused(name: str, value: str | None) -> None:
    """An unknown name, no value, and a value outside its range or list."""
    with pytest.raises(InvalidConfig, match=name.replace(".", r"\.")):
        check_topic_config(name, value)


def test_broker_configs_are_the_defaults_of_topics() -> None:
    """A broker's name or the topic's own sets what topics start with; a topic's override wins; a misspelt name gets a suggestion."""
    config = BrokerConfig({"message.max.bytes": "200", "retention.ms": "5", "num.partitions": "3"})
    topic = config.of_topic({"retention.ms": "7"})
    assert (topic["max.message.bytes"], topic["retention.ms"], topic["segment.ms"]) == ("200", "7", "604800000")
    assert config["num.partitions"] == "3"
    assert config["transaction.max.timeout.ms"] == "900000"
    with pytest.raises(InvalidConfig, match=r"did you mean 'message\.max\.bytes'"):
        BrokerConfig({"message.max.byte": "1"})
    with pytest.raises(InvalidConfig, match=r"num\.partitions"):
        BrokerConfig({"num.partitions": "0"})
