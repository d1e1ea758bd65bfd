"""Reading and checking a producer's settings. Both `linger_ms` and Kafka's `linger.ms` are accepted.

Every error names the setting, the value and the limit. For an unknown name the error suggests a similar one. `Settings` is the struct
with all defaults.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, Final

import msgspec

from fencepost.producer.config.bootstrap_servers import check_protocols, read_dns_lookup, read_servers
from fencepost.producer.config.callables import read_callback, read_interceptors, read_partitioner, read_serializer
from fencepost.producer.config.compression import read_codec, settle_level
from fencepost.producer.config.limits import check_conflicts, check_ranges
from fencepost.producer.config.names import Written, setting_name, spelled
from fencepost.producer.config.security import SECURITY_READERS, check_security
from fencepost.producer.config.settings import MetadataRecovery, Settings
from fencepost.producer.config.tls_context import client_context
from fencepost.producer.errors import ConfigError

log = logging.getLogger("fencepost.producer")

WANTED: Final[dict[object, str]] = {
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    int | None: "a whole number, or None",
    str: "text (str)",
    str | None: "text (str), or None",
}
"""For each type of a setting that has no reader, what its value must be."""

ACKS: Final[dict[object, int]] = {"all": -1, "-1": -1, -1: -1, "0": 0, 0: 0, "1": 1, 1: 1}


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Settings from keyword arguments or a dictionary in either spelling. Raises ConfigError."""
    named: dict[str, Any] = {}
    written = Written()
    for name, key, value in spelled(given, setting_name):
        written[name] = key
        named[name] = READERS[name](key, value) if name in READERS else value
    if "bootstrap_servers" not in named:
        raise ConfigError("bootstrap_servers is missing: give at least one broker as 'host:port'")
    _soften(named)
    settings = settle_level(_fit(_typed(named, written), given=named), written)
    check_ranges(settings, written)
    check_conflicts(settings, written)
    check_protocols(settings)
    check_security(settings, given={name for name, value in named.items() if value is not None}, written=written)
    if settings.security_protocol.tls and settings.ssl_context is None:
        settings = msgspec.structs.replace(settings, ssl_context=client_context(settings))
    return settings


def _acks(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str) or value not in ACKS:
        raise ConfigError(f"{key}={value!r}: acks must be 0, 1 or 'all' (-1)")
    return ACKS[value]


def _recovery(key: str, value: object) -> MetadataRecovery:
    if isinstance(value, MetadataRecovery):
        return value
    named = {strategy.value: strategy for strategy in MetadataRecovery}
    if not isinstance(value, str) or value.lower() not in named:
        raise ConfigError(f"{key}={value!r}: it must be one of {', '.join(named)}")
    return named[value.lower()]


READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "acks": _acks,
    "compression_type": read_codec,
    "metadata_recovery_strategy": _recovery,
    "partitioner": read_partitioner,
    "interceptors": read_interceptors,
    "on_statistics": read_callback,
    "key_serializer": read_serializer,
    "value_serializer": read_serializer,
    "bootstrap_servers": read_servers,
    "client_dns_lookup": read_dns_lookup,
    **SECURITY_READERS,
}


def warn_of_softening(settings: Settings, given: Mapping[str, Any]) -> None:
    """Log which setting switched idempotence off, unless the caller set `enable_idempotence`."""
    if settings.enable_idempotence or any(setting_name(key) == "enable_idempotence" for key in given):
        return
    setting = f"acks={settings.acks}" if settings.acks != -1 else f"retries={settings.retries}"
    log.warning(
        "%s switches idempotence off: records may be lost, duplicated or out of order. Set enable_idempotence=False if you want that",
        setting,
    )


def _soften(named: dict[str, Any]) -> None:
    """Switch idempotence off for acks other than all and for retries=0, unless the caller set `enable_idempotence`. So does Java
    (`ProducerConfig.postProcessAndValidateIdempotenceConfigs`)."""
    if "enable_idempotence" not in named and (named.get("acks", -1) != -1 or named.get("retries", 1) == 0):
        named["enable_idempotence"] = False


def _typed(named: dict[str, Any], written: Written) -> Settings:
    """Convert with msgspec: a number may be given as "5"."""
    types = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    ready: dict[str, Any] = {}
    for name, value in named.items():
        try:
            ready[name] = value if name in READERS else msgspec.convert(_basic(value, types[name]), types[name], strict=False)
        except (msgspec.ValidationError, UnicodeEncodeError, OverflowError):
            raise ConfigError(f"{written[name]}={value!r:.300}: it must be {WANTED[types[name]]}") from None
    return Settings(**ready)


def _basic(value: object, kind: object) -> object:
    """A number or a text of another class, such as numpy's or a subclass, as Python's own, because msgspec takes no other."""
    if isinstance(value, bool):
        return value
    if kind is float and isinstance(value, Real):
        return float(value)
    if isinstance(value, Integral):
        return operator.index(value)
    return float(value) if isinstance(value, float) else str.__str__(value) if isinstance(value, str) else value


def _fit(settings: Settings, *, given: Mapping[str, Any]) -> Settings:
    """Adjust limits that the caller did not give to those that the caller gave."""
    floor = settings.linger_ms + settings.request_timeout_ms
    if "delivery_timeout_ms" not in given and settings.delivery_timeout_ms < floor:
        settings = msgspec.structs.replace(settings, delivery_timeout_ms=floor)
    if "max_request_size" not in given and settings.max_request_size > settings.buffer_memory:
        settings = msgspec.structs.replace(settings, max_request_size=settings.buffer_memory)
    return settings
