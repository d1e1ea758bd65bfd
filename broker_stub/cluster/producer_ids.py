"""Producer ids: unique ones, for idempotent producers and for transactional ids.

It knows no epochs: an idempotent producer begins with 0, and coordinators keep those of transactional ids. Ids are reserved in blocks, so
that a cluster that is started again gives none out twice. A broker asks the controller for as many at once, and then needs it no more until
it has given them out.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

BLOCK: Final = 1000
"""As in Kafka (`ProducerIdsBlock`)."""


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


class ProducerIds:
    """The producer ids of one cluster. `reserve` is called with the end of each block before an id of it is given out."""

    def __init__(self, first: int = 0, *, reserve: Callable[[int], object] = lambda _: None) -> None:
        self._next = self._end = first
        self._reserve = reserve
        self._left: dict[int, int] = {}  # how many each broker has still to give out

    def at(self, node: int, *, asks: bool) -> bool:
        """Whether that broker has an id to give out now. `asks`: it can ask the controller for more."""
        left = self._left.get(node, 0)
        if not left and not asks:
            return False
        self._left[node] = (left or BLOCK) - 1
        return True

    def stopped(self, node: int) -> None:
        """That broker is down, and its ids are lost."""
        self._left.pop(node, None)

    def fresh(self) -> int:
        """An id that no producer had before."""
        if self._next == self._end:
            self._reserve(self._end + BLOCK)
            self._end += BLOCK
        self._next += 1
        return self._next - 1
