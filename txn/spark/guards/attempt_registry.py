"""The attempt that has each Spark task: the first one that asked. It is not thread-safe, and sends no request."""

from __future__ import annotations

from fencepost.producer.foundations.counted import counted
from fencepost.txn.spark.errors import AttemptConflict


class AttemptRegistry:
    """The tasks of one attempt to write a batch. A second attempt of a task is refused. From then on the batch must be aborted, whether or
    not Spark ever reports that attempt."""

    def __init__(self) -> None:
        self._registry: dict[int, int] = {}
        self._denied: list[tuple[int, int]] = []

    def ask(self, task: int, attempt_id: int) -> str:
        """The answer to the claimant; empty: the task belongs to it."""
        winner = self._registry.setdefault(task, attempt_id)
        if winner == attempt_id:
            return ""
        self._denied.append((task, attempt_id))
        return f"task {task} belongs to attempt {winner}"

    def told(self) -> dict[int, int]:
        """The attempt that has each task. Raises AttemptConflict if a second attempt asked for a task."""
        if self._denied:
            task, attempt_id = self._denied[0]
            raise AttemptConflict(
                f"{counted(len(self._denied), 'more task attempt')} than tasks: task {task} belongs to attempt {self._registry[task]},"
                f" and attempt {attempt_id} asked for it"
            )
        return dict(self._registry)
