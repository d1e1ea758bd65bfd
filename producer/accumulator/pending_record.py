"""A record that was checked but is not in a batch yet. It waits for metadata, for room in the buffer, or for the caller's partitioner.

It does not wait itself: the producers do. A record that finds its topic and room at once never becomes one.

Compiled by mypyc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import OnDelivery, RecordFuture


@final
class PendingRecord:
    """See the module. `partition`: -1 lets the partitioner choose. `timestamp`: milliseconds since 1970, -1 for the time of the first
    append. `headers` are packed. `on_refusal` is called with the error if the record is not accepted."""

    def __init__(
        self,
        topic: str,
        partition: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        on_delivery: OnDelivery | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.on_delivery = on_delivery
        self.on_refusal: Callable[[BaseException], object] | None = None

    def append_to(self, accumulator: Accumulator, topic: TopicQueues) -> RecordFuture | None:
        """Append the record; None if the budget has no room for it."""
        return accumulator.append(topic, self.partition, self.timestamp, self.key, self.value, self.headers, self.on_delivery)

    def refused(self, error: BaseException) -> None:
        """The record was not accepted."""
        if self.on_refusal is not None:
            self.on_refusal(error)
