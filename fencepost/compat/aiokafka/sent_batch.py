"""The future of a batch that `AIOKafkaProducer.send_batch` sent."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fencepost.compat.aiokafka.delivery_future import Outcomes
from fencepost.compat.aiokafka.structs import RecordMetadata, TopicPartition
from fencepost.compat.aiokafka.translation import translated
from fencepost.producer.accumulator.record_metadata import Deliveries
from fencepost.producer.bulk.bulk import BulkFuture


def batch_outcome(bulk: BulkFuture, topic: str, partition: int, outcomes: Outcomes) -> asyncio.Future[RecordMetadata]:
    """A future with the metadata of the batch's first record. It gets the first failure if any record failed, and None for an empty batch
    or without acknowledgements."""
    future: asyncio.Future[RecordMetadata] = outcomes.loop.create_future()

    def take(settled: BulkFuture) -> None:
        if future.done():
            return  # It was cancelled. The producer reports failures.
        deliveries = settled.result(0)
        with suppress(RuntimeError):  # The loop is closed: there are no callbacks to call any more.
            if deliveries.failures:
                future.set_exception(translated(deliveries.failures[min(deliveries.failures)]))
            else:
                known = outcomes.acknowledged and deliveries.acknowledged
                future.set_result(_metadata(deliveries, topic, partition) if known else None)  # type: ignore[arg-type]  # see DeliveryFuture

    bulk.add_done_callback(take)
    return future


def _metadata(deliveries: Deliveries, topic: str, partition: int) -> RecordMetadata:
    """A batch has the time -1, as in aiokafka: its records have times of their own."""
    ranges = deliveries.offsets.get(partition)
    return RecordMetadata(topic, partition, TopicPartition(topic, partition), ranges[0].start if ranges else -1, -1, 0, None)
