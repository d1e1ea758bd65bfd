"""How many bytes records take in a batch of format v2: every limit on sizes is checked against these."""

from __future__ import annotations

from typing import Final

BATCH_OVERHEAD: Final = 61
"""The header of a batch (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`)."""

LOG_OVERHEAD: Final = 12
"""Base offset and batch length: the part of the header that the batch length does not count (`Records.LOG_OVERHEAD`)."""

RECORD_OVERHEAD_MAX: Final = 21
"""Length, attributes and both deltas of a record (`DefaultRecord.MAX_RECORD_OVERHEAD`)."""

RECORD_BOUND: Final = BATCH_OVERHEAD + RECORD_OVERHEAD_MAX
"""What a record in a batch of its own can take beyond key, value and headers: both overheads
(`DefaultRecordBatch.estimateBatchSizeUpperBound`)."""
