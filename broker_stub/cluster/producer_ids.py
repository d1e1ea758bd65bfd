"""Producer ids: unique ones, for idempotent producers and for transactional ids.

It knows no epochs: an idempotent producer begins with 0, and coordinators keep those of transactional ids.
"""

from itertools import count
from typing import NamedTuple


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


class ProducerIds:
    """The producer ids of one cluster."""

    def __init__(self) -> None:
        self._next = count()

    def fresh(self) -> int:
        """An id that no producer had before."""
        return next(self._next)
