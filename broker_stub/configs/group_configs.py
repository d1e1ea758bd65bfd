"""The configs of groups in Kafka 4.3: their types, checks, and the broker configs that their defaults come from.

Those of share groups can be set, and are obeyed. Those of the other types of group are only described.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, BrokerConfig, InvalidConfig
from fencepost.broker_stub.configs.types import Type
from fencepost.broker_stub.configs.values import INT_MAX, Check, anything, boolean, invalid, one_of, whole

READ_COMMITTED: Final = "read_committed"


class Bound(NamedTuple):
    """A broker config that limits a group config, and its value. The stub does not take it."""

    name: str
    value: int


class GroupDefinition(NamedTuple):
    """One group config. `broker`: the broker config of its default; None without one."""

    kind: Type
    check: Check
    broker: str | None = None
    default: str = ""
    low: Bound | None = None
    high: Bound | None = None


_DURATION = re.compile(r"P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?", re.IGNORECASE)
BY_DURATION: Final = "by_duration:"


def _offset_reset(name: str, value: str) -> str | None:
    fits = value in ("earliest", "latest") or duration_ms(value) is not None
    why = (
        "Invalid value `" + value + "` for configuration " + name + ". The value must be either 'earliest', 'latest', 'none'"
        " or of the format 'by_duration:<PnDTnHnMn.nS.>'."
    )
    return None if fits else invalid(name, value, why)


def duration_ms(value: str) -> int | None:
    """The milliseconds of `by_duration:` with an ISO 8601 duration. None: the value is none."""
    text = value.removeprefix(BY_DURATION)
    if text == value or not _DURATION.fullmatch(text):
        return None
    factors = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1000}
    return int(
        sum(float(number.replace(",", ".")) * factors[unit.upper()] for number, unit in re.findall(r"([\d.,]+)([DHMS])", text, re.I))
    )


def _bounds(name: str, low: int, high: int) -> tuple[Bound, Bound]:
    return Bound(f"group.share.min.{name}", low), Bound(f"group.share.max.{name}", high)


def _of_share(broker: str, least: int, low: int, high: int) -> GroupDefinition:
    return GroupDefinition(Type.INT, whole(least, INT_MAX), broker, "", *_bounds(broker.removeprefix("group.share."), low, high))


SHARE_CONFIGS: Final = {
    "share.assignment.interval.ms": _of_share("group.share.assignment.interval.ms", 0, 0, 15_000),
    "share.auto.offset.reset": GroupDefinition(Type.STRING, _offset_reset, default="latest"),
    "share.delivery.count.limit": _of_share("group.share.delivery.count.limit", 2, 2, 10),
    "share.heartbeat.interval.ms": _of_share("group.share.heartbeat.interval.ms", 1, 5_000, 15_000),
    "share.isolation.level": GroupDefinition(Type.STRING, one_of(READ_COMMITTED, "read_uncommitted"), default="read_uncommitted"),
    "share.partition.max.record.locks": _of_share("group.share.partition.max.record.locks", 100, 100, 4_000),
    "share.record.lock.duration.ms": _of_share("group.share.record.lock.duration.ms", 1_000, 15_000, 60_000),
    "share.renew.acknowledge.enable": GroupDefinition(Type.BOOLEAN, boolean, default="true"),
    "share.session.timeout.ms": _of_share("group.share.session.timeout.ms", 1, 45_000, 60_000),
}
"""Of share groups."""


def _only_told(broker: str, default: str = "") -> GroupDefinition:
    return GroupDefinition(Type.INT, anything(lambda value: True), broker, default)


OTHER_CONFIGS: Final = {
    "consumer.assignment.interval.ms": _only_told("group.consumer.assignment.interval.ms"),
    "consumer.heartbeat.interval.ms": _only_told("group.consumer.heartbeat.interval.ms"),
    "consumer.session.timeout.ms": _only_told("group.consumer.session.timeout.ms"),
    "streams.assignment.interval.ms": _only_told("group.streams.assignment.interval.ms", "1000"),
    "streams.heartbeat.interval.ms": _only_told("group.streams.heartbeat.interval.ms", "5000"),
    "streams.initial.rebalance.delay.ms": _only_told("group.streams.initial.rebalance.delay.ms", "3000"),
    "streams.num.standby.replicas": _only_told("group.streams.num.standby.replicas", "0"),
    "streams.session.timeout.ms": _only_told("group.streams.session.timeout.ms", "45000"),
}
"""Of other groups."""

GROUP_CONFIGS: Final = {**SHARE_CONFIGS, **OTHER_CONFIGS}


def check_group_configs(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Raises InvalidConfig with Kafka's reason. `config`: of the brokers."""
    for name in overrides:
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    for name, value in overrides.items():
        wrong = GROUP_CONFIGS[name].check(name, value)
        if wrong is not None:
            raise InvalidConfig(wrong)
    for name, definition in SHARE_CONFIGS.items():
        if name not in overrides:
            continue
        if definition.low is not None and int(overrides[name]) < definition.low.value:
            raise InvalidConfig(f"{name} must be greater than or equal to {definition.low.name}")
        if definition.high is not None and int(overrides[name]) > definition.high.value:
            raise InvalidConfig(f"{name} must be less than or equal to {definition.high.name}")
    session, heartbeat = "share.session.timeout.ms", "share.heartbeat.interval.ms"
    if not {session, heartbeat}.isdisjoint(overrides) and int(in_force(overrides, session, config)) <= int(
        in_force(overrides, heartbeat, config)
    ):
        raise InvalidConfig(f"{session} must be greater than {heartbeat}")


def in_force(overrides: Mapping[str, str], name: str, config: BrokerConfig) -> str:
    """The value of a group config: the group's own, the broker's, or Kafka's default."""
    if name in overrides:
        return overrides[name].strip()
    definition = GROUP_CONFIGS[name]
    return config[definition.broker] if definition.broker in BROKER_CONFIGS else definition.default
