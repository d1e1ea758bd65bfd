"""The errors of reading the log, besides `txn.errors.NotPermitted` for what brokers refuse.

Each can be pickled: its arguments contain all that it says.
"""

from __future__ import annotations

from fencepost.producer.errors import Fatal, FencepostError, Retriable


class PartitionGone(FencepostError, LookupError):
    """The brokers do not know the topic or partition."""


class OffsetsGone(FencepostError, LookupError):
    """The offset is not in the log: the log begins later, or ends earlier than before."""

    def __init__(self, topic: str, partition: int, offset: int, earliest: int, latest: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.earliest = earliest
        self.latest = latest
        super().__init__(topic, partition, offset, earliest, latest)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: offset {self.offset} is not in the log, which goes from {self.earliest} to {self.latest}"


class ReadTimeout(Retriable, TimeoutError):
    """There was no usable answer in time; the same call may be made again."""


class Unreadable(Fatal):
    """A batch is damaged, or in a format from before Kafka 0.11. Reading it again cannot help."""
