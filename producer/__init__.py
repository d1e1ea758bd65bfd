"""An idempotent Kafka producer that speaks the wire protocol itself.

It exports `Producer`, `AsyncProducer` and their errors. Each name is loaded on first use, so `producer.wire` can be used alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.producer._hot import verify as _verify
from fencepost.producer.foundations.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from fencepost.producer.accumulator.batch import RecordFuture as RecordFuture
    from fencepost.producer.accumulator.record_metadata import Deliveries as Deliveries
    from fencepost.producer.accumulator.record_metadata import RecordMetadata as RecordMetadata
    from fencepost.producer.async_producer import AsyncProducer as AsyncProducer
    from fencepost.producer.bulk.bulk import BulkFuture as BulkFuture
    from fencepost.producer.config.settings import Partitioner as Partitioner
    from fencepost.producer.config.settings import SaslMechanism as SaslMechanism
    from fencepost.producer.config.settings import SecurityProtocol as SecurityProtocol
    from fencepost.producer.config.settings import Settings as Settings
    from fencepost.producer.errors import AuthenticationFailed as AuthenticationFailed
    from fencepost.producer.errors import BufferFull as BufferFull
    from fencepost.producer.errors import ConfigError as ConfigError
    from fencepost.producer.errors import DeliveryError as DeliveryError
    from fencepost.producer.errors import DeliveryFatal as DeliveryFatal
    from fencepost.producer.errors import DeliveryTimeout as DeliveryTimeout
    from fencepost.producer.errors import DeliveryUnknown as DeliveryUnknown
    from fencepost.producer.errors import Fatal as Fatal
    from fencepost.producer.errors import Fenced as Fenced
    from fencepost.producer.errors import FencepostError as FencepostError
    from fencepost.producer.errors import Misuse as Misuse
    from fencepost.producer.errors import NoUsableBroker as NoUsableBroker
    from fencepost.producer.errors import Persisted as Persisted
    from fencepost.producer.errors import ProducerClosed as ProducerClosed
    from fencepost.producer.errors import ProducerForked as ProducerForked
    from fencepost.producer.errors import RecordRefused as RecordRefused
    from fencepost.producer.errors import RecordTooLarge as RecordTooLarge
    from fencepost.producer.errors import Retriable as Retriable
    from fencepost.producer.errors import TopicUnavailable as TopicUnavailable
    from fencepost.producer.errors import UndeliveredRecords as UndeliveredRecords
    from fencepost.producer.errors import UnknownPartition as UnknownPartition
    from fencepost.producer.interceptors import ProducerRecord as ProducerRecord
    from fencepost.producer.observe.prometheus import prometheus_text as prometheus_text
    from fencepost.producer.observe.stats import BrokerStats as BrokerStats
    from fencepost.producer.observe.stats import ProducerStats as ProducerStats
    from fencepost.producer.observe.stats import TopicStats as TopicStats
    from fencepost.producer.producer import Producer as Producer

_verify()

_HOMES = {
    "fencepost.producer.async_producer": ("AsyncProducer",),
    "fencepost.producer.accumulator.batch": ("RecordFuture",),
    "fencepost.producer.bulk.bulk": ("BulkFuture",),
    "fencepost.producer.errors": (
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
        "UnknownPartition",
    ),
    "fencepost.producer.accumulator.record_metadata": ("Deliveries", "RecordMetadata"),
    "fencepost.producer.config.settings": (
        "Partitioner",
        "SaslMechanism",
        "SecurityProtocol",
        "Settings",
    ),
    "fencepost.producer.interceptors": ("ProducerRecord",),
    "fencepost.producer.producer": ("Producer",),
    "fencepost.producer.observe.prometheus": ("prometheus_text",),
    "fencepost.producer.observe.stats": ("BrokerStats", "ProducerStats", "TopicStats"),
}
__all__ = [name for names in _HOMES.values() for name in names]

__getattr__, __dir__ = _lazy_names(globals(), _HOMES)
