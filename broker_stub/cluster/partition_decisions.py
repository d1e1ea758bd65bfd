"""What the controller decides about partitions, which is kept before anything follows from it.

What is decided together, such as about every partition of a broker that stops, is kept together: with one sync, and not with one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from uuid import UUID

from fencepost.broker_stub.replication.partition_state import PartitionState


class PartitionDecisions:
    """Of one cluster. `keep`: returns when they survive a loss of power."""

    def __init__(self, keep: Callable[[Collection[PartitionState]], None]) -> None:
        self._keep = keep
        self._are_together = False
        self._states: dict[tuple[UUID, int], PartitionState] = {}
        self._then: dict[Callable[[], None], None] = {}

    def add(self, state: PartitionState) -> None:
        """A partition's new state."""
        if self._are_together:
            self._states[state.topic_id, state.index] = state
        else:
            self._keep([state])

    def then(self, run: Callable[[], None]) -> None:
        """What follows from the decisions so far."""
        if self._are_together:
            self._then[run] = None
        else:
            run()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is decided inside is kept at the end, and then what follows from it is done, once."""
        if self._are_together:
            yield
            return
        self._are_together = True
        try:
            yield
        finally:
            self._are_together = False
            states, then = self._states, self._then
            self._states, self._then = {}, {}
            if states:
                self._keep(states.values())
            for run in then:
                run()
