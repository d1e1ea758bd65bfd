"""Which attempt has each Spark task: the first one that asked. It is not thread-safe, and asks nobody."""

from __future__ import annotations

from fencepost.txn.spark.errors import AttemptConflict


class AttemptRegistry:
    """Of one attempt to write a batch. One that comes second is refused, and from then on the batch is tainted, whether or not Spark ever
    tells of it."""

    def __init__(self) -> None:
        self._registry: dict[int, int] = {}
        self._denied: list[tuple[int, int]] = []

    def ask(self, task: int, attempt_id: int) -> str:
        """What the claimant is told; empty: the task is its own."""
        winner = self._registry.setdefault(task, attempt_id)
        if winner == attempt_id:
            return ""
        self._denied.append((task, attempt_id))
        return f"task {task} belongs to attempt {winner}"

    def told(self) -> dict[int, int]:
        """The attempt that has each task. Raises AttemptConflict where another one asked for it, too."""
        if self._denied:
            task, attempt_id = self._denied[0]
            raise AttemptConflict(
                f"{len(self._denied)} more task attempts than tasks: task {task} belongs to attempt {self._registry[task]},"
                f" and attempt {attempt_id} asked for it"
            )
        return dict(self._registry)
