"""What a delivered record knows about itself."""

from __future__ import annotations

from msgspec import Struct


class RecordMetadata(Struct, frozen=True, gc=False):
    """Where a record went. `offset` is -1 when the log holds the record but its offset is not known (acks=0, or a reply that never came).

    `timestamp`: milliseconds since the epoch, the record's own (CreateTime) or the broker's (LogAppendTime topics).
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
