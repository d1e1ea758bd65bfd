"""The leader epochs of a log and the offsets at which they began (KIP-101, `LeaderEpochFileCache`).

A follower or a consumer asks where an epoch ended, to learn where its log differs from the leader's. This file knows no leaders: epochs
come from batches, and from the code that makes this replica the leader.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

Entries = list[tuple[int, int]]
UNDEFINED = (-1, -1)


class LeaderEpochs:
    """(epoch, start offset) entries, ascending in both. `save` gets the new entries before they count. If it raises, nothing has
    changed."""

    __slots__ = ("_epochs", "_is_saved", "_save", "_starts")

    def __init__(self, entries: Sequence[tuple[int, int]] = (), *, save: Callable[[Entries], None] = lambda _: None) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self._save = save
        self._is_saved = True

    @property
    def latest(self) -> int:
        """The newest epoch; -1 without any."""
        return self._epochs[-1] if self._epochs else -1

    @property
    def entries(self) -> Entries:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` began at `start_offset`. Entries that contradict this are removed. An epoch that is already the latest keeps
        its earlier start.
        """
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            if not self._is_saved:
                self._set(self._epochs, self._starts)
        else:
            self._set(*self._with(epoch, start_offset))

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """The same for an epoch in which nothing was written yet. A start forgets such an epoch, so it is saved with its first batch."""
        if epoch != self.latest:
            self._epochs, self._starts = self._with(epoch, log_end_offset)
            self._is_saved = False

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The greatest epoch not above `epoch`, and the offset where it ended; UNDEFINED if unknown."""
        if epoch == -1:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return UNDEFINED
        return (self._epochs[above - 1] if above else epoch), self._starts[above]

    def epoch_at(self, offset: int) -> int:
        """The epoch in which `offset` was or will be written; -1 before the first entry."""
        number = bisect_right(self._starts, offset)
        return self._epochs[number - 1] if number else -1

    def set_all(self, entries: Entries) -> None:
        """These and no others."""
        self._set([epoch for epoch, _ in entries], [start for _, start in entries])

    def clear(self) -> None:
        """Forgets all."""
        self.truncate_from_end(0)

    def truncate_from_end(self, offset: int) -> None:
        """Truncates to a log that ends at `offset`."""
        count = bisect_left(self._starts, offset)
        if count < len(self._starts):
            self._set(self._epochs[:count], self._starts[:count])

    def truncate_from_start(self, offset: int) -> None:
        """Truncates to a log that starts at `offset`: the epoch that contains it starts there."""
        before = bisect_right(self._starts, offset)
        if before and (before > 1 or self._starts[0] != offset):
            self._set(self._epochs[before - 1 :], [offset, *self._starts[before:]])

    def _with(self, epoch: int, start_offset: int) -> tuple[list[int], list[int]]:
        count = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        return [*self._epochs[:count], epoch], [*self._starts[:count], start_offset]

    def _set(self, epochs: list[int], starts: list[int]) -> None:
        self._save(list(zip(epochs, starts, strict=True)))
        self._epochs, self._starts, self._is_saved = epochs, starts, True
