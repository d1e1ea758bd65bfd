"""What every codec says of bytes that it cannot open."""

from __future__ import annotations

from fencepost.producer.wire.errors import WireError


class CorruptBatch(WireError):
    """Bytes that are no record batch, or one that was damaged."""


class TooMuch(CorruptBatch):
    """A batch that may be whole, and holds more than whoever reads it takes."""


def too_much(codec: str, limit: int) -> TooMuch:
    """The refusal of a batch that would open to more than the limit."""
    return TooMuch(f"{codec}: more than {limit} bytes of records")
