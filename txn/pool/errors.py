"""The errors of a pool, besides those of its producers."""

from __future__ import annotations

from fencepost.producer.errors import Fenced
from fencepost.txn.errors import TransactionTimeout

__all__ = ["PoolTakenOver", "PoolTimeout"]


class PoolTimeout(TransactionTimeout):
    """No transaction could begin within `acquire_timeout_ms`. Nothing was begun: make the call again later, or raise `size`."""


class PoolTakenOver(Fenced):
    """Another process has the pool's instance now. This pool begins no more transactions. Give each process an instance of its own, or
    leave `instance` out."""
