"""`confluent_kafka.SerializingProducer` with our producer underneath: `produce` takes objects, and confluent-kafka's serializers make bytes
of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka.error import KeySerializationError, ValueSerializationError
from confluent_kafka.serialization import MessageField, SerializationContext

from fencepost.compat.confluent.message import Callback
from fencepost.compat.confluent.producer import Producer
from fencepost.compat.confluent.sending import CLOSED

BUILDERS = ("key.serializer.builder", "value.serializer.builder")


class SerializingProducer(Producer):
    """A `Producer` with `key.serializer` and `value.serializer`, callables of an object and a SerializationContext. The builders of newer
    releases are refused: build the serializer."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        rest = dict(conf)
        self._key_serializer = rest.pop("key.serializer", None)
        self._value_serializer = rest.pop("value.serializer", None)
        for name in BUILDERS:
            if rest.get(name) is not None:
                raise ValueError(f"{name} is not supported by fencepost.compat.confluent: give {name.removesuffix('.builder')}")
        super().__init__(rest)

    def produce(  # type: ignore[override]  # confluent-kafka has key before value here
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int | None = -1,
        on_delivery: Callback | None = None,
        timestamp: int | None = 0,
        headers: Any = None,
    ) -> None:
        """`Producer.produce` of objects. Raises KeySerializationError and ValueSerializationError."""
        if not self._open:
            raise RuntimeError(CLOSED)
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        context = SerializationContext(topic, MessageField.KEY, headers)
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(key, context)
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = MessageField.VALUE
        if self._value_serializer is not None:
            try:
                value = self._value_serializer(value, context)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(topic, value, key, partition, None, on_delivery, timestamp, headers)
