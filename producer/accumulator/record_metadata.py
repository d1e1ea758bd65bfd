"""The outcome of delivered records: where they are in the log."""

from __future__ import annotations

from msgspec import Struct

from fencepost.producer.errors import DeliveryError


class Deliveries(Struct, frozen=True):
    """The outcome of the rows of one `send_many` or `send_arrow`.

    `acknowledged`: the number of acknowledged rows. `offsets`: for each partition the ranges of their offsets in the log, in order. Rows
    whose offsets are unknown (acks=0) are in no range. `failures`: for each failed row, counted from 0, its DeliveryError.
    """

    acknowledged: int
    offsets: dict[int, list[range]]
    failures: dict[int, DeliveryError]


class RecordMetadata(Struct, frozen=True, gc=False):
    """Where a record is in the log. `offset` is -1 if no broker told it: with acks=0, and if an old broker (Kafka 0.11) answers
    DUPLICATE_SEQUENCE_NUMBER.

    `timestamp`: milliseconds since 1970, the record's own (CreateTime) or the broker's (LogAppendTime). It is -1 if it is the broker's and
    the record was acknowledged through a later one, after a restart.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
