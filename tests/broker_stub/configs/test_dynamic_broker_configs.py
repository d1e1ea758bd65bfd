"""Broker configs that clients change while brokers run: each part of the stub obeys at once, on one broker or on all, and `data_dir` keeps
them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.configs.dynamic_broker_configs import DYNAMIC
from fencepost.broker_stub.configs.static_broker_configs import STATIC
from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, MIN_ISR
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.config_calls import BROKER, change, describe
from tests.broker_stub.stub_calls import Inside, Talker, batch, numbered
from tests.waiting import until

DAY_MS = 86_400_000


def configure(world: Inside, broker: str = "", **values: str | None) -> int:
    named = {name.replace("_", "."): value for name, value in values.items()}
    (answer,) = world.ask(change(BROKER, broker, named), 1, node=int(broker or 1)).responses
    return int(answer.error_code)


def test_no_config_is_both_static_and_dynamic() -> None:
    """Each broker config that the stub takes changes while brokers run, or is refused then."""
    assert DYNAMIC.keys().isdisjoint(STATIC)
    assert BROKER_CONFIGS.keys() - DYNAMIC.keys() - STATIC == {"allow.everyone.if.no.acl.found", "super.users"}


def test_topics_obey_the_defaults_of_all_brokers() -> None:
    """Topics that are there, and new ones, as far as they have no config of their own."""
    world = Inside()
    world.topic("t")
    world.topic("own", max_message_bytes="5000")
    assert configure(world, message_max_bytes="100") == ErrorCode.NONE
    world.topic("new")
    codes = {name: world.produce(batch(bytes(1000)), topic=name).error_code for name in ("t", "own", "new")}
    assert codes == {"t": ErrorCode.MESSAGE_TOO_LARGE, "own": ErrorCode.NONE, "new": ErrorCode.MESSAGE_TOO_LARGE}
    configure(world, message_max_bytes=None)
    assert world.produce(batch(bytes(1000))).error_code == ErrorCode.NONE


def test_what_one_broker_has_counts_for_its_logs() -> None:
    """The logs of the other broker have what is set for all."""
    world = Inside(brokers=2)
    world.topic("t", partitions=2)
    configure(world, message_max_bytes="100")
    configure(world, "1", message_max_bytes="2000")
    codes = {world.leader("t", each): world.produce(batch(bytes(1000)), partition=each).error_code for each in (0, 1)}
    assert codes == {1: ErrorCode.NONE, 2: ErrorCode.MESSAGE_TOO_LARGE}


def test_retention() -> None:
    """The next check deletes by the new time."""
    world = Inside()
    world.topic("t")
    world.produce(numbered(7, 0))
    configure(world, log_retention_ms="1000")
    world.pass_time(300_000)
    assert world.topic_named().partitions[0].log.size == 0


def test_idle_producers() -> None:
    """A sequence that does not follow is accepted once the producer is forgotten."""
    world = Inside()
    world.topic("t")
    world.produce(numbered(7, 0))
    configure(world, "1", producer_id_expiration_ms="1000")
    world.pass_time(3_600_000)
    assert world.produce(numbered(7, 50)).error_code == ErrorCode.NONE


def test_in_sync_replicas_of_all_brokers() -> None:
    """acks=all needs them at once. One broker cannot have its own number, and it cannot be deleted (KIP-966)."""
    world = Inside(brokers=3)
    world.topic("t", replicas=2)
    world.cluster.stop_broker(world.topic_named().partitions[0].replicas[1])
    assert world.produce(batch(b"v")).error_code == ErrorCode.NONE
    live = str(world.leader())
    assert configure(world, live, min_insync_replicas="2") == ErrorCode.INVALID_CONFIG
    (answer,) = world.ask(change(BROKER, "", {MIN_ISR: "2"}), 1).responses
    assert answer.error_code == ErrorCode.NONE
    assert world.produce(batch(b"v")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    (answer,) = world.ask(change(BROKER, "", {MIN_ISR: None}), 1).responses
    assert answer.error_code == ErrorCode.INVALID_CONFIG


def test_3_9_has_no_such_limit_of_in_sync_replicas() -> None:
    """Without eligible leader replicas it can be deleted."""
    world = Inside(emulate="3.9")
    assert configure(world, min_insync_replicas="2") == ErrorCode.NONE
    assert configure(world, min_insync_replicas=None) == ErrorCode.NONE


def test_the_cleaner() -> None:
    """It looks for work as often as it is told."""
    world = Inside()
    world.topic("t", cleanup_policy="compact", segment_ms="1000")
    configure(world, log_cleaner_backoff_ms="1000", log_cleaner_dedupe_buffer_size=str(4 << 20), log_cleaner_io_buffer_load_factor="0.5")
    assert world.cluster.log_cleaner._keys_max == (4 << 20) // 24 * 0.5 // 1
    looked = world.cluster.timers._housekeeping[world.cluster.log_cleaner.begin]
    assert looked[1] == 1000


def test_more_connections_are_accepted_at_once() -> None:
    """A connection that waits is served when max.connections grows; one that is there stays when it shrinks."""
    with BrokerStub(config={"max.connections": "1"}) as stub, Talker(stub) as first, Talker(stub) as second:
        assert first.producer_id() == 0
        sent = second.send(describe(BROKER, "1", "max.connections"), 4)
        assert second.quiet(0.2)
        first.ask(change(BROKER, "1", {"max.connections": "2"}), 1)
        answer: Any = second.receive(describe(BROKER, "1", "max.connections"), 4, correlation_id=sent)
        (found,) = answer.results[0].configs
        assert [(each.value, each.source) for each in found.synonyms] == [("2", 2), ("1", 4), ("2147483647", 5)]
        first.ask(change(BROKER, "1", {"max.connections": "1", "max.connections.per.ip": "2"}), 1)
        assert first.producer_id() == 1
        second.close()
        until(lambda: stub.stats()["open"] == 1, "it is gone")


def test_they_last(tmp_path: Path) -> None:
    """A stub that is started again with its data directory goes on with them, and they count before what it starts with."""
    with BrokerStub(data_dir=tmp_path) as stub, Talker(stub) as talker:
        stub.create_topic("t")
        talker.ask(change(BROKER, "", {"message.max.bytes": "100", "no.such.config": "x"}), 1)
        talker.ask(change(BROKER, "1", {"log.retention.ms": "1000"}), 1)
        talker.ask(change(BROKER, "1", {"log.retention.ms": None}), 1)
    with BrokerStub(data_dir=tmp_path, config={"message.max.bytes": "5000"}) as stub, Talker(stub) as talker:
        assert talker.produce("t", batch(bytes(1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        (result,) = talker.ask(describe(BROKER, ""), 4).results  # type: ignore[attr-defined]  # RawConnection returns any message
        told = {each.name: (each.value, each.is_sensitive) for each in result.configs}
        assert told == {"message.max.bytes": ("100", False), MIN_ISR: ("1", False), "no.such.config": (None, True)}


def test_what_is_not_obeyed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With what happens instead, as for static configs."""
    caplog.set_level(logging.WARNING)
    world = Inside()
    configure(world, "1", num_io_threads="10")
    assert [record.getMessage() for record in caplog.records] == [
        "num.io.threads=10 is kept and described, and not obeyed: the stub has no such threads"
    ]


FIXED = {
    "listeners": "PLAINTEXT://:9999",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.ssl.keystore.location": "/x",
}


@pytest.mark.parametrize("name", FIXED)
def test_listeners_do_not_change(name: str) -> None:
    """Kafka could change them; the stub says that it does not."""
    world = Inside()
    (answer,) = world.ask(change(BROKER, "1", {name: FIXED[name]}), 1, node=1).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "do not change while it runs" in answer.error_message


def test_threads_double_from_what_is_in_force() -> None:
    """As in Kafka, a pool can double again after it doubled. Each step is compared with the number that is in force."""
    world = Inside()
    assert configure(world, "1", num_io_threads="32") == ErrorCode.INVALID_REQUEST
    assert configure(world, "1", num_io_threads="16") == ErrorCode.NONE
    assert configure(world, "1", num_io_threads="32") == ErrorCode.NONE
    assert configure(world, "1", num_io_threads="15") == ErrorCode.INVALID_REQUEST
    assert configure(world, "1", num_network_threads="7") == ErrorCode.INVALID_REQUEST


def test_a_ratio_in_javas_forms_is_obeyed() -> None:
    """Java reads 0x1p-1 and 0.5d as a half, and so do the logs."""
    world = Inside()
    for number, value in enumerate(("0x1p-1", "0.5d", " .5 ")):
        assert configure(world, log_cleaner_min_cleanable_ratio=value) == ErrorCode.NONE
        world.topic(f"t{number}")
        found = world.cluster.find(f"t{number}", 0)
        assert found is not None
        assert found.log._config().min_cleanable_dirty_ratio == 0.5
