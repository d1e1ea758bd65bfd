"""The checks of a Produce request's records before the leader is known (Kafka's `RequestUtils` and `ProduceRequest.validateRecords`).

They read the fixed fields of the first batch, and whether there is a second one. The log validates everything inside a batch.
"""

from __future__ import annotations

from struct import Struct as Layout

from fencepost.producer.wire import Buffer, ErrorCode

_PREFIX = Layout(">8xi4xb")  # base offset, batch length, leader epoch, magic
LENGTH_END = 12
BATCH_LENGTH_MIN = 14  # of a message of format 0, the smallest one
MAGIC = 2
ATTRIBUTES_AT, TRANSACTIONAL_BIT = 22, 0x10
CODEC_MASK, ZSTD, ZSTD_SINCE = 0x07, 4, 7
INT32_MAX = 2**31 - 1


class Unreadable(Exception):
    """A batch prefix at which Kafka's own iteration fails. It fails the whole request; `message` is the response's error message."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def is_transactional(records: Buffer | None) -> bool:
    """Whether the first batch has the transactional bit. Raises Unreadable if that cannot be read."""
    return records is not None and _batch_size(records, 0) > ATTRIBUTES_AT and bool(records[ATTRIBUTES_AT] & TRANSACTIONAL_BIT)


def request_error(records: Buffer | None, version: int) -> int:
    """The code for records that are not one batch which this version may have; 0 if they are."""
    if records is None:
        return ErrorCode.INVALID_RECORD
    try:
        size = _batch_size(records, 0)
        if not size or _batch_size(records, size) or records[_PREFIX.size - 1] != MAGIC:
            return ErrorCode.INVALID_RECORD
    except Unreadable as error:
        return error.code
    if version < ZSTD_SINCE and records[ATTRIBUTES_AT] & CODEC_MASK == ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.NONE


def _batch_size(records: Buffer, at: int) -> int:
    """The size of the batch that begins there; 0 if it is incomplete."""
    left = len(records) - at
    if left < LENGTH_END:
        return 0
    length = int.from_bytes(records[at + 8 : at + LENGTH_END], "big", signed=True)
    if length < BATCH_LENGTH_MIN:
        raise Unreadable(ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than the minimum record overhead ({BATCH_LENGTH_MIN})")
    if left < _PREFIX.size:
        return 0
    _, magic = _PREFIX.unpack_from(records, at)
    if not 0 <= magic <= MAGIC:
        raise Unreadable(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if length > INT32_MAX - LENGTH_END:
        raise Unreadable(ErrorCode.UNKNOWN_SERVER_ERROR, None)  # an overflow, in Java
    return length + LENGTH_END if length + LENGTH_END <= left else 0
