"""Batches as a broker or a log cleaner changes them."""

from __future__ import annotations

from fencepost.producer.wire.records import with_offset, with_timestamps
from fencepost.producer.wire.records.batch_header import compute_crc


def compacted(batch: bytes, *, last_offset_delta: int) -> bytes:
    """The batch after compaction removed its last records: the last offset stays."""
    changed = bytearray(batch)
    changed[23:27] = last_offset_delta.to_bytes(4, "big", signed=True)
    changed[17:21] = compute_crc(changed).to_bytes(4, "big")
    return bytes(changed)


def appended_at(batch: bytes, timestamp_ms: int) -> bytes:
    """The batch with the broker's time (LogAppendTime)."""
    changed = bytearray(batch)
    with_timestamps(changed, timestamp_ms, log_append_time=True)
    return bytes(changed)


def placed(batch: bytes, offset: int, leader_epoch: int = -1) -> bytes:
    """The batch with the offset and the epoch that its leader assigns."""
    changed = bytearray(batch)
    with_offset(changed, offset, leader_epoch)
    return bytes(changed)
