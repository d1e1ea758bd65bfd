"""Producer ids: unique ones, whether for an idempotent producer or for a transactional id.

It knows no epochs: an idempotent producer begins with 0, and those of transactional ids are their coordinator's.
"""

from itertools import count


class ProducerIds:
    """The ids of one cluster."""

    def __init__(self) -> None:
        self._next = count()

    def fresh(self) -> int:
        """An id that nobody had before."""
        return next(self._next)
