"""A batch from which compaction removed records. It keeps its offsets, sequences and producer, so its last record may be a gap."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.producer.foundations.runtime import BytesWriter
from fencepost.producer.wire.codecs.codec import compress
from fencepost.producer.wire.records.batch_builder import pack_headers, write_record
from fencepost.producer.wire.records.batch_header import CODEC_MASK, DELETE_HORIZON, NO_TIMESTAMP, BatchHeader, pack_batch
from fencepost.producer.wire.records.record_batch import Record


def with_records(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None) -> bytes:
    """The batch with these of its records only, at least one. `delete_horizon_ms`: it stands in the field of the first timestamp."""
    writer = BytesWriter()
    base = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    for record in records:
        delta, headers = record.offset - header.base_offset, pack_headers(record.headers) if record.headers else None
        write_record(writer, delta, record.timestamp - base, record.key, record.value, headers)
    kept = header.attributes & ~DELETE_HORIZON
    return _packed(
        header,
        compress(header.codec, writer.getvalue()),
        attributes=kept if delete_horizon_ms is None else kept | DELETE_HORIZON,
        base_timestamp=base,
        max_timestamp=header.max_timestamp if header.timestamp_type else max(record.timestamp for record in records),
        records_count=len(records),
    )


def without_records(header: BatchHeader) -> bytes:
    """The header alone."""
    return _packed(
        header,
        b"",
        attributes=header.attributes & ~(DELETE_HORIZON | CODEC_MASK),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        records_count=0,
    )


def _packed(header: BatchHeader, payload: bytes, *, attributes: int, base_timestamp: int, max_timestamp: int, records_count: int) -> bytes:
    return pack_batch(
        payload,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=records_count,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
    )
