"""Record batches, format v2: re-exports the names that other rooms import."""

from __future__ import annotations

from fencepost.producer.wire.codecs.codec import Codec, CorruptBatch, compress, decompress
from fencepost.producer.wire.records.batch_builder import BatchBuilder
from fencepost.producer.wire.records.batch_header import (
    PRODUCER_EPOCH_MAX,
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
from fencepost.producer.wire.records.control_batch import ControlType, encode_marker, read_marker
from fencepost.producer.wire.records.record_batch import Record, encode_batch, read_records
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD, LOG_OVERHEAD

__all__ = [
    "BATCH_OVERHEAD",
    "LOG_OVERHEAD",
    "PRODUCER_EPOCH_MAX",
    "BatchBuilder",
    "BatchHeader",
    "Codec",
    "ControlType",
    "CorruptBatch",
    "Record",
    "UnsupportedMagic",
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
