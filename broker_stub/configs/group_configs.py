"""The configs of single groups (KIP-848, KIP-932, KIP-1071): names, types, defaults, bounds, and Kafka's texts for invalid values.

A group without a config of its own has the broker's. Any name of a group may have configs, before the group exists and after. It knows no
group: coordinators read the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, BrokerConfig, InvalidConfig, InvalidRequest
from fencepost.broker_stub.configs.types import Type
from fencepost.broker_stub.configs.values import INT_MAX, Check, boolean, invalid, one_of, whole

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION_LEVEL: Final = "share.isolation.level"
LOCK_DURATION: Final = "share.record.lock.duration.ms"
READ_COMMITTED: Final = "read_committed"

_DURATION: Final = re.compile(r"by_duration:[Pp](?!$)(\d+[Dd])?([Tt](?!$)(\d+[Hh])?(\d+[Mm])?(\d+([.,]\d{0,9})?[Ss])?)?")
_UNITS_MS: Final = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1000}


class Bound(NamedTuple):
    """The broker config that bounds a group's config, and its default."""

    config: str
    default: int


class GroupConfig(NamedTuple):
    """One config. `broker`: the broker config of its default; None: Kafka's default."""

    kind: Type
    default: str
    check: Check
    broker: str | None = None
    lowest: Bound | None = None
    highest: Bound | None = None


def _reset(name: str, value: str) -> str | None:
    value = value.strip()
    if value in ("earliest", "latest") or _DURATION.fullmatch(value):
        return None
    form = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    return invalid(name, value, f"Invalid value `{value}` for configuration {name}. {form}")


def _number(least: int, default: int, broker: str, lowest: Bound | None = None, highest: Bound | None = None) -> GroupConfig:
    return GroupConfig(Type.INT, str(default), whole(least, INT_MAX), broker, lowest, highest)


GROUP_CONFIGS: Final[dict[str, GroupConfig]] = {
    HEARTBEAT_INTERVAL: _number(
        1,
        5000,
        "group.consumer.heartbeat.interval.ms",
        Bound("group.consumer.min.heartbeat.interval.ms", 5000),
        Bound("group.consumer.max.heartbeat.interval.ms", 15000),
    ),
    SESSION_TIMEOUT: _number(
        1,
        45000,
        "group.consumer.session.timeout.ms",
        Bound("group.consumer.min.session.timeout.ms", 45000),
        Bound("group.consumer.max.session.timeout.ms", 60000),
    ),
    ASSIGNMENT_INTERVAL: _number(
        0,
        1000,
        "group.consumer.assignment.interval.ms",
        Bound("group.consumer.min.assignment.interval.ms", 0),
        Bound("group.consumer.max.assignment.interval.ms", 15000),
    ),
    "share.heartbeat.interval.ms": _number(
        1,
        5000,
        "group.share.heartbeat.interval.ms",
        Bound("group.share.min.heartbeat.interval.ms", 5000),
        Bound("group.share.max.heartbeat.interval.ms", 15000),
    ),
    "share.session.timeout.ms": _number(
        1,
        45000,
        "group.share.session.timeout.ms",
        Bound("group.share.min.session.timeout.ms", 45000),
        Bound("group.share.max.session.timeout.ms", 60000),
    ),
    LOCK_DURATION: _number(
        1000,
        30000,
        "group.share.record.lock.duration.ms",
        Bound("group.share.min.record.lock.duration.ms", 15000),
        Bound("group.share.max.record.lock.duration.ms", 60000),
    ),
    "share.delivery.count.limit": _number(
        2,
        5,
        "group.share.delivery.count.limit",
        Bound("group.share.min.delivery.count.limit", 2),
        Bound("group.share.max.delivery.count.limit", 10),
    ),
    "share.partition.max.record.locks": _number(
        100,
        2000,
        "group.share.partition.max.record.locks",
        Bound("group.share.min.partition.max.record.locks", 100),
        Bound("group.share.max.partition.max.record.locks", 4000),
    ),
    "share.assignment.interval.ms": _number(
        0,
        1000,
        "group.share.assignment.interval.ms",
        Bound("group.share.min.assignment.interval.ms", 0),
        Bound("group.share.max.assignment.interval.ms", 15000),
    ),
    AUTO_OFFSET_RESET: GroupConfig(Type.STRING, "latest", _reset),
    ISOLATION_LEVEL: GroupConfig(Type.STRING, "read_uncommitted", one_of(READ_COMMITTED, "read_uncommitted")),
    "share.renew.acknowledge.enable": GroupConfig(Type.BOOLEAN, "true", boolean),
    "streams.heartbeat.interval.ms": _number(
        1,
        5000,
        "group.streams.heartbeat.interval.ms",
        Bound("group.streams.min.heartbeat.interval.ms", 5000),
        Bound("group.streams.max.heartbeat.interval.ms", 15000),
    ),
    "streams.session.timeout.ms": _number(
        1,
        45000,
        "group.streams.session.timeout.ms",
        Bound("group.streams.min.session.timeout.ms", 45000),
        Bound("group.streams.max.session.timeout.ms", 60000),
    ),
    "streams.num.standby.replicas": _number(
        0,
        0,
        "group.streams.num.standby.replicas",
        None,
        Bound("group.streams.max.standby.replicas", 2),
    ),
    "streams.initial.rebalance.delay.ms": _number(0, 3000, "group.streams.initial.rebalance.delay.ms"),
    "streams.assignment.interval.ms": _number(
        0,
        1000,
        "group.streams.assignment.interval.ms",
        Bound("group.streams.min.assignment.interval.ms", 0),
        Bound("group.streams.max.assignment.interval.ms", 15000),
    ),
}


def check_group_configs(group: str, values: Mapping[str, str], config: BrokerConfig) -> None:
    """Raises InvalidRequest or InvalidConfig, with Kafka's texts, if the group cannot have these configs."""
    if not group:
        raise InvalidRequest("Default group resources are not allowed.")
    for name in values:
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    for name, value in values.items():
        wrong = GROUP_CONFIGS[name].check(name, value)
        if wrong is not None:
            raise InvalidConfig(wrong)
    for name in GROUP_CONFIGS.keys() & values.keys():
        for wrong in _out_of_bounds(name, int(values[name]), config) if GROUP_CONFIGS[name].kind is Type.INT else ():
            raise InvalidConfig(wrong)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        given = session in values or heartbeat in values
        if given and int(value_of(session, values, config)) <= int(value_of(heartbeat, values, config)):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")


def value_of(name: str, values: Mapping[str, str], config: BrokerConfig, node_id: int | None = None) -> str:
    """The value in force in a group with these configs of its own, on that broker. As in Kafka, a value is at least its lower bound, and at
    most its upper one, also if a bound has changed since."""
    if name not in values:
        return default_of(name, config, node_id)
    value, defined = values[name].strip(), GROUP_CONFIGS[name]
    if defined.lowest is not None:
        value = str(max(int(value), _bound(defined.lowest, config)))
    if defined.highest is not None:
        value = str(min(int(value), _bound(defined.highest, config)))
    return value


def duration_ms(value: str) -> int | None:
    """The milliseconds of `by_duration:` with an ISO 8601 duration. None: the value is none."""
    if not _DURATION.fullmatch(value):
        return None
    parts = re.findall(r"([\d.,]+)([DHMS])", value.partition(":")[2], re.IGNORECASE)
    return int(sum(float(number.replace(",", ".")) * _UNITS_MS[unit.upper()] for number, unit in parts))


def default_of(name: str, config: BrokerConfig, node_id: int | None = None) -> str:
    """The value for a group without its own."""
    broker = GROUP_CONFIGS[name].broker
    if broker is None or broker not in BROKER_CONFIGS:
        return GROUP_CONFIGS[name].default
    return config[broker] if node_id is None else config.on(node_id, broker)


def _out_of_bounds(name: str, value: int, config: BrokerConfig) -> Iterator[str]:
    lowest, highest = GROUP_CONFIGS[name].lowest, GROUP_CONFIGS[name].highest
    if lowest is not None and value < _bound(lowest, config):
        yield f"{name} must be greater than or equal to {lowest.config}"
    if highest is not None and value > _bound(highest, config):
        yield f"{name} must be less than or equal to {highest.config}"


def _bound(bound: Bound, config: BrokerConfig) -> int:
    return int(config[bound.config]) if bound.config in BROKER_CONFIGS else bound.default
