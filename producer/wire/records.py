"""The door to record batches: everything about format v2 under one name. It holds nothing of its own."""

from __future__ import annotations

from producer.wire.batch_builder import BatchBuilder, build_batch
from producer.wire.batch_header import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    BatchHeader,
    UnsupportedMagic,
    check_crc,
    decrement_sequence,
    increment_sequence,
    iter_batches,
    read_header,
    with_offset,
    with_timestamps,
)
from producer.wire.compression import Codec, CorruptBatch, compress, decompress
from producer.wire.markers import ControlType, encode_marker, read_marker
from producer.wire.record_batch import Record, encode_batch, read_records

__all__ = [
    "BATCH_OVERHEAD",
    "LOG_OVERHEAD",
    "BatchBuilder",
    "BatchHeader",
    "Codec",
    "ControlType",
    "CorruptBatch",
    "Record",
    "UnsupportedMagic",
    "build_batch",
    "check_crc",
    "compress",
    "decompress",
    "decrement_sequence",
    "encode_batch",
    "encode_marker",
    "increment_sequence",
    "iter_batches",
    "read_header",
    "read_marker",
    "read_records",
    "with_offset",
    "with_timestamps",
]
