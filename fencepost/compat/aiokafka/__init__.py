"""aiokafka's producer, over fencepost's. Instead of `from aiokafka import AIOKafkaProducer`, write

    from fencepost.compat.aiokafka import AIOKafkaProducer

aiokafka need not be installed. Where it is, the errors, `RecordMetadata` and `TopicPartition` are aiokafka's own classes, so `except`
clauses and type checks stay as they are. Consumers and administrators stay aiokafka's. docs/compat.md lists every difference.
"""

from fencepost.compat.aiokafka.batch_builder import AppendedRecord, BatchBuilder
from fencepost.compat.aiokafka.delivery_future import DeliveryFuture
from fencepost.compat.aiokafka.producer import AIOKafkaProducer
from fencepost.compat.aiokafka.structs import OffsetAndMetadata, RecordMetadata, TopicPartition
from fencepost.compat.aiokafka.transaction_context import TransactionContext

__all__ = [
    "AIOKafkaProducer",
    "AppendedRecord",
    "BatchBuilder",
    "DeliveryFuture",
    "OffsetAndMetadata",
    "RecordMetadata",
    "TopicPartition",
    "TransactionContext",
]
