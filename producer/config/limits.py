"""The range of each setting, and the settings that contradict each other.

Every error names the setting, its value and the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError, plain

BATCH_SIZE_MAX: Final = 1_048_576
"""With its overhead, such a batch is just below the brokers' default max.message.bytes (1,048,588)."""

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
UNLIMITED: Final = ("delivery_timeout_ms", "connections_max_idle_ms")
"""Settings that other clients switch off with 0 or -1."""


def check_ranges(settings: Settings, written: Mapping[str, str]) -> None:
    """Refuse a value outside its range. `written`: the names that the caller used."""
    for name, low in AT_LEAST.items():
        value = getattr(settings, name)
        high = AT_MOST.get(name, float("inf"))
        if not low <= value <= high:
            allowed = f"at least {plain(low)}" if high == float("inf") else f"between {plain(low)} and {plain(high)}"
            no_limit = ", or float('inf') for no limit" if name in UNLIMITED else ""
            raise ConfigError(f"{written[name]}={plain(value)} is out of range: it must be {allowed}{no_limit}")


def check_conflicts(s: Settings, written: Mapping[str, str]) -> None:
    """Refuse settings that contradict each other."""
    w = written
    try:
        encoded = s.client_id.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{w['client_id']}={s.client_id!r} cannot be encoded as UTF-8: {error.reason}") from None
    if len(encoded) > CLIENT_ID_BYTES_MAX:
        raise ConfigError(f"{w['client_id']} is {len(encoded)} bytes long: it must be at most {CLIENT_ID_BYTES_MAX}")
    if s.enable_idempotence:
        if s.acks != -1:
            raise ConfigError(
                f"{w['enable_idempotence']}=True needs {w['acks']}='all', not {w['acks']}={s.acks}: "
                "otherwise a batch is lost if its leader fails before a replica has it"
            )
        if s.max_in_flight > 5:
            raise ConfigError(
                f"{w['enable_idempotence']}=True needs {w['max_in_flight']} of at most 5, not {s.max_in_flight}: "
                "brokers remember the last five batches of each producer and partition"
            )
        if s.retries == 0:
            needs = f"{w['enable_idempotence']}=True needs {w['retries']} above 0, not 0"
            raise ConfigError(f"{needs}: the producer resends a batch if its reply is lost")
    if s.delivery_timeout_ms < s.linger_ms + s.request_timeout_ms:
        raise ConfigError(
            f"{w['delivery_timeout_ms']}={plain(s.delivery_timeout_ms)} is less than {w['linger_ms']}={plain(s.linger_ms)} "
            f"+ {w['request_timeout_ms']}={plain(s.request_timeout_ms)}: "
            "a record needs the time of at least one request"
        )
    if (s.on_statistics is None) != (s.statistics_interval_ms == 0):
        called, every = w["on_statistics"], w["statistics_interval_ms"]
        missing = f"{called} is missing" if s.on_statistics is None else f"{every} is 0"
        raise ConfigError(f"{missing}: set both ({called} is called every {every} milliseconds), or neither")
    if s.max_request_size > s.buffer_memory:
        raise ConfigError(
            f"{w['max_request_size']}={s.max_request_size} exceeds {w['buffer_memory']}={s.buffer_memory}: "
            "a record of that size never fits the buffer"
        )
    if s.retry_backoff_ms > s.retry_backoff_max_ms:
        raise ConfigError(
            f"{w['retry_backoff_ms']}={plain(s.retry_backoff_ms)} exceeds {w['retry_backoff_max_ms']}={plain(s.retry_backoff_max_ms)}"
        )
    if s.reconnect_backoff_ms > s.reconnect_backoff_max_ms:
        raise ConfigError(
            f"{w['reconnect_backoff_ms']}={plain(s.reconnect_backoff_ms)} exceeds "
            f"{w['reconnect_backoff_max_ms']}={plain(s.reconnect_backoff_max_ms)}"
        )
