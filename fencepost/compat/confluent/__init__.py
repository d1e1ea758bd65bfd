"""confluent-kafka's `Producer` with our producers underneath, for programs that use confluent-kafka today. One import changes:

    from fencepost.compat.confluent import Producer  # was: from confluent_kafka import Producer

`Producer`, `SerializingProducer` and `Message` are this package's. Every other name is confluent-kafka's own, so that `from
fencepost.compat.confluent import Consumer, KafkaException, Producer` works, too. docs/compat.md says what differs.
"""

from __future__ import annotations

from typing import Any

import confluent_kafka as _theirs

from fencepost.compat.confluent.message import Message as Message
from fencepost.compat.confluent.producer import Producer as Producer
from fencepost.compat.confluent.serializing_producer import SerializingProducer as SerializingProducer

__all__ = ["Message", "Producer", "SerializingProducer"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(_theirs, name)
    except AttributeError:
        raise AttributeError(f"neither {__name__!r} nor 'confluent_kafka' has {name!r}") from None
