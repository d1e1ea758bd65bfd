"""The results of a partition log.

Plain values, with Kafka's -1 for missing ones. Handlers turn them into responses.
"""

from __future__ import annotations

from msgspec import Struct

from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.producer.wire.records import BatchHeader

Batch = tuple[BatchHeader, bytes]


class AppendResult(Struct, frozen=True):
    """The offsets of the records. A duplicate has the first append's offsets and, as in Kafka, its newest timestamp as append time.
    `batches`: what was written."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    batches: tuple[Batch, ...] = ()
    duplicate: bool = False

    @property
    def size(self) -> int:
        """The bytes that were written, after a change of the codec."""
        return sum(len(batch) for _, batch in self.batches)


class ReadResult(Struct, frozen=True):
    """Whole batches, except that the last may be cut. `aborted` is None for uncommitted reads, and may name transactions further on.
    `beyond`: the reader's offset is beyond the last one that it may read.
    """

    records: bytes | memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTxn] | None
    beyond: bool


class OffsetAt(Struct, frozen=True):
    """A result of ListOffsets; -1 for missing values."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


class ActiveProducer(Struct, frozen=True, kw_only=True):
    """One row of DescribeProducers; -1 for missing values."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class LastRecord(Struct, frozen=True):
    """What compaction must keep of a producer. `data_offset`: the end of its newest data batch; None if the log knows none."""

    data_offset: int | None
    epoch: int
