"""How many bytes records take in a batch of format v2. Every check of a size limit uses these numbers. Compiled by mypyc."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

BATCH_OVERHEAD: Final = 61
"""The header of a batch (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`)."""

LOG_OVERHEAD: Final = 12
"""Base offset and batch length: the part of the header that the batch length does not count (`Records.LOG_OVERHEAD`)."""

RECORD_OVERHEAD_MAX: Final = 21
"""Length, attributes and both deltas of a record (`DefaultRecord.MAX_RECORD_OVERHEAD`)."""

RECORD_BOUND: Final = BATCH_OVERHEAD + RECORD_OVERHEAD_MAX
"""The most bytes that a record in a batch of its own can take besides key, value and headers
(`DefaultRecordBatch.estimateBatchSizeUpperBound`)."""


def record_bound(key: bytes | None, value: bytes | None, headers: bytes | None) -> i64:
    """The most bytes that a record can take, in a batch of its own. `headers`: packed.

    `BaseProducer._accept` and `Accumulator.append` repeat this sum in place: each call would make `send` about 1 % slower.
    """
    size: i64 = RECORD_BOUND
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers is not None:
        size += len(headers)
    return size
