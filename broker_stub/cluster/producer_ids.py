"""Producer ids: unique ones, for idempotent producers and for transactional ids.

It knows no epochs: an idempotent producer begins with 0, and those of transactional ids are their coordinator's.
"""

from itertools import count
from typing import NamedTuple


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


class ProducerIds:
    """The ids of one cluster."""

    def __init__(self) -> None:
        self._next = count()

    def fresh(self) -> int:
        """An id that nobody had before."""
        return next(self._next)
