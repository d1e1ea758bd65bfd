"""Whole record batches of format v2, as Kafka stores and sends them.

Writing refuses records that the format cannot hold. Reading checks for damage first, and raises `CorruptBatch`. Neither decides whether a
broker accepts the batch. The producer writes through `BatchBuilder`; all other code uses `encode_batch`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.runtime import BytesWriter
from fencepost.producer.wire.codecs.codec import DECOMPRESSED_BYTES_MAX, Codec, CorruptBatch, TooMuch, compress, decompress
from fencepost.producer.wire.records.batch_builder import Headers, pack_headers, write_record
from fencepost.producer.wire.records.batch_header import (
    CONTROL,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Readable,
    check_crc,
    pack_batch,
    read_header,
)
from fencepost.producer.wire.records.record_reader import parse_records
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD


class Record(Struct, frozen=True):
    """One record of a batch. The timestamp is in milliseconds since 1970. `sequence` is -1 if the batch has no producer id."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    sequence: int = -1


Entry = Record | tuple[int, bytes | None, bytes | None] | tuple[int, bytes | None, bytes | None, Headers | None]
"""A record to write: a `Record` with its own offset, or (timestamp, key, value[, headers]), which gets its offset from its position."""


def encode_batch(
    records: Iterable[Entry],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Build one batch. The other header fields follow from the records.

    Refuses offsets that do not rise or lie outside the batch, and timestamps below -1.
    """
    writer = BytesWriter()
    first_timestamp = highest = -1
    last_delta = -1
    count = 0
    for entry in records:
        if isinstance(entry, Record):
            delta = entry.offset - base_offset
            timestamp, key, value = entry.timestamp, entry.key, entry.value
            headers: Headers | None = entry.headers
        else:
            delta = last_delta + 1
            timestamp, key, value, *rest = entry
            headers = rest[0] if rest else None
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"{timestamp} is not a timestamp: the lowest is -1, the highest 2^63 - 1")
        if not last_delta < delta <= 0x7FFFFFFF:
            raise ValueError(f"offset {base_offset + delta} after {base_offset + last_delta}")
        if count == 0:
            first_timestamp = timestamp
        write_record(writer, delta, timestamp - first_timestamp, key, value, pack_headers(headers) if headers else None)
        highest = max(highest, timestamp)
        last_delta = delta
        count += 1
    attributes = codec | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    return pack_batch(
        compress(codec, writer.getvalue(), level=level) if count else b"",
        attributes=attributes,
        last_offset_delta=max(last_delta, 0),
        base_timestamp=first_timestamp,
        max_timestamp=highest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=count,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def read_records(
    batch: Readable,
    *,
    verify_crc: bool = True,
    limit: int = DECOMPRESSED_BYTES_MAX,
    records_max: int | None = None,
    with_headers: bool = True,
) -> list[Record]:
    """The records of exactly one batch; none if the batch has only a header.

    It raises TooMuch if the records take more than `limit` bytes uncompressed, or if there are more than `records_max`. A caller that
    limits its memory must also leave out the headers, because a header can take only two bytes.
    """
    header = read_header(batch)
    if header.size != len(batch):
        raise CorruptBatch(f"a batch of {counted(header.size, 'byte')}, {len(batch)} are there")
    if verify_crc and not check_crc(batch):
        raise CorruptBatch("the checksum does not match")
    if header.records_count == 0:
        # Compaction can leave a batch without records that keeps its codec. Kafka ignores the bytes after its header, too.
        return []
    if records_max is not None and header.records_count > records_max:
        raise TooMuch(f"{counted(header.records_count, 'record')}, where at most {records_max} are taken")
    return parse_records(
        decompress(header.codec, memoryview(batch)[BATCH_OVERHEAD:], limit=limit),
        header.records_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        append_time=header.max_timestamp if header.timestamp_type else None,
        base_sequence=header.base_sequence,
        make=Record,
        with_headers=with_headers,
    )
