"""Builds record batches for the conformance cases, byte by byte. A case can set every header field, also to a wrong value.

This module does not use `producer.wire.records`, so the cases also check that codec. It refuses nothing.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import google_crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
assert HEADER.size == HEADER_BYTES

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


_stamp_ms = 0


def now_ms() -> int:
    return int(time.time() * 1000)


def begin() -> None:
    """Fix the timestamp of the records: one minute ago, so that it differs from the broker's clock."""
    global _stamp_ms
    _stamp_ms = now_ms() - 60_000


def stamp() -> int:
    """The default timestamp of a record."""
    assert _stamp_ms, "begin() was not called"
    return _stamp_ms


@dataclass(frozen=True, kw_only=True)
class Rec:
    """One record. The overrides make it malformed."""

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    timestamp: int | None = None
    headers: Sequence[tuple[bytes | None, bytes | None]] = ()
    offset_delta: int | None = None
    length: int | None = None
    header_count: int | None = None
    tail: bytes = b""

    def encode(self, index: int, base_timestamp: int) -> bytes:
        stamp = base_timestamp if self.timestamp is None else self.timestamp
        body = b"\x00" + varint(stamp - base_timestamp) + varint(index if self.offset_delta is None else self.offset_delta)
        body += _nullable(self.key) + _nullable(self.value)
        body += varint(len(self.headers) if self.header_count is None else self.header_count)
        for key, value in self.headers:
            body += _nullable(key) + _nullable(value)
        body += self.tail
        return varint(len(body) if self.length is None else self.length) + body


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One batch. Fields that are None are computed, the others are written as given. The CRC is correct unless `crc` is given."""

    records: Sequence[Rec] = field(default_factory=lambda: (Rec(),))
    pid: int = -1
    epoch: int = -1
    sequence: int = -1
    attributes: int = 0
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    last_offset_delta: int | None = None
    count: int | None = None
    length: int | None = None
    crc: int | None = None
    payload: bytes | None = None

    def encode(self) -> bytes:
        stamps = [record.timestamp for record in self.records if record.timestamp is not None]
        base = self.base_timestamp if self.base_timestamp is not None else (stamps[0] if stamps else stamp())
        payload = self.payload
        if payload is None:
            payload = b"".join(record.encode(index, base) for index, record in enumerate(self.records))
        count = len(self.records) if self.count is None else self.count
        fields = (
            self.attributes,
            len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta,
            base,
            max(stamps, default=base) if self.max_timestamp is None else self.max_timestamp,
            self.pid,
            self.epoch,
            self.sequence,
            count,
        )
        covered = struct.pack(">hiqqqhii", *fields) + payload
        crc = google_crc32c.value(bytes(covered)) if self.crc is None else self.crc
        length = HEADER_BYTES - 12 + len(payload) if self.length is None else self.length
        return struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc) + covered


def of(pid: int, epoch: int, sequence: int, count: int = 1) -> Batch:
    """An ordinary idempotent batch with `count` small records."""
    return Batch(records=[Rec(value=b"v%d" % number) for number in range(count)], pid=pid, epoch=epoch, sequence=sequence)


def plain(*records: Rec) -> Batch:
    """A batch without a producer id."""
    return Batch(records=records or (Rec(),))


def record_bytes(records: Sequence[Rec], base_timestamp: int) -> bytes:
    return b"".join(record.encode(index, base_timestamp) for index, record in enumerate(records))


def varint(number: int) -> bytes:
    """Zigzag, then base 128; long enough for a varlong."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
