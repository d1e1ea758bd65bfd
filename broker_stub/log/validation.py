"""The checks of a leader before it looks at a batch's producer, and its changes to the batch (Kafka's `ProduceRequest.validateRecords`,
`UnifiedLog.analyzeAndValidateRecords` and `LogValidator`).

The checks are named V1 to V14 and run in that order. The result is the batch to store: with offsets and leader epoch, with the topic's
timestamp type, and recompressed where the topic has another codec. It raises AppendRefused and changes none of its arguments. It does not
check sequences, epochs and transactions. As in Kafka, the offset deltas inside an uncompressed batch are not compared with the header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from fencepost.broker_stub.log.config import LogConfig, TimestampType
from fencepost.broker_stub.log.errors import AppendRefused
from fencepost.broker_stub.log.producer_append_info import Origin
from fencepost.broker_stub.log.record_scan import EndlessLength, InvalidRecords, RecordScan
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import (
    BATCH_OVERHEAD,
    BatchHeader,
    Codec,
    CorruptBatch,
    UnsupportedMagic,
    check_crc,
    decompress,
    encode_batch,
    iter_batches,
    read_header,
    with_timestamps,
)
from fencepost.producer.wire.records.batch_header import CODEC_MASK, MAGIC, NO_TIMESTAMP
from fencepost.producer.wire.records.record_batch import Entry
from fencepost.producer.wire.records.record_reader import Headers, parse_records

ZSTD_REQUEST_VERSION_MIN: Final = 7
WALK_RECORDS: Final = 16_384  # scanning so many takes 0.25 ms compiled; then other threads may run
TIMESTAMP_MAX: Final = 2**63 - 1

_ASSIGNED: Final = struct.Struct(">qii")  # base offset, batch length, leader epoch


class Terms(Struct, frozen=True, kw_only=True):
    """The leader's part: its place in the log, its time, and the origin of the append."""

    base_offset: int
    leader_epoch: int
    now_ms: int
    origin: Origin
    request_version: int


def validate(data: bytes | memoryview, terms: Terms, config: LogConfig) -> tuple[BatchHeader, bytes]:
    """The one batch in `data` as it must be stored, and its header. Raises AppendRefused."""
    header, batch = _only_batch(data, terms.request_version)
    for check in _CHECKS:
        if (check.of_clients_only is False or terms.origin is Origin.CLIENT) and check.fails(header, batch, config):
            raise AppendRefused(check.code, check.reason.format(header=header, config=config), rule=check.name)
    stored = b"".join((_ASSIGNED.pack(terms.base_offset, header.batch_length, terms.leader_epoch), batch[_ASSIGNED.size :]))
    codec = _codec(header)
    target = codec if config.compression is None or (header.is_control and codec is Codec.NONE) else config.compression
    records, start = (stored, BATCH_OVERHEAD) if codec is Codec.NONE else (_decompressed(codec, batch, config), 0)
    walk = _walked(RecordScan(records, start, skipping=codec is target is not Codec.NONE), header.records_count)
    earliest, latest = _time_span(header, walk)
    if _is_suspicious(header, walk, earliest, latest, terms, config):
        _check_each(RecordScan(records, start, skipping=walk.skipping), header, terms, config)
    if target is not codec:
        stored = _rebuilt(header, records[start:], target, terms, config)
    elif walk.skipping and not walk.consecutive:
        # Kafka starts to rebuild the batch and fails, because it has skipped the keys and values.
        raise AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "offsets inside the compressed batch do not count up", rule="V9")
    if len(stored) > config.segment_bytes:
        raise AppendRefused(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{counted(len(stored), 'byte')}, a segment holds {config.segment_bytes}", rule="V14"
        )
    return _timed(stored, terms.now_ms if config.timestamp_type is TimestampType.LOG_APPEND_TIME else latest, config)


def _only_batch(data: bytes | memoryview, request_version: int) -> tuple[BatchHeader, memoryview]:
    """V1 and V2, and the part of V5 that is needed to split the batches."""
    try:
        batches = list(islice(iter_batches(data), 2))
    except UnsupportedMagic as error:
        if 0 <= error.magic < MAGIC:
            raise AppendRefused(ErrorCode.INVALID_RECORD, f"a batch of format version {error.magic}", rule="V1") from error
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error), rule="V5") from error
    except CorruptBatch as error:
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error), rule="V5") from error
    if len(batches) != 1:
        reason = "more than one batch" if batches else "no complete batch"
        raise AppendRefused(ErrorCode.INVALID_RECORD, reason, rule="V1")
    header, batch = batches[0]
    if request_version < ZSTD_REQUEST_VERSION_MIN and header.attributes & CODEC_MASK == Codec.ZSTD:
        raise AppendRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in Produce v{request_version}", rule="V2")
    return header, batch


class _Check(Struct, frozen=True):
    """One check of a batch as a whole."""

    name: str
    of_clients_only: bool
    fails: Callable[[BatchHeader, memoryview, LogConfig], bool]
    code: ErrorCode
    reason: str


_CHECKS: Final = (
    _Check("V3", True, lambda h, _b, _c: h.base_offset != 0, ErrorCode.INVALID_RECORD, "base offset {header.base_offset}, not 0"),
    _Check(
        "V4",
        False,
        lambda h, _b, c: h.size > c.max_message_bytes,
        ErrorCode.MESSAGE_TOO_LARGE,
        "{header.size} bytes, at most {config.max_message_bytes} are taken",
    ),
    _Check("V5", False, lambda _h, b, _c: not check_crc(b), ErrorCode.CORRUPT_MESSAGE, "the checksum does not match"),
    _Check(
        "V6",
        True,
        lambda h, _b, _c: h.records_count <= 0 or h.last_offset_delta + 1 != h.records_count,
        ErrorCode.INVALID_RECORD,
        "{header.records_count} records, the last at offset delta {header.last_offset_delta}",
    ),
    _Check("V7", True, lambda h, _b, _c: h.is_control, ErrorCode.INVALID_RECORD, "a control batch"),
    _Check(
        "V8",
        True,
        lambda h, _b, _c: h.producer_id >= 0 and h.base_sequence < 0,
        ErrorCode.INVALID_RECORD,
        "producer {header.producer_id} with sequence {header.base_sequence}",
    ),
)


def _codec(header: BatchHeader) -> Codec:
    try:
        return header.codec
    except CorruptBatch as error:  # Kafka fails at the number, with an exception without a code of its own
        raise AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error), rule="V9") from error


def _decompressed(codec: Codec, batch: memoryview, config: LogConfig) -> bytes:
    try:
        return decompress(codec, batch[BATCH_OVERHEAD:], limit=config.decompressed_bytes_max)
    except CorruptBatch as error:
        raise AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error), rule="V9") from error


def _walked(walk: RecordScan, count: int) -> RecordScan:
    """V9 for the records: the header's number of them, and nothing after them."""
    try:
        while walk.index < count:
            walk.advance(min(WALK_RECORDS, count - walk.index))
    except InvalidRecords as error:
        uncaught = isinstance(error, EndlessLength) and not walk.skipping
        code = ErrorCode.UNKNOWN_SERVER_ERROR if uncaught else ErrorCode.INVALID_RECORD
        raise AppendRefused(code, str(error), rule="V9") from error
    if walk.position != len(walk.data):
        raise AppendRefused(ErrorCode.INVALID_RECORD, f"{counted(len(walk.data) - walk.position, 'byte')} after the last record", rule="V9")
    return walk


def _time_span(header: BatchHeader, walk: RecordScan) -> tuple[int, int]:
    """The earliest and the latest timestamp of the records. Those of a LogAppendTime batch have its maximum as their timestamp."""
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME or header.records_count <= 0:
        return header.max_timestamp, header.max_timestamp
    return header.base_timestamp + walk.delta_min, min(max(NO_TIMESTAMP, header.base_timestamp + walk.delta_max), TIMESTAMP_MAX)


def _is_suspicious(header: BatchHeader, walk: RecordScan, earliest: int, latest: int, terms: Terms, config: LogConfig) -> bool:
    """Whether single records may be bad (V10 to V12), decided from all records together. After a True each record is checked."""
    return (
        (config.compacted and walk.null_keys > 0)
        or header.timestamp_type == TimestampType.LOG_APPEND_TIME
        or terms.now_ms - earliest > config.timestamp_before_max_ms
        or latest - terms.now_ms > config.timestamp_after_max_ms
    )


def _check_each(walk: RecordScan, header: BatchHeader, terms: Terms, config: LogConfig) -> None:
    """V10, V11 and V12: refuses the batch if a record is bad, and names all bad records."""
    faults = list(_faults(walk, header, terms.now_ms, config))
    if not faults:
        return
    rule = max(rule for _, rule, _ in faults)  # one bad timestamp decides the code
    code = ErrorCode.INVALID_RECORD if rule == "V10" else ErrorCode.INVALID_TIMESTAMP
    errors = tuple((index, message) for index, _, message in faults)
    reason = f"{len(errors)} of {header.records_count} records are refused: {errors[0][1]}"
    raise AppendRefused(code, reason, rule=rule, record_errors=errors)


def _faults(walk: RecordScan, header: BatchHeader, now_ms: int, config: LogConfig) -> Iterator[tuple[int, str, str]]:
    """(position, check, message) of each bad record. A well-formed batch is scanned once more, record by record."""
    earliest, latest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    says_append_time = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    for index in range(header.records_count):
        nulls = walk.null_keys
        walk.advance(1)
        timestamp = header.max_timestamp if says_append_time else header.base_timestamp + walk.delta
        if config.compacted and walk.null_keys > nulls:
            yield index, "V10", "a compacted topic takes no record without a key"
        elif config.timestamp_type is TimestampType.CREATE_TIME and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                yield index, "V11", f"timestamp {timestamp} is not within {earliest} to {latest}"
        elif says_append_time:
            yield index, "V12", "a producer must not set LogAppendTime"


def _rebuilt(header: BatchHeader, data: bytes, codec: Codec, terms: Terms, config: LogConfig) -> bytes:
    """The records in `data` under another codec, with offsets without gaps and the same producer."""
    try:
        rebuilt = encode_batch(
            parse_records(
                data,
                header.records_count,
                base_offset=header.base_offset,
                base_timestamp=header.base_timestamp,
                append_time=header.max_timestamp if header.timestamp_type else None,
                base_sequence=header.base_sequence,
                make=_entry,
            ),
            base_offset=terms.base_offset,
            leader_epoch=terms.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            codec=codec,
            level=config.level(codec),
            transactional=header.is_transactional,
            control=header.is_control,
        )
    except CorruptBatch as error:
        raise AppendRefused(ErrorCode.INVALID_RECORD, str(error), rule="V9") from error
    if len(rebuilt) > config.max_message_bytes:
        reason = f"{counted(len(rebuilt), 'byte')} when recompressed, at most {config.max_message_bytes} are taken"
        raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, reason, rule="V13")
    return rebuilt


def _entry(_offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers, _sequence: int) -> Entry:
    """A record for `encode_batch`, which assigns the offset."""
    return timestamp, key, value, headers


def _timed(batch: bytes, max_timestamp: int, config: LogConfig) -> tuple[BatchHeader, bytes]:
    """The batch with the topic's timestamp type and this maximum: usually the same bytes, otherwise a copy with a new checksum."""
    header = read_header(batch)
    if (header.timestamp_type, header.max_timestamp) == (config.timestamp_type, max_timestamp):
        return header, batch
    changed = bytearray(batch)
    with_timestamps(changed, max_timestamp, log_append_time=config.timestamp_type is TimestampType.LOG_APPEND_TIME)
    return read_header(changed), bytes(changed)
