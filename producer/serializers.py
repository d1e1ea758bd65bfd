"""Serializers: how keys and values that are not bytes become bytes.

    Producer(..., value_serializer="json")                      # msgspec; also "msgpack" and "string"
    Producer(..., value_serializer=lambda order: order.encode())
    Producer(..., value_serializer=AvroSerializer(...))         # confluent-kafka's are called with their SerializationContext

They run in `send` and `send_many`, on the caller's thread, before anything is accepted; what they raise comes out of the call. None stays
None: it is a tombstone, not a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from fencepost.producer.accumulator.batch import Headers
from fencepost.producer.errors import ConfigError

Serialize = Callable[[str, Any, Headers | None], object]
"""What it returns should be bytes or None; `send` looks, and says so."""


def text(value: object) -> bytes:
    """UTF-8 of a str."""
    if not isinstance(value, str):
        raise TypeError(f"the serializer 'string' takes a str, not {type(value).__name__}")
    return value.encode()


NAMED: dict[str, Callable[[Any], bytes]] = {
    "json": msgspec.json.Encoder().encode,
    "msgpack": msgspec.msgpack.Encoder().encode,
    "string": text,
}


def read_serializer(key: str, value: object) -> object:
    """The setting. Raises ConfigError."""
    if value is None or value == "bytes":
        return None
    if isinstance(value, str):
        if value not in NAMED:
            raise ConfigError(f"{key}={value!r}: the serializers are bytes, {', '.join(NAMED)}, or a function of the value")
        return NAMED[value]
    if not callable(value) and not hasattr(value, "serialize"):
        raise ConfigError(
            f"{key}={value!r} is no serializer: give a name, a function of the value, or an object with serialize(topic, value)"
        )
    return value


def bind(serializer: Any, field: str) -> Serialize | None:
    """One way to call them all; None for bytes. `field` is "key" or "value"."""
    if serializer is None:
        return None
    serialization = sys.modules.get("confluent_kafka.serialization")
    if serialization is not None and isinstance(serializer, serialization.Serializer):
        context = serialization.SerializationContext
        return lambda topic, value, headers: serializer(value, context(topic, field, headers))
    if not callable(serializer):
        return lambda topic, value, headers: serializer.serialize(topic, value)
    return lambda topic, value, headers: serializer(value)
