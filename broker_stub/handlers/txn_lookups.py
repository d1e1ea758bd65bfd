"""The errors of transactions for old versions of requests.

It decides nothing.
"""

from __future__ import annotations

from fencepost.producer.wire import ErrorCode


def told(code: int, version: int, *, fenced_since: int) -> int:
    """The older name of PRODUCER_FENCED for versions that do not know it (KIP-588)."""
    if code == ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
