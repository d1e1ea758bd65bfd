"""The configs of client metrics subscriptions (KIP-714): names, types, defaults, and Kafka's texts for invalid values.

A subscription is a resource with a name. It exists while it has a config. It knows no client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.broker_stub.configs.topic_configs import InvalidConfig, InvalidRequest
from fencepost.broker_stub.configs.types import Type
from fencepost.broker_stub.configs.values import INT_MAX, Check, any_words, split, whole

METRICS: Final = "metrics"
INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
INTERVAL_MS_DEFAULT: Final = 300_000
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a client can be matched by."""


class ClientMetricsConfig(NamedTuple):
    """One config."""

    kind: Type
    default: str
    check: Check


CLIENT_METRICS_CONFIGS: Final[dict[str, ClientMetricsConfig]] = {
    METRICS: ClientMetricsConfig(Type.LIST, "", any_words),
    INTERVAL: ClientMetricsConfig(Type.INT, str(INTERVAL_MS_DEFAULT), whole(-INT_MAX - 1, INT_MAX)),
    MATCH: ClientMetricsConfig(Type.LIST, "", any_words),
}


def check_client_metrics_configs(name: str, values: Mapping[str, str]) -> None:
    """Raises InvalidRequest or InvalidConfig, with Kafka's texts, if the subscription of that name cannot have these configs."""
    if not name:
        raise InvalidRequest("Subscription name can't be empty")
    for config in values:
        if config not in CLIENT_METRICS_CONFIGS:
            raise InvalidRequest(f"Unknown client metrics configuration: {config}")
    for config, value in values.items():
        wrong = CLIENT_METRICS_CONFIGS[config].check(config, value)
        if wrong is not None:
            raise InvalidConfig(wrong)
    if INTERVAL in values and not INTERVAL_MS_MIN <= int(values[INTERVAL]) <= INTERVAL_MS_MAX:
        raise InvalidRequest(f"Invalid value {int(values[INTERVAL])} for {INTERVAL}, interval must be between 100 and 3600000 (1 hour)")
    patterns(values)


def patterns(values: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    """What the clients of a subscription must match. Raises InvalidConfig."""
    found: dict[str, re.Pattern[str]] = {}
    for pattern in split(values.get(MATCH, "")):
        parts = pattern.rstrip("=").split("=")  # as Java splits: empty parts at the end do not count
        selector = parts[0].strip()
        if len(parts) != 2 or selector not in SELECTORS:
            raise InvalidConfig(f"Illegal client matching pattern: {pattern}")
        try:
            found[selector] = re.compile(parts[1].strip())
        except (re.error, OverflowError, RecursionError):
            raise InvalidConfig(f"Illegal client matching pattern: {pattern}") from None
    return found
