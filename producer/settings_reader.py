"""Reading and checking a producer's settings: `linger_ms` and Kafka's `linger.ms` alike, conflicts refused with their reason.

Every error names the value, the limit and the setting. An unknown key suggests the one that was probably meant. The struct itself, with
all defaults, is `Settings`.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fencepost.producer.accumulator.named_partitioners import read_partitioner
from fencepost.producer.config.bootstrap_servers import check_protocols, read_dns_lookup, read_servers
from fencepost.producer.config.compression import NAMES, check_key, read_codec, settle_level
from fencepost.producer.config.security import ALIASES, SECURITY_READERS, check_security
from fencepost.producer.config.settings import MetadataRecovery, Settings
from fencepost.producer.errors import ConfigError, plain
from fencepost.producer.interceptors import read_interceptors
from fencepost.producer.network.tls import client_context
from fencepost.producer.serializers import read_serializer

log = logging.getLogger("fencepost.producer")

DOTTED: Final[dict[str, str]] = {
    "bootstrap.servers": "bootstrap_servers",
    "client.dns.lookup": "client_dns_lookup",
    "client.id": "client_id",
    "acks": "acks",
    "enable.idempotence": "enable_idempotence",
    "linger.ms": "linger_ms",
    "batch.size": "batch_size",
    "buffer.memory": "buffer_memory",
    "max.request.size": "max_request_size",
    "max.block.ms": "max_block_ms",
    **NAMES,
    "partitioner": "partitioner",
    "key.serializer": "key_serializer",
    "value.serializer": "value_serializer",
    "interceptor.classes": "interceptors",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "retries": "retries",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "request.timeout.ms": "request_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "metadata.max.idle.ms": "metadata_max_idle_ms",
    "metadata.recovery.strategy": "metadata_recovery_strategy",
    "metadata.recovery.rebootstrap.trigger.ms": "metadata_recovery_rebootstrap_trigger_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "allow.auto.create.topics": "allow_auto_create_topics",
    "statistics.interval.ms": "statistics_interval_ms",
    "on.statistics": "on_statistics",
    "resolve.grace.ms": "resolve_grace_ms",
    "exit.flush.ms": "exit_flush_ms",
    **ALIASES,
}
"""Kafka's names, and ours in the same style, for each setting; and what other clients call it where their users would look for that."""

ACKS: Final[dict[object, int]] = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}
BATCH_SIZE_MAX: Final = 1_048_576
"""A batch above the brokers' default max.message.bytes (1,048,588 with its overhead) would be refused."""

CLIENT_ID_BYTES_MAX: Final = 32_767

AT_LEAST: Final[dict[str, float]] = {
    "linger_ms": 0,
    "batch_size": 0,
    "buffer_memory": 1024,
    "max_request_size": 1024,
    "max_block_ms": 0,
    "max_in_flight": 1,
    "retries": 0,
    "retry_backoff_ms": 0,
    "retry_backoff_max_ms": 0,
    "request_timeout_ms": 1,
    "delivery_timeout_ms": 1,
    "metadata_max_age_ms": 1,
    "metadata_max_idle_ms": 5_000,
    "metadata_recovery_rebootstrap_trigger_ms": 0,
    "reconnect_backoff_ms": 0,
    "reconnect_backoff_max_ms": 0,
    "socket_connection_setup_timeout_ms": 1,
    "connections_max_idle_ms": 1,
    "statistics_interval_ms": 0,
    "resolve_grace_ms": 0,
    "exit_flush_ms": 0,
}
AT_MOST: Final[dict[str, float]] = {
    "batch_size": BATCH_SIZE_MAX,
    "buffer_memory": 1 << 60,
    "retries": 2_147_483_647,
    "request_timeout_ms": 2_147_483_647,
}


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Settings from keyword arguments or a dictionary in either spelling. Raises ConfigError."""
    named: dict[str, Any] = {}
    for name, key, value in spelled(given, _name):
        named[name] = READERS[name](key, value) if name in READERS else value
    if "bootstrap_servers" not in named:
        raise ConfigError("bootstrap_servers is missing: give at least one broker as 'host:port'")
    _soften(named)
    settings = settle_level(_fit(_typed(named), given=named))
    _check_ranges(settings)
    _check_conflicts(settings)
    check_protocols(settings)
    check_security(settings, given={name for name, value in named.items() if value is not None})
    if settings.security_protocol.tls and settings.ssl_context is None:
        settings = msgspec.structs.replace(settings, ssl_context=client_context(settings))
    return settings


def spelled(given: Mapping[str, Any], name_of: Callable[[str, Any], str]) -> Iterator[tuple[str, str, Any]]:
    """Each setting's own name, the key that it was given under, and its value. Raises ConfigError for one given in two spellings."""
    seen: set[str] = set()
    for key, value in given.items():
        if not isinstance(key, str):
            raise ConfigError(f"{key!r} is no name of a setting")
        name = name_of(key, value)
        if name in seen:
            raise ConfigError(f"{name} is set twice: {key!r} repeats it in another spelling")
        seen.add(name)
        yield name, key, value


def _name(key: str, value: object = None) -> str:
    check_key(key, value)
    for spelling in (key, key.replace("_", ".")):
        if spelling in DOTTED:
            return DOTTED[spelling]
    if key in Settings.__struct_fields__:
        return key
    candidates = [*DOTTED, *Settings.__struct_fields__]
    near = difflib.get_close_matches(key, candidates, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"unknown setting {key!r}{hint}")


def _acks(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str) or value not in ACKS:
        raise ConfigError(f"{key}={value!r}: acks is 0, 1 or 'all' (-1)")
    return ACKS[value]


def _recovery(key: str, value: object) -> MetadataRecovery:
    if isinstance(value, MetadataRecovery):
        return value
    named = {strategy.value: strategy for strategy in MetadataRecovery}
    if not isinstance(value, str) or value.lower() not in named:
        raise ConfigError(f"{key}={value!r}: it is one of {', '.join(named)}")
    return named[value.lower()]


def _callback(key: str, value: object) -> object:
    if value is not None and not callable(value):
        raise ConfigError(f"{key}={value!r}: a function of the statistics is wanted")
    return value


READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "acks": _acks,
    "compression_type": read_codec,
    "metadata_recovery_strategy": _recovery,
    "partitioner": read_partitioner,
    "interceptors": read_interceptors,
    "on_statistics": _callback,
    "key_serializer": read_serializer,
    "value_serializer": read_serializer,
    "bootstrap_servers": read_servers,
    "client_dns_lookup": read_dns_lookup,
    **SECURITY_READERS,
}


def warn_of_softening(settings: Settings, given: Mapping[str, Any]) -> None:
    """Say which setting has switched idempotence off, where nobody said that it should be."""
    if settings.enable_idempotence or any(_name(key) == "enable_idempotence" for key in given):
        return
    setting = f"acks={settings.acks}" if settings.acks != -1 else f"retries={settings.retries}"
    log.warning(
        "%s switches idempotence off: a record may be lost, doubled or out of order. enable_idempotence=False says that this is meant",
        setting,
    )


def _soften(named: dict[str, Any]) -> None:
    """As Java does: acks other than all switch idempotence off, unless it was asked for
    (`ProducerConfig.postProcessAndValidateIdempotenceConfigs`)."""
    if "enable_idempotence" not in named and (named.get("acks", -1) != -1 or named.get("retries", 1) == 0):
        named["enable_idempotence"] = False


def _typed(named: dict[str, Any]) -> Settings:
    """Convert with msgspec, so that "5" is a number where one is wanted and a wrong type is named."""
    types = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    ready: dict[str, Any] = {}
    for name, value in named.items():
        try:
            ready[name] = value if name in READERS else msgspec.convert(value, types[name], strict=False)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise ConfigError(f"{name}={value!r}: {error}") from None
    return Settings(**ready)


def _fit(settings: Settings, *, given: Mapping[str, Any]) -> Settings:
    """Limits that nobody chose make room for those that somebody did."""
    floor = settings.linger_ms + settings.request_timeout_ms
    if "delivery_timeout_ms" not in given and settings.delivery_timeout_ms < floor:
        settings = msgspec.structs.replace(settings, delivery_timeout_ms=floor)
    if "max_request_size" not in given and settings.max_request_size > settings.buffer_memory:
        settings = msgspec.structs.replace(settings, max_request_size=settings.buffer_memory)
    return settings


def _check_ranges(settings: Settings) -> None:
    for name, low in AT_LEAST.items():
        value = getattr(settings, name)
        high = AT_MOST.get(name, float("inf"))
        if not low <= value <= high:
            allowed = f"at least {plain(low)}" if high == float("inf") else f"between {plain(low)} and {plain(high)}"
            raise ConfigError(f"{name}={plain(value)} is out of range: it must be {allowed}")


def _check_conflicts(s: Settings) -> None:
    try:
        encoded = s.client_id.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"client_id={s.client_id!r} cannot be written as UTF-8: {error.reason}") from None
    if len(encoded) > CLIENT_ID_BYTES_MAX:
        raise ConfigError(f"client_id is {len(encoded)} bytes long: it must be at most {CLIENT_ID_BYTES_MAX}")
    if s.enable_idempotence:
        if s.acks != -1:
            raise ConfigError(
                f"enable_idempotence=True needs acks='all', not acks={s.acks}: "
                "a leader that fails before its replicas have a batch would lose it"
            )
        if s.max_in_flight > 5:
            raise ConfigError(
                f"enable_idempotence=True needs max_in_flight of at most 5, not {s.max_in_flight}: "
                "brokers remember five batches a partition"
            )
        if s.retries == 0:
            raise ConfigError("enable_idempotence=True needs retries above 0: a lost reply could never be resolved")
    if s.delivery_timeout_ms < s.linger_ms + s.request_timeout_ms:
        raise ConfigError(
            f"delivery_timeout_ms={plain(s.delivery_timeout_ms)} is less than linger_ms={plain(s.linger_ms)} "
            f"+ request_timeout_ms={plain(s.request_timeout_ms)}: "
            "not even one request would be waited for"
        )
    if (s.on_statistics is None) != (s.statistics_interval_ms == 0):
        missing = "on_statistics is missing" if s.on_statistics is None else "statistics_interval_ms is 0"
        raise ConfigError(f"{missing}: a function is called every statistics_interval_ms milliseconds where both are set")
    if s.max_request_size > s.buffer_memory:
        raise ConfigError(
            f"max_request_size={s.max_request_size} exceeds buffer_memory={s.buffer_memory}: such a record could never be accepted"
        )
    if s.retry_backoff_ms > s.retry_backoff_max_ms:
        raise ConfigError(f"retry_backoff_ms={plain(s.retry_backoff_ms)} exceeds retry_backoff_max_ms={plain(s.retry_backoff_max_ms)}")
    if s.reconnect_backoff_ms > s.reconnect_backoff_max_ms:
        raise ConfigError(
            f"reconnect_backoff_ms={plain(s.reconnect_backoff_ms)} exceeds reconnect_backoff_max_ms={plain(s.reconnect_backoff_max_ms)}"
        )
