"""The Kafka partitions of one task attempt of `format("fencepost")`, claimed in Kafka: those that its rows need, or any of a topic.

It uses the claims topic and writes nothing else. If another task has a needed partition, the error says how to bring the rows together.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from fencepost.txn.spark.datasource.write_begin import SharedTransaction
from fencepost.txn.spark.errors import AttemptConflict
from fencepost.txn.spark.guards.claims_topic import KafkaClaim
from fencepost.txn.spark.rows.routing import Routes


class Claims:
    """The partitions of one task attempt, by their routes. `own`: those that it has."""

    def __init__(self, shared: SharedTransaction, *, task: int, attempt_id: int) -> None:
        self.own: set[int] = set()
        self.task = task
        self._attempt_id = attempt_id
        self._shared = shared

    def need(self, numbers: Any) -> None:
        """Claim all partitions of these routes. Raises AttemptConflict if another task has one of them."""
        wanted = {number for number in pc.unique(numbers).to_pylist() if number >= 0} - self.own
        for winner in self._claim(sorted(wanted)):
            if self._is_ours(winner):
                continue
            topic, partition = self._shared.routes.partition(winner.task)
            if winner.claimant == self.task:
                raise AttemptConflict(
                    f"{topic}-{partition} belongs to attempt {winner.attempt_id} of this task, which may have written there"
                )
            raise AttemptConflict(
                f"Kafka partition {partition} of topic {topic!r} is produced by two Spark tasks, {winner.claimant} and {self.task};"
                f" wrap the DataFrame in {_advice(self._shared.routes)}"
            )

    def any(self, topic: str) -> int:
        """Claim a partition of the topic that no other task has; each task begins its search at another one. Raises AttemptConflict if
        there is none."""
        routes = self._shared.routes
        place = routes.topics.index(topic)
        first, count = routes.firsts[place], routes.counts[place]
        for step in range(count):
            (winner,) = self._claim([first + (self.task + routes.rotation + step) % count])
            if self._is_ours(winner):
                return winner.task
            if winner.claimant == self.task:
                raise AttemptConflict(f"attempt {winner.attempt_id} of this task may have written already")
        one = f"df.coalesce({count}) or less"
        raise AttemptConflict(
            f"there are more Spark tasks with rows of topic {topic!r} than it has partitions: "
            + (one if len(routes.topics) == 1 else f"{one}, or wrap the DataFrame in {_advice(routes)}")
        )

    def _claim(self, numbers: list[int]) -> list[KafkaClaim]:
        if not numbers:
            return []
        registry = self._shared.claim_client.claim_all([KafkaClaim(number, self._attempt_id, self.task) for number in numbers])
        self.own.update(each.task for each in registry if self._is_ours(each))
        return registry

    def _is_ours(self, claim: KafkaClaim) -> bool:
        return (claim.claimant, claim.attempt_id) == (self.task, self._attempt_id)


def _advice(routes: Routes) -> str:
    """How to bring rows together."""
    if len(routes.topics) == 1:
        return f"route(df, {routes.total}, topic={routes.topics[0]!r})"
    return f"route(df, {dict(zip(routes.topics, routes.counts, strict=True))})"
