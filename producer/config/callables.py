"""Settings that are the caller's own code: partitioner, serializers, interceptors, and the function for statistics.

These functions check the value alone. They never call the caller's code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fencepost.producer.config.settings import Partitioner
from fencepost.producer.errors import ConfigError


def text(value: object) -> bytes:
    """UTF-8 of a str."""
    if not isinstance(value, str):
        raise TypeError(f"the serializer 'string' takes a str, not {type(value).__name__}")
    return value.encode()


SERIALIZERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "json": msgspec.json.Encoder().encode,
    "msgpack": msgspec.msgpack.Encoder().encode,
    "string": text,
}

PARTITIONERS: Final[dict[str, Partitioner]] = {
    **{partitioner.value: partitioner for partitioner in Partitioner},
    "murmur2": Partitioner.DEFAULT,
    "murmur2_random": Partitioner.DEFAULT,
    "consistent_random": Partitioner.CRC32,
    "fnv1a_random": Partitioner.FNV1A,
}
"""Our names, and librdkafka's for the partitioners that do not hash a missing key."""


def read_partitioner(key: str, value: object) -> Partitioner | Callable[..., int | None]:
    """The setting. Raises ConfigError."""
    if isinstance(value, Partitioner):
        return value
    if isinstance(value, str) and value in PARTITIONERS:
        return PARTITIONERS[value]
    if callable(value) and not isinstance(value, type):
        return value
    raise ConfigError(
        f"{key}={value!r}: it must be one of {', '.join(PARTITIONERS)}, or a function (key, all partitions, available partitions)"
    )


def read_serializer(key: str, value: object) -> object:
    """The setting. Raises ConfigError."""
    if value is None or value == "bytes":
        return None
    if isinstance(value, str):
        if value not in SERIALIZERS:
            raise ConfigError(f"{key}={value!r}: it must be one of bytes, {', '.join(SERIALIZERS)}, or a function of the value")
        return SERIALIZERS[value]
    if not callable(value) and not hasattr(value, "serialize"):
        raise ConfigError(
            f"{key}={value!r} is not a serializer: give a name, a function of the value, or an object with serialize(topic, value)"
        )
    return value


def read_interceptors(key: str, value: object) -> tuple[object, ...]:
    """The setting. Raises ConfigError."""
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes) and not callable(value)
    given = tuple(value) if isinstance(value, Sequence) and several else (value,)
    for each in given:
        if isinstance(each, str | type) or not (callable(each) or hasattr(each, "on_send") or hasattr(each, "on_acknowledgement")):
            raise ConfigError(
                f"{key}: {each!r} is not an interceptor: give functions of the record, or objects with on_send(record) or "
                "on_acknowledgement(metadata, error), not names or classes"
            )
    return given


def read_callback(key: str, value: object) -> object:
    if value is not None and not callable(value):
        raise ConfigError(f"{key}={value!r}: it must be a function that takes a ProducerStats")
    return value
