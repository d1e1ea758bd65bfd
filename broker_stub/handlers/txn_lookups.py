"""What the handlers of transactions have in common: how a refusal is told to old versions.

It decides nothing.
"""

from __future__ import annotations

from fencepost.producer.wire import ErrorCode


def told(code: int, version: int, *, fenced_since: int) -> int:
    """PRODUCER_FENCED by its older name to who does not know it (KIP-588)."""
    if code == ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
