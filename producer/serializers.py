"""Serializers convert keys and values to bytes.

    Producer(..., value_serializer="json")                      # msgspec; also "msgpack" and "string"
    Producer(..., value_serializer=lambda order: order.encode())
    Producer(..., value_serializer=AvroSerializer(...))         # confluent-kafka's are called with their SerializationContext

They run in `send` and `send_many`, on the caller's thread, before a record is accepted. The call raises what they raise, with a note
that names the setting, the topic and the row. None stays None, because it is a tombstone, not a value. An asyncio producer awaits what
asynchronous serializers return.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from fencepost.producer.accumulator.batch import Headers
from fencepost.producer.errors import ConfigError

Serialize = Callable[[str, Any, Headers | None], object]
"""It should return bytes or None. `send` checks that."""


def is_awaited(serializer: Any) -> bool:
    """Whether its calls return awaitables: it is an async function or object, or an asynchronous serializer of confluent-kafka."""
    function = serializer if callable(serializer) else getattr(serializer, "serialize", None)
    return (
        inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004
        or any(each.__name__ == "AsyncBaseSerializer" for each in type(serializer).__mro__)
    )


def awaited(settings: Any) -> list[str]:
    """The settings whose serializers are asynchronous, with these."""
    given = [(name, getattr(settings, name)) for name in ("key_serializer", "value_serializer")]
    return [f"{name}={serializer!r:.100}" for name, serializer in given if is_awaited(serializer)]


def refuse_awaited(settings: Any) -> None:
    """Raise ConfigError for a serializer that a blocking producer cannot await."""
    for each in awaited(settings):
        raise ConfigError(
            f"{each}: this serializer is asynchronous, and only AsyncProducer, AsyncTransactionalProducer and"
            " AsyncTransactionalPool await it"
        )


def bind(serializer: Any, field: str) -> Serialize | None:
    """The serializer as a function of topic, value and headers; None for bytes. `field` is "key" or "value"."""
    if serializer is None:
        return None
    if writes_headers(serializer):
        context = sys.modules["confluent_kafka.serialization"].SerializationContext
        return lambda topic, value, headers: serializer(value, context(topic, field, headers))
    if not callable(serializer):
        return lambda topic, value, headers: serializer.serialize(topic, value)
    return lambda topic, value, headers: serializer(value)


def writes_headers(serializer: Any) -> bool:
    """Whether it may add to the record's headers: confluent-kafka's with `schema.id.serializer` put the schema's id there."""
    serialization = sys.modules.get("confluent_kafka.serialization")
    return serialization is not None and isinstance(serializer, serialization.Serializer)


async def result_of(returned: object) -> object:
    """What a serializer returned, awaited if it has to be."""
    return await returned if inspect.isawaitable(returned) else returned


def taken_apart(row: object) -> tuple[object, object, Headers | None]:
    """Key, value and headers of a row of `send_many`. With serializers, a row that is no tuple of two to five is a value of any type."""
    if isinstance(row, tuple) and 2 <= len(row) <= 5:
        return row[0], row[1], row[2] if len(row) > 2 else None
    return None, row, None


def row_of(row: object, serialized: tuple[object, object], headers: Headers | None) -> tuple[object, ...]:
    """The row with its serialized key and value, and these headers."""
    rest = row[3:] if isinstance(row, tuple) and 2 <= len(row) <= 5 else ()
    return serialized if not rest and (headers is None or headers == []) else (*serialized, headers, *rest)
