"""The errors of all codecs."""

from __future__ import annotations

from fencepost.producer.wire.errors import WireError


class CorruptBatch(WireError):
    """Bytes that are not a record batch, or a damaged one."""


class TooMuch(CorruptBatch):
    """A batch with more content than the reader accepts. It may be undamaged."""


def too_much(codec: str, limit: int) -> TooMuch:
    """The error for a batch whose uncompressed size exceeds the limit."""
    return TooMuch(f"{codec}: more than {limit} bytes of records")
