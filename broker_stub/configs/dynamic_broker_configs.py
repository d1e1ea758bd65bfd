"""The broker configs that change while brokers run (KIP-226): names, types, defaults, and Kafka's texts for changes that it refuses.

As in Kafka, a name that no config has is taken and kept: it could belong to a plugin. Listeners, TLS and SASL of the stub do not change
while it runs, and it has no plugins for metrics: these changes are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fencepost.broker_stub.configs.static_broker_configs import STATIC
from fencepost.broker_stub.configs.topic_configs import (
    ALL_BROKERS,
    BROKER_CONFIGS,
    CORDONED,
    MIN_ISR,
    MOVE_LIMIT,
    TOPIC_CONFIGS,
    BrokerConfig,
    InvalidConfig,
    InvalidRequest,
)
from fencepost.broker_stub.configs.types import Type, type_of
from fencepost.broker_stub.configs.values import (
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    Check,
    any_words,
    boolean,
    decimal,
    limits_of_addresses,
    split,
    whole,
)

# Topic configs whose default comes from no broker config.
WITHOUT_BROKER: Final = frozenset(name for name in TOPIC_CONFIGS if name.startswith("remote.") or name.endswith(".throttled.replicas"))


class DynamicConfig(NamedTuple):
    """One config."""

    kind: Type
    default: str
    check: Check


_THREADS: Final = (
    *("background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers"),
    *("remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size"),
    *("remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads"),
)
AS_MUCH: Final = -2
ASSIGNMENT_INTERVAL_MS_MAX: Final = 15_000
_INTERVALS: Final = ("consumer", "share", "streams")
"""The types of groups whose assignments wait for each other."""
_long, _rate = whole(LONG_MIN, LONG_MAX), DynamicConfig(Type.LONG, str(LONG_MAX), whole(0, LONG_MAX))
_PLAIN: Final = {  # bounds that only topics have, or that the whole configuration is checked for
    "log.retention.ms": _long,
    "log.roll.ms": _long,
    "log.roll.jitter.ms": _long,
    "log.flush.interval.ms": _long,
}

DYNAMIC: Final[dict[str, DynamicConfig]] = {
    **{
        defined.broker: DynamicConfig(type_of(name), defined.default, _PLAIN.get(defined.broker, defined.check))
        for name, defined in TOPIC_CONFIGS.items()
        if name not in WITHOUT_BROKER
    },
    "background.threads": DynamicConfig(Type.INT, "10", whole(1, INT_MAX)),
    CORDONED: DynamicConfig(Type.LIST, "", any_words),
    "follower.fetch.last.tiered.offset.enable": DynamicConfig(Type.BOOLEAN, "false", boolean),
    "follower.replication.throttled.rate": _rate,
    "group.consumer.assignment.interval.ms": DynamicConfig(Type.INT, "0", whole(0, INT_MAX)),
    "group.coordinator.cached.buffer.max.bytes": DynamicConfig(Type.INT, "1048588", whole(512 * 1024, INT_MAX)),
    "group.share.assignment.interval.ms": DynamicConfig(Type.INT, "0", whole(0, INT_MAX)),
    "group.streams.assignment.interval.ms": DynamicConfig(Type.INT, "1000", whole(0, INT_MAX)),
    "leader.replication.throttled.rate": _rate,
    "log.cleaner.backoff.ms": DynamicConfig(Type.LONG, "15000", whole(0, LONG_MAX)),
    "log.cleaner.dedupe.buffer.size": DynamicConfig(Type.LONG, "134217728", _long),
    "log.cleaner.io.buffer.load.factor": DynamicConfig(Type.DOUBLE, "0.9", decimal),
    "log.cleaner.io.buffer.size": DynamicConfig(Type.INT, "524288", whole(0, INT_MAX)),
    "log.cleaner.io.max.bytes.per.second": DynamicConfig(Type.DOUBLE, "1.7976931348623157E308", decimal),
    "log.cleaner.threads": DynamicConfig(Type.INT, "1", whole(0, INT_MAX)),
    "max.connection.creation.rate": DynamicConfig(Type.INT, str(INT_MAX), whole(0, INT_MAX)),
    "max.connections": DynamicConfig(Type.INT, str(INT_MAX), whole(0, INT_MAX)),
    "max.connections.per.ip": DynamicConfig(Type.INT, str(INT_MAX), whole(0, INT_MAX)),
    "max.connections.per.ip.overrides": DynamicConfig(Type.STRING, "", limits_of_addresses),
    "num.io.threads": DynamicConfig(Type.INT, "8", whole(1, INT_MAX)),
    "num.network.threads": DynamicConfig(Type.INT, "3", whole(1, INT_MAX)),
    "num.recovery.threads.per.data.dir": DynamicConfig(Type.INT, "2", whole(1, INT_MAX)),
    "num.replica.fetchers": DynamicConfig(Type.INT, "1", whole(1, INT_MAX)),
    "producer.id.expiration.ms": DynamicConfig(Type.INT, "86400000", whole(1, INT_MAX)),
    "remote.fetch.max.wait.ms": DynamicConfig(Type.INT, "500", whole(1, INT_MAX)),
    "remote.list.offsets.request.timeout.ms": DynamicConfig(Type.LONG, "30000", whole(1, LONG_MAX)),
    "remote.log.index.file.cache.total.size.bytes": DynamicConfig(Type.LONG, "1073741824", whole(1, LONG_MAX)),
    "remote.log.manager.copier.thread.pool.size": DynamicConfig(Type.INT, "10", whole(1, INT_MAX)),
    "remote.log.manager.copy.max.bytes.per.second": DynamicConfig(Type.LONG, str(LONG_MAX), whole(1, LONG_MAX)),
    "remote.log.manager.expiration.thread.pool.size": DynamicConfig(Type.INT, "10", whole(1, INT_MAX)),
    "remote.log.manager.fetch.max.bytes.per.second": DynamicConfig(Type.LONG, str(LONG_MAX), whole(1, LONG_MAX)),
    "remote.log.manager.follower.thread.pool.size": DynamicConfig(Type.INT, "2", whole(1, INT_MAX)),
    "remote.log.reader.threads": DynamicConfig(Type.INT, "10", whole(1, INT_MAX)),
    MOVE_LIMIT: _rate,
    "share.coordinator.cached.buffer.max.bytes": DynamicConfig(Type.INT, "1048588", whole(512 * 1024, INT_MAX)),
    "transaction.partition.verification.enable": DynamicConfig(Type.BOOLEAN, "true", boolean),
}

DYNAMIC_ONLY: Final = frozenset(("follower.replication.throttled.rate", "leader.replication.throttled.rate", MOVE_LIMIT))
"""Limits that Kafka has no static config for, and so no default to describe."""

SECURITY: Final = frozenset(
    [
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.truststore.certificates",
    ]
)
"""Configs that Kafka changes for single listeners only."""

_FIXED: Final = re.compile(
    r"listener\.name\..*|listeners|listener\.security\.protocol\.map|(ssl|sasl)\..*|principal\.builder\.class|config\.providers.*"
)
_FIXED_TEXT: Final = "The stub's listeners, TLS, SASL and config providers do not change while it runs"
_REPORTERS: Final = "metric.reporters"
_ONE_BROKER: Final = re.compile(
    r"cordoned\.log\.dirs|listener\.name\..*\.(?!max\.connections$|max\.connection\.creation\.rate$|num\.network\.threads$).*"
)


def check_broker_configs(name: str, values: Mapping[str, str], config: BrokerConfig, node: str, log_dirs: Iterable[str]) -> None:
    """Raises InvalidRequest, with Kafka's texts, if the broker with that id, or all brokers, cannot have these dynamic configs. `node`: the
    id of the broker that is asked; `log_dirs`: its log directories."""
    _refuse([each for each in values if each in STATIC], "Cannot update these configs dynamically")
    _refuse(
        [each for each in values if each in SECURITY],
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    for each, value in values.items():
        defined = DYNAMIC.get(each)
        wrong = defined.check(each, value) if defined is not None else None
        if wrong is not None:
            raise InvalidRequest(wrong)
    if name == ALL_BROKERS:
        _refuse(
            [each for each in values if _ONE_BROKER.fullmatch(each)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    _refuse([each for each in values if _FIXED.fullmatch(each)], _FIXED_TEXT)
    # One broker's own values count before those of all.
    of_all, of_one = config.dynamic.get(ALL_BROKERS, {}), config.dynamic.get(node, {})
    in_force = {**values, **of_one} if name == ALL_BROKERS else {**of_all, **values}
    _check_together(in_force, {**of_all, **of_one}, config, [*log_dirs])


def check_at_controller(name: str, values: Mapping[str, str], changed: Iterable[str], *, has_eligible: bool) -> None:
    """The same for what the controller refuses, as InvalidConfig. `changed`: the names that are set, and those that are deleted.
    `has_eligible`: it keeps eligible leader replicas (KIP-966)."""
    for each in changed:
        if each == MIN_ISR and has_eligible and name != ALL_BROKERS:
            raise InvalidConfig(f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
        if each == MIN_ISR and has_eligible and each not in values:
            raise InvalidConfig(f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")


def kind_of(name: str) -> Type | None:
    """The type of a dynamic config. None: it is no config of Kafka."""
    return DYNAMIC[name].kind if name in DYNAMIC else None


def _check_together(values: Mapping[str, str], before: Mapping[str, str], config: BrokerConfig, log_dirs: list[str]) -> None:
    """What Kafka checks in the whole configuration (`validateValues`), and what its parts refuse to change. `before`: the dynamic configs
    that are in force now."""

    def number(name: str, dynamic: Mapping[str, str] = values) -> int:
        if name in dynamic:
            return int(dynamic[name])
        return int(config[name] if name in BROKER_CONFIGS else DYNAMIC[name].default)

    wrong = {
        "log.roll.ms must be greater than or equal to 1": int(values.get("log.roll.ms", 1)) < 1,
        "log.roll.jitter.ms must be greater than or equal to 0": int(values.get("log.roll.jitter.ms", 0)) < 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1": int(values.get("log.retention.ms", 1)) == 0,
    }
    for text, is_so in wrong.items():
        if is_so:
            raise InvalidRequest(f"requirement failed: {text}")
    if "log.cleaner.threads" in values or "log.cleaner.dedupe.buffer.size" in values:
        threads = number("log.cleaner.threads")
        if not threads:
            raise InvalidRequest("/ by zero")
        if number("log.cleaner.dedupe.buffer.size") // threads <= 1024 * 1024:
            raise InvalidRequest("requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    _check_log_dirs(split(values.get(CORDONED, "")), log_dirs)
    for of in _INTERVALS:
        interval, least, most = (f"group.{of}.{bound}assignment.interval.ms" for bound in ("", "min.", "max."))
        if interval in values and least in BROKER_CONFIGS and number(interval) < int(config[least]):
            raise InvalidRequest(f"{interval} must be greater than or equal to {least}")
        if interval in values and number(interval) > int(config[most] if most in BROKER_CONFIGS else ASSIGNMENT_INTERVAL_MS_MAX):
            raise InvalidRequest(f"{interval} must be less than or equal to {most}")
    for name in values.keys() & _THREADS:
        current, new = number(name, before), int(values[name])
        failed = f"Dynamic thread count update validation failed for {name}={new}"
        if new < current // 2:
            raise _invalid(f"{failed}, value should be at least half the current value {current}")
        if new > current * 2:
            raise _invalid(f"{failed}, value should not be greater than double the current value {current}")
    cleaners = int(values.get("log.cleaner.threads", 1))
    if cleaners > 2 * (current := number("log.cleaner.threads", before)):
        raise _invalid(f"Log cleaner threads cannot be increased to more than double the current value {current}")
    if cleaners < current // 2:
        raise _invalid(f"Log cleaner threads cannot be reduced to less than half the current value {current}")
    for limit in ("max.connections", "max.connection.creation.rate"):
        if int(values.get(limit, 1)) == 0:
            raise _invalid(f"Invalid {limit} 0")
    for of in ("ms", "bytes"):
        _check_local_retention(f"log.local.retention.{of}", number(f"log.local.retention.{of}"), f"log.retention.{of}", values, config)
    if _REPORTERS in values:
        reason = f"Validation of dynamic config update of Set({_REPORTERS}) failed with class class kafka.server.DynamicMetricsReporters"
        raise _invalid(reason)


def _check_local_retention(name: str, local: int, whole_name: str, values: Mapping[str, str], config: BrokerConfig) -> None:
    """What is kept on the broker's own disks, and all that is kept. -2: as much."""
    kept = int(values.get(whole_name, config.of_topic({})[whole_name.removeprefix("log.")]))
    if kept < 0 or local == AS_MUCH:
        return
    failed = f"Invalid value {local} for configuration {name}: Value must not be "
    if local == -1:
        raise _invalid(f"{failed}-1 as {whole_name} value is set as {kept}.")
    if local > kept:
        raise _invalid(f"{failed}more than {whole_name} property value: {kept}")


def _check_log_dirs(cordoned: list[str], log_dirs: list[str]) -> None:
    if "*" in cordoned and len(cordoned) > 1:
        raise InvalidRequest("requirement failed: When cordoned.log.dirs is set to *, it must not contain other values")
    missing = [] if "*" in cordoned else [each for each in cordoned if each not in log_dirs]
    if missing:
        what = "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
        raise InvalidRequest(what + ", ".join(missing))


def _invalid(reason: str) -> InvalidRequest:
    """As Kafka's ConfigException words it, which takes the reason for a value."""
    cause = f"org.apache.kafka.common.config.ConfigException: {reason}"
    return InvalidRequest(f"Invalid value {cause} for configuration Invalid dynamic configuration")


def _refuse(names: list[str], why: str) -> None:
    if names:
        raise InvalidRequest(f"{why}: [{', '.join(names)}]")
