"""The task that may now write to each Kafka partition: one at a time, and the next continues where the previous one stopped.

So rows need not be moved to the task of their partition. A task gets some of the partitions that it asks for: at most its share of all
partitions, rounded up. For rows that may go to any partition of a topic it gets the one that has been free for longest. It asks for more
only after it has given back what it had, so no two tasks wait for each other. If a task leaves without saying that it is done, the next
sequence is not known, and no partition is granted any more. It is not thread-safe, and sends no request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from fencepost.producer.core.idempotence.sequence import SEQUENCE_RING, advance
from fencepost.producer.foundations.counted import counted
from fencepost.txn.shared.participation import TP, Participation, Written, name
from fencepost.txn.spark.errors import AttemptConflict
from fencepost.txn.spark.guards.attempt_registry import AttemptRegistry

ANY: Final = -1
"""The partition in a request for any one of a topic."""

Sequences = list[tuple[str, int, int]]
"""Topic, partition, and the sequence of its next record."""


class PartitionLeases:
    """The leases of one attempt to write a batch. `rotation`: a number that differs from attempt to attempt, so that rows which may go to
    any partition do not always begin at the same one. `trouble`: why no partition is granted any more."""

    def __init__(self, participation: Participation, *, rotation: int = 0) -> None:
        self.trouble = ""
        self._free: dict[TP, int] = dict(_rotated(participation, rotation))
        self._held: dict[TP, tuple[int, int]] = {}
        self._registry = AttemptRegistry()
        self._at_work: set[int] = set()
        self._done: set[int] = set()

    def enter(self, task: int, attempt_id: int) -> str:
        """A task's attempt begins. Returns the refusal; empty: it may continue."""
        refused = self.trouble or self._registry.ask(task, attempt_id)
        if refused:
            self.trouble = self.trouble or refused
        elif task in self._at_work | self._done:
            refused = self.trouble = f"attempt {attempt_id} of task {task} connected twice"
        else:
            self._at_work.add(task)
        return refused

    def grant(self, task: int, wanted: Sequence[TP]) -> Sequences:
        """Grant those that are free, in the given order, up to the task's share of all partitions."""
        share = -(-(len(self._free) + len(self._held)) // max(1, len(self._at_work)))
        granted: Sequences = []
        for each in wanted:
            if len(granted) == share:
                break
            tp = self._any_of(each[0]) if each[1] == ANY else each
            if tp in self._free:
                sequence = self._free.pop(tp)
                self._held[tp] = task, sequence
                granted.append((*tp, sequence))
        return granted

    def take_back(self, task: int, written: Sequence[Written]) -> None:
        """The records are acknowledged, and the partitions are free again."""
        for each in written:
            tp = each.topic, each.partition
            holder, sequence = self._held.get(tp, (-1, 0))
            if holder != task:
                self.trouble = f"task {task} gave back {name(tp)}, which it did not have"
            elif advance(sequence, each.records % SEQUENCE_RING) != each.next_sequence:
                records = counted(each.records, "record")
                self.trouble = f"task {task} gave back {name(tp)} at sequence {each.next_sequence}: {records} from {sequence} on"
            else:
                del self._held[tp]
                self._free[tp] = each.next_sequence

    def finish(self, task: int) -> None:
        """The task has written all that it had."""
        self._at_work.discard(task)
        self._done.add(task)
        held = [tp for tp, (holder, _) in self._held.items() if holder == task]
        if held:
            self.trouble = f"task {task} says that it is done, and has {name(held[0])}"

    def leave(self, task: int) -> None:
        """The task's connection has ended."""
        if task not in self._done:
            self._at_work.discard(task)
            self.trouble = self.trouble or f"task {task} left before it was done"

    def fail(self, task: int, why: str) -> None:
        """The task has said why it leaves before it is done."""
        self._at_work.discard(task)
        self.trouble = self.trouble or f"task {task} failed: {why}"

    def holders(self, wanted: Sequence[TP]) -> str:
        """The tasks that have some of these, for an error message."""
        some = {*wanted}
        return ", ".join(f"task {task} has {name(tp)}" for tp, (task, _) in self._held.items() if tp in some or (tp[0], ANY) in some)

    def registry(self) -> dict[int, int]:
        """The attempt that has each task, when all of them are done. Raises AttemptConflict if something went wrong."""
        registry = self._registry.told()
        if self.trouble:
            raise AttemptConflict(self.trouble)
        if self._at_work:
            raise AttemptConflict(f"task {min(self._at_work)} has not said that it is done")
        return registry

    def _any_of(self, topic: str) -> TP:
        """The partition of the topic that has been free for longest. Without a free one, ANY of the topic."""
        return next((tp for tp in self._free if tp[0] == topic), (topic, ANY))


def _rotated(participation: Participation, rotation: int) -> Iterator[tuple[TP, int]]:
    """Each partition with its next sequence, those of each topic beginning at its partition number `rotation`."""
    for _, group in groupby(participation.sequences, key=lambda each: each[0]):
        partitions = [*group]
        first = rotation % len(partitions)
        for topic, partition, sequence in partitions[first:] + partitions[:first]:
            yield (topic, partition), sequence
