"""What a delivered record knows about itself."""

from __future__ import annotations

from msgspec import Struct

from fencepost.producer.errors import DeliveryError


class Deliveries(Struct, frozen=True):
    """What became of the rows of one `send_many` or `send_arrow`.

    `acknowledged`: how many. `offsets`: for each partition the ranges of offsets that they have in the log, in order; rows of unknown
    offsets (acks=0) are in none. `failures`: for each failed row, counted from 0, its DeliveryError.
    """

    acknowledged: int
    offsets: dict[int, list[range]]
    failures: dict[int, DeliveryError]


class RecordMetadata(Struct, frozen=True, gc=False):
    """Where a record went. `offset` is -1 where no broker said it: with acks=0, and where an old one (Kafka 0.11) calls the record a
    duplicate (DUPLICATE_SEQUENCE_NUMBER).

    `timestamp`: milliseconds since the epoch, the record's own (CreateTime) or the broker's (LogAppendTime topics); -1 where it is the
    broker's and the record was acknowledged through a later one, after a restart.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
