"""Configs of single groups: their coordinator obeys them, beside groups that have the broker's, and `data_dir` keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.config_calls import GROUP, change, describe
from tests.broker_stub.groups.consumer_calls import ConsumerWorld
from tests.broker_stub.stub_calls import Talker

SESSION, HEARTBEAT, ASSIGNMENT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms"
NO_BOUNDS = {"group.consumer.min.session.timeout.ms": "1", "group.consumer.min.heartbeat.interval.ms": "1"}


def world(**config: str) -> ConsumerWorld:
    found = ConsumerWorld(config={**NO_BOUNDS, **config})
    found.topic("t", partitions=2)
    return found


def configure(w: ConsumerWorld, group: str = "g", **values: str | None) -> int:
    named = {name.replace("_", "."): value for name, value in values.items()}
    (answer,) = w.ask(change(GROUP, group, named), 1, node=1).responses
    return int(answer.error_code)


def test_sessions() -> None:
    """A member is removed after the group's own timeout, from its next heartbeat on. Another group has the broker's."""
    w = world()
    mine, other = w.joined("m1", "t"), w.joined("m2", "t", group="other")
    assert configure(w, consumer_session_timeout_ms="6000", consumer_heartbeat_interval_ms="100") == ErrorCode.NONE
    mine.live()
    w.pass_time(5_999)
    assert list(w.consumer_group().members) == ["m1"]
    w.pass_time(1)
    assert list(w.consumer_group().members) == []
    assert list(w.consumer_group("other").members) == [other.id]


def test_heartbeats() -> None:
    """Members are told the group's own interval, and the broker's again when it is deleted."""
    w = world()
    member, other = w.joined("m1", "t"), w.joined("m2", "t", group="other")
    configure(w, consumer_heartbeat_interval_ms="123")
    assert (member.live().heartbeat_interval_ms, other.live().heartbeat_interval_ms) == (123, 5000)
    configure(w, consumer_heartbeat_interval_ms=None)
    assert member.live().heartbeat_interval_ms == 5000


def test_assignments_wait() -> None:
    """A second assignment of the group is computed after its own interval."""
    w = world()
    configure(w, consumer_assignment_interval_ms="1000")
    w.joined("m1", "t")
    second = w.joined("m2", "t")
    assert w.consumer_group().assignment_epoch < w.consumer_group().epoch
    w.pass_time(1_000)
    second.heartbeat()
    assert w.consumer_group().assignment_epoch == w.consumer_group().epoch


BOUNDED = {SESSION: (46_000, 50_000), HEARTBEAT: (2_000, 4_000), ASSIGNMENT: (10, 20)}


@pytest.mark.parametrize("name", BOUNDED)
def test_the_brokers_bounds(name: str) -> None:
    """A value outside is refused. One that a later start of the stub does not allow any more counts as its nearest bound."""
    low, high = BOUNDED[name]
    bounds = {f"group.consumer.{which}.{name.partition('.')[2]}": str(value) for which, value in (("min", low), ("max", high))}
    w = ConsumerWorld(config={**NO_BOUNDS, **bounds})
    codes = [configure(w, **{name.replace(".", "_"): str(value)}) for value in (low - 1, high + 1, low, high)]
    assert codes == [ErrorCode.INVALID_CONFIG] * 2 + [ErrorCode.NONE] * 2
    w.topic("t")
    for value, counts in ((low - 1, low), (high + 1, high)):
        w.cluster.dynamic_configs.change(ResourceType.GROUP, "g", {name: str(value)})
        timeouts = w.services.groups._timeouts(1, "g")
        assert counts in timeouts


def test_a_session_is_longer_than_a_heartbeat_interval() -> None:
    """Kafka refuses a group's config that would make it otherwise, also with the broker's for the other one."""
    w = world()
    assert configure(w, consumer_session_timeout_ms="5000") == ErrorCode.INVALID_CONFIG
    assert configure(w, consumer_session_timeout_ms="5001") == ErrorCode.NONE


def test_they_last(tmp_path: Path) -> None:
    """A stub that is started again with its data directory goes on with the configs of groups, and without deleted ones."""
    with BrokerStub(data_dir=tmp_path) as stub, Talker(stub) as talker:
        talker.ask(change(GROUP, "g", {HEARTBEAT: "6000", SESSION: "50000"}), 1)
        talker.ask(change(GROUP, "g", {SESSION: None}), 1)
        talker.ask(change(GROUP, "gone", {SESSION: "50000"}), 1)
        talker.ask(change(GROUP, "gone", {SESSION: None}), 1)
    with BrokerStub(data_dir=tmp_path) as stub, Talker(stub) as talker:
        assert dict(stub.cluster.dynamic_configs.of(ResourceType.GROUP, "g")) == {HEARTBEAT: "6000"}
        assert stub.cluster.dynamic_configs.names(ResourceType.GROUP) == ["g"]
        (result,) = talker.ask(describe(GROUP, "g", HEARTBEAT), 4).results  # type: ignore[attr-defined]  # RawConnection returns any message
        assert [(each.value, each.source) for each in result.configs[0].synonyms] == [("6000", 8), ("5000", 5)]
