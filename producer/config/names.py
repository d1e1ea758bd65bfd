"""The names of the settings: Kafka's `linger.ms`, ours `linger_ms`, and the names of other clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.producer.config.compression import NAMES, check_key
from fencepost.producer.config.security import ALIASES
from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError

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
    "telemetry": "telemetry",
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
"""For each dotted name the setting: Kafka's names, ours in the same style, and names of other clients."""


class Written(dict[str, str]):
    """For each setting the name that the caller wrote, for errors; the setting's own name if the caller did not give it."""

    def __missing__(self, name: str) -> str:
        return name


def spelled(given: Mapping[str, Any], name_of: Callable[[str, Any], str]) -> list[tuple[str, str, Any]]:
    """For each setting its own name, the key that the caller used, and the value. Raises ConfigError for one given in two spellings, and
    one for all names that are unknown."""
    seen: set[str] = set()
    found: list[tuple[str, str, Any]] = []
    unknown: list[ConfigError] = []
    for key, value in given.items():
        if not isinstance(key, str):
            raise ConfigError(f"{key!r} is not the name of a setting: names are str")
        try:
            name = name_of(key, value)
        except ConfigError as error:
            unknown.append(error)
            continue
        if name in seen:
            raise ConfigError(f"{name} is set twice: {key!r} is another spelling of it; give only one")
        seen.add(name)
        found.append((name, key, value))
    if unknown:
        raise unknown[0] if len(unknown) == 1 else ConfigError("; ".join(map(str, unknown)))
    return found


def setting_name(key: str, value: object = None) -> str:
    check_key(key, value)
    for spelling in (key, key.replace("_", ".")):
        if spelling in DOTTED:
            return DOTTED[spelling]
    if key in Settings.__struct_fields__:
        return key
    import difflib  # imported, as the names of other clients, only for an unknown name

    from fencepost.producer.config.foreign_names import instead_of

    reason = instead_of(key.replace("_", "."), value)
    if reason is not None:
        raise ConfigError(f"unknown setting {key!r}: {reason}")
    candidates = [*DOTTED, *Settings.__struct_fields__]
    near = difflib.get_close_matches(key, candidates, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"unknown setting {key!r}{hint}")
