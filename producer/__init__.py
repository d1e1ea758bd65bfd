"""An idempotent Kafka producer that speaks the wire protocol itself.

`Producer` and what it raises are exported here. They are loaded when first asked for, so that `producer.wire` can be used without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from producer._hot import verify as _verify

if TYPE_CHECKING:
    from producer.aio import AsyncProducer as AsyncProducer
    from producer.core.batch import RecordFuture as RecordFuture
    from producer.core.bulk import BulkFuture as BulkFuture
    from producer.core.errors import AuthenticationFailed as AuthenticationFailed
    from producer.core.errors import BufferFull as BufferFull
    from producer.core.errors import ConfigError as ConfigError
    from producer.core.errors import DeliveryError as DeliveryError
    from producer.core.errors import DeliveryFatal as DeliveryFatal
    from producer.core.errors import DeliveryTimeout as DeliveryTimeout
    from producer.core.errors import DeliveryUnknown as DeliveryUnknown
    from producer.core.errors import Fatal as Fatal
    from producer.core.errors import Fenced as Fenced
    from producer.core.errors import FencepostError as FencepostError
    from producer.core.errors import Misuse as Misuse
    from producer.core.errors import NoUsableBroker as NoUsableBroker
    from producer.core.errors import Persisted as Persisted
    from producer.core.errors import ProducerClosed as ProducerClosed
    from producer.core.errors import ProducerForked as ProducerForked
    from producer.core.errors import RecordRefused as RecordRefused
    from producer.core.errors import RecordTooLarge as RecordTooLarge
    from producer.core.errors import Retriable as Retriable
    from producer.core.errors import TopicUnavailable as TopicUnavailable
    from producer.core.errors import UndeliveredRecords as UndeliveredRecords
    from producer.core.record import Deliveries as Deliveries
    from producer.core.record import RecordMetadata as RecordMetadata
    from producer.core.settings import Partitioner as Partitioner
    from producer.core.settings import SaslMechanism as SaslMechanism
    from producer.core.settings import SecurityProtocol as SecurityProtocol
    from producer.core.settings import Settings as Settings
    from producer.interceptors import ProducerRecord as ProducerRecord
    from producer.producer import Producer as Producer
    from producer.prometheus import prometheus_text as prometheus_text
    from producer.stats import BrokerStats as BrokerStats
    from producer.stats import ProducerStats as ProducerStats
    from producer.stats import TopicStats as TopicStats

_verify()

_HOMES = {
    "producer.aio": ("AsyncProducer",),
    "producer.core.batch": ("RecordFuture",),
    "producer.core.bulk": ("BulkFuture",),
    "producer.core.errors": (
        "AuthenticationFailed",
        "BufferFull",
        "ConfigError",
        "DeliveryError",
        "DeliveryFatal",
        "DeliveryTimeout",
        "DeliveryUnknown",
        "Fatal",
        "Fenced",
        "FencepostError",
        "Misuse",
        "NoUsableBroker",
        "Persisted",
        "ProducerClosed",
        "ProducerForked",
        "RecordRefused",
        "RecordTooLarge",
        "Retriable",
        "TopicUnavailable",
        "UndeliveredRecords",
    ),
    "producer.core.record": ("Deliveries", "RecordMetadata"),
    "producer.core.settings": (
        "Partitioner",
        "SaslMechanism",
        "SecurityProtocol",
        "Settings",
    ),
    "producer.interceptors": ("ProducerRecord",),
    "producer.producer": ("Producer",),
    "producer.prometheus": ("prometheus_text",),
    "producer.stats": ("BrokerStats", "ProducerStats", "TopicStats"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncProducer",
    "AuthenticationFailed",
    "BrokerStats",
    "BufferFull",
    "BulkFuture",
    "ConfigError",
    "Deliveries",
    "DeliveryError",
    "DeliveryFatal",
    "DeliveryTimeout",
    "DeliveryUnknown",
    "Fatal",
    "Fenced",
    "FencepostError",
    "Misuse",
    "NoUsableBroker",
    "Partitioner",
    "Persisted",
    "Producer",
    "ProducerClosed",
    "ProducerForked",
    "ProducerRecord",
    "ProducerStats",
    "RecordFuture",
    "RecordMetadata",
    "RecordRefused",
    "RecordTooLarge",
    "Retriable",
    "SaslMechanism",
    "SecurityProtocol",
    "Settings",
    "TopicStats",
    "TopicUnavailable",
    "UndeliveredRecords",
    "prometheus_text",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(home), name)
    except AttributeError as error:  # Of which Python would say no more than that the name cannot be imported.
        raise ImportError(f"{home}: {error}") from error


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
