"""The options of a writer and of `format("fencepost")`: Spark's own names, and `kafka.*` as in Java's producer.

Names count in any case, because Spark passes a data source its options in lower case. An unknown name is refused with the name that was
probably meant. The writer reads its own options itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.errors import ConfigError
from fencepost.txn.spark.connection.kafka_options import KAFKA, read_kafka_options, unknown
from fencepost.txn.spark.connection.secrets import KafkaSettings, Provider

TOPIC: Final = "topic"
INCLUDE_HEADERS: Final = "includeHeaders"

NOT_OURS: Final = ("checkpointlocation", "queryname", "path")
"""Spark's own options, which it passes to a sink as well."""


class SinkOptions(Struct, frozen=True, kw_only=True):
    """`kafka`: the settings of the producers. `topic`: the topic of all rows, None if a column names it. `include_headers` concerns only
    the reader, as in Spark: headers are written whenever the column exists. `own`: the caller's own options, by the names that it gave."""

    kafka: KafkaSettings
    topic: str | None = None
    include_headers: bool = False
    own: dict[str, Any]


def read_options(given: Mapping[str, Any], *, own: Collection[str] = (), secrets: Provider | None = None) -> SinkOptions:
    """Read options in any case. `own`: the names of the caller's own options. `secrets`: as in `KafkaSettings`. It does not open files and
    stores; `kafka.resolve()` does. Raises ConfigError."""
    names = {name.lower(): name for name in (TOPIC, INCLUDE_HEADERS, *own)}
    kafka: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key.lower()
        if name.startswith(KAFKA):
            target, name = kafka, name.removeprefix(KAFKA)
        elif name in names:
            target, name = found, names[name]
        elif name in NOT_OURS:
            continue
        else:
            raise unknown(key, names.values())
        if name in target:
            raise ConfigError(f"option {key!r} is set twice, once in another case")
        target[name] = value
    kafka = read_kafka_options(kafka)
    if "bootstrap.servers" not in kafka and "bootstrap_servers" not in kafka:
        raise ConfigError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    topic = found.pop(TOPIC, None)
    return SinkOptions(
        kafka=KafkaSettings(kafka, secrets),
        topic=str(topic).strip() if topic is not None else None,
        include_headers=read_flag(INCLUDE_HEADERS, found.pop(INCLUDE_HEADERS, "false")),
        own=found,
    )


def read_flag(name: str, value: object) -> bool:
    """An option's truth value."""
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{name}={value!r}: true or false")
    return word == "true"
