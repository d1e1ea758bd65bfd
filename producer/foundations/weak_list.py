"""The objects of a kind that the program still has, for what happens at the process's exit and in a forked child.

Not a WeakSet: Python runs one in Python, and while a thread goes through it another thread must add nothing.
"""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class WeakList(Generic[T]):
    """Any thread may add, discard and list at any time."""

    def __init__(self) -> None:
        self._refs: dict[ref[T], None] = {}

    def add(self, item: T) -> None:
        """Keep it until it is discarded or collected."""
        self._refs[ref(item, self._forget)] = None

    def discard(self, item: T) -> None:
        """Forget it, if it is there."""
        self._forget(ref(item))

    def all(self) -> list[T]:
        """Those that are there now, the oldest first."""
        return [item for each in [*self._refs] if (item := each()) is not None]

    def _forget(self, gone: ref[T]) -> None:
        self._refs.pop(gone, None)
