"""What a partition log answers, and the special timestamps it is asked for.

Plain values, with Kafka's -1 for what there is not; the handlers turn them into responses.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fencepost.broker_stub.log.txn_index import AbortedTxn

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4


class AppendResult(Struct, frozen=True):
    """Where the records are. A duplicate names the first append's offsets and, as Kafka does, its newest timestamp as append time."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class ReadResult(Struct, frozen=True):
    """Whole batches, but the last may be cut. `aborted` is None unless committed records were asked for, and may name transactions
    further on. `beyond`: the reader is past the batch at which he would have to stop.
    """

    records: bytes | memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTxn] | None
    beyond: bool


class OffsetAt(Struct, frozen=True):
    """An answer to ListOffsets; -1 for what there is not."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


class ActiveProducer(Struct, frozen=True, kw_only=True):
    """One line of DescribeProducers; -1 for what there is not."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int
