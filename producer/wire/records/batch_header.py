"""The 61 bytes in front of the records of a batch (format v2): read, build, stamp and check them.

It refuses, with `CorruptBatch`, bytes that cannot be a batch. Other modules decide whether a broker accepts the batch, and read its
records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from typing import Final

from fastcrc.crc32 import iscsi as crc32c
from msgspec import Struct

from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codecs.codec import Codec, CorruptBatch
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD, LOG_OVERHEAD

MAGIC: Final = 2
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
PRODUCER_EPOCH_MAX: Final = 32767

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_HEADER: Final = Layout(">qiibIhiqqqhii")
_CHECKED: Final = Layout(">hiqqqhii")
_UNCHECKED: Final = Layout(">qiibI")
_TIMES: Final = Layout(">hiqq")
_CRC: Final = Layout(">I")
_I16: Final = Layout(">h")
_I64: Final = Layout(">q")
_I32: Final = Layout(">i")
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_MAGIC_AT: Final = 16
_MAX_TIMESTAMP_AT: Final = 35

Readable = bytes | bytearray | memoryview


class UnsupportedMagic(CorruptBatch):
    """A batch of another format version. Clients and brokers before Kafka 0.11 write versions 0 and 1."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"record format v{magic}, only v{MAGIC} is spoken")
        self.magic = magic


class BatchHeader(Struct, frozen=True, gc=False):
    """The header of a batch, with Kafka's field names. Timestamps are in milliseconds since 1970."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, even if compaction removed the record there."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence of the last offset, modulo 2^31; -1 if the batch has no sequences."""
        return NO_SEQUENCE if self.base_sequence < 0 else increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        """The codec. Raises `CorruptBatch` for the unassigned numbers 5 to 7."""
        number = self.attributes & CODEC_MASK
        if number > Codec.ZSTD:
            raise CorruptBatch(f"unknown codec {number}")
        return Codec(number)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove the batch's tombstones or marker; None until a first pass met them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        return 1 if self.attributes & LOG_APPEND_TIME else 0


def increment_sequence(sequence: int, by: int) -> int:
    """`sequence` + `by`, modulo 2^31: 2147483647 + 1 is 0."""
    return (sequence + by) & 0x7FFFFFFF


def decrement_sequence(sequence: int, by: int) -> int:
    """`sequence` - `by`, modulo 2^31: 0 - 1 is 2147483647."""
    return (sequence - by) & 0x7FFFFFFF


def read_header(data: Readable, offset: int = 0) -> BatchHeader:
    """The header at `offset`. It checks only the shape: 61 bytes, a length that covers them, format version 2."""
    room = len(data) - offset
    if offset < 0 or room < BATCH_OVERHEAD:
        if offset >= 0 and room > _MAGIC_AT:
            _check_magic(data[offset + _MAGIC_AT])
        raise CorruptBatch(f"{counted(max(room, 0), 'byte')} where a batch header has {BATCH_OVERHEAD}")
    _check_magic(data[offset + _MAGIC_AT])
    header = BatchHeader(*_HEADER.unpack_from(data, offset))
    if header.batch_length < BATCH_OVERHEAD - LOG_OVERHEAD:
        raise CorruptBatch(f"batch length {header.batch_length}, at least {BATCH_OVERHEAD - LOG_OVERHEAD} is needed")
    return header


def _check_magic(magic: int) -> None:
    if magic != MAGIC:
        raise UnsupportedMagic(magic)


def iter_batches(data: Readable) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each complete batch in `data`, not copied. It leaves out a partial batch at the end, because a broker may send one."""
    view = memoryview(data)
    start = 0
    while len(view) - start > _MAGIC_AT:
        (length,) = _I32.unpack_from(view, start + 8)
        if length >= 0 and start + LOG_OVERHEAD + length > len(view):
            return
        header = read_header(view, start)
        end = start + header.size
        yield header, view[start:end]
        start = end


def compute_crc(batch: Readable) -> int:
    """CRC-32C over everything from the attributes on. The bytes before them can change without a new checksum."""
    return crc32c(memoryview(batch)[_CHECKED_AT:])


def check_crc(batch: Readable) -> bool:
    """Whether the checksum of these bytes, one whole batch, is correct."""
    if len(batch) < BATCH_OVERHEAD:
        return False
    (written,) = _CRC.unpack_from(batch, _CRC_AT)
    return bool(written == compute_crc(batch))


def pack_batch(
    payload: bytes,
    *,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build one batch: header, checksum, payload. The payload is copied once."""
    header = pack_header(
        (payload,),
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=records_count,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )
    return header + payload


def pack_header(
    payload: Sequence[Readable],
    *,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the header of a batch whose payload is in several pieces."""
    checked = _CHECKED.pack(
        attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, records_count
    )
    length = BATCH_OVERHEAD - LOG_OVERHEAD
    crc = crc32c(checked)
    for piece in payload:
        crc = crc32c(piece, crc)
        length += len(piece)
    return _UNCHECKED.pack(base_offset, length, leader_epoch, MAGIC, crc) + checked


def with_offset(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Write, in place, the base offset and leader epoch that a leader assigns. The checksum does not cover them."""
    _I64.pack_into(batch, 0, base_offset)
    _I32.pack_into(batch, 12, leader_epoch)


def with_timestamps(batch: bytearray, max_timestamp: int, *, log_append_time: bool) -> None:
    """Write, in place, the timestamp type and maximum timestamp that a leader sets. If they change, compute the checksum again."""
    attributes, *_, before = _TIMES.unpack_from(batch, _CHECKED_AT)
    changed = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    if (changed, max_timestamp) == (attributes, before):
        return
    _I16.pack_into(batch, _CHECKED_AT, changed)
    _I64.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _CRC.pack_into(batch, _CRC_AT, compute_crc(batch))
