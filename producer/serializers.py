"""Serializers convert keys and values to bytes.

    Producer(..., value_serializer="json")                      # msgspec; also "msgpack" and "string"
    Producer(..., value_serializer=lambda order: order.encode())
    Producer(..., value_serializer=AvroSerializer(...))         # confluent-kafka's are called with their SerializationContext

They run in `send` and `send_many`, on the caller's thread, before a record is accepted. The call raises what they raise, with a note
that names the setting, the topic and the row. None stays None, because it is a tombstone, not a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from fencepost.producer.accumulator.batch import Headers

Serialize = Callable[[str, Any, Headers | None], object]
"""It should return bytes or None. `send` checks that."""


def bind(serializer: Any, field: str) -> Serialize | None:
    """The serializer as a function of topic, value and headers; None for bytes. `field` is "key" or "value"."""
    if serializer is None:
        return None
    serialization = sys.modules.get("confluent_kafka.serialization")
    if serialization is not None and isinstance(serializer, serialization.Serializer):
        context = serialization.SerializationContext
        return lambda topic, value, headers: serializer(value, context(topic, field, headers))
    if not callable(serializer):
        return lambda topic, value, headers: serializer.serialize(topic, value)
    return lambda topic, value, headers: serializer(value)
