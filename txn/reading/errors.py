"""What a reader of the log can be told, beside `txn.errors.NotPermitted` for what brokers refuse.

Each travels between processes: what it says is in its arguments.
"""

from __future__ import annotations

from fencepost.producer.errors import Fatal, FencepostError, Retriable


class PartitionGone(FencepostError, LookupError):
    """The brokers know no such topic or partition (any more)."""


class OffsetsGone(FencepostError, LookupError):
    """The log does not hold this offset (any more): it begins later, or ends earlier than it once did."""

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
    """Nothing usable came in time; the same call may be made again."""


class Unreadable(Fatal):
    """A batch is damaged, or in a format from before Kafka 0.11: reading it again comes to the same end."""
