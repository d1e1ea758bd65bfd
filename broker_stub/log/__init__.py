"""Partition logs as Kafka keeps them: the bytes of record batches, and the state that a broker derives from them.

`PartitionLog` is the entry point. Nothing here knows topics, requests, sockets or other replicas.
"""

from __future__ import annotations

from fencepost.broker_stub.log.config import LogConfig, TimestampType
from fencepost.broker_stub.log.errors import AppendRefused, CorruptSnapshot, OffsetOutOfRange
from fencepost.broker_stub.log.partition_log import PartitionLog
from fencepost.broker_stub.log.producer_append_info import Origin
from fencepost.broker_stub.log.results import (
    ActiveProducer,
    AppendResult,
    OffsetAt,
    ReadResult,
)
from fencepost.broker_stub.log.txn_index import AbortedTxn

__all__ = [
    "AbortedTxn",
    "ActiveProducer",
    "AppendRefused",
    "AppendResult",
    "CorruptSnapshot",
    "LogConfig",
    "OffsetAt",
    "OffsetOutOfRange",
    "Origin",
    "PartitionLog",
    "ReadResult",
    "TimestampType",
]
