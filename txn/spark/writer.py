"""The writer that a streaming query calls: each micro-batch into Kafka, visible at once and once.

    writer = ExactlyOnceKafkaWriter("broker:9092", "orders", topic="orders")
    df.writeStream.foreachBatch(writer).option("checkpointLocation", ...).start()

It lives in the driver. What goes to executors is `task`, without it. Everything about one batch is in `batch`.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from txn.spark.at_driver import write_at_driver
from txn.spark.bad_rows import bury, is_too_much, refuse
from txn.spark.batch import Batch, Identity
from txn.spark.choosing import context_of, slots_of
from txn.spark.columns import TOPIC, SinkColumns, read_columns, select_columns
from txn.spark.errors import BadRows
from txn.spark.executing import write_on_executors
from txn.spark.explaining import explain
from txn.spark.failures import interrupts
from txn.spark.guarding import Guards
from txn.spark.guards import TurnsGuard
from txn.spark.hold import Hold
from txn.spark.metrics import BatchMetrics
from txn.spark.plan import Outcome, WritePlan
from txn.spark.query import identify
from txn.spark.routing import Routes
from txn.spark.secrets import KafkaSettings, Provider
from txn.spark.summary import Summary
from txn.spark.writer_settings import NAMES, WriterSettings
from txn.transaction import Transaction

log = logging.getLogger("fencepost.spark")

TURNS: Final = 1 << 20
"""Keyless rows begin elsewhere in each batch, around and around."""
SHARED_TASKS: Final = 1 << 16
"""Where partitions are shared, slots are the limit, and this where nobody knows of slots."""
HISTORY: Final = 100
"""Batches whose metrics are kept."""


class ExactlyOnceKafkaWriter:
    """For `foreachBatch`. `bootstrap`: brokers. `sink_id` and the settings that follow: `WriterSettings`; all others are the producer's, in
    either spelling, or Spark's `kafka.*` options. `secrets`: a function that returns those that are not to be pickled.

    The DataFrame's columns are those of Spark's Kafka sink: value, and key, headers, topic, partition, timestamp where they are there.
    Raises what `txn.spark.errors` and the ledger have, and fails the query with it; nothing of the batch is visible then.
    """

    def __init__(
        self, bootstrap: str | Sequence[str], sink_id: str, *, topic: str | None = None, secrets: Provider | None = None, **settings: Any
    ) -> None:
        ours = {name: value for name, value in settings.items() if name in NAMES}
        if isinstance(ours.get("topics"), list | set | frozenset):
            ours["topics"] = tuple(ours["topics"])
        self.settings = WriterSettings(sink_id=sink_id, topic=topic, **ours)
        rest = {name: value for name, value in settings.items() if name not in NAMES}
        self.kafka = KafkaSettings.of({"bootstrap_servers": bootstrap, **rest}, secrets)
        self._metrics: list[BatchMetrics] = []
        self._begin()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write the batch. This is what `foreachBatch` calls."""
        with interrupts(), self.batch(df, batch_id) as batch:
            batch.write(df)

    def batch(self, df: DataFrame, batch_id: int) -> Batch:
        """Several writes as one transaction: `with writer.batch(df, batch_id) as b: b.write(df1, topic="a"); b.write(df2, topic="b")`."""
        with interrupts():
            identity = identify(df, int(batch_id), query=self.settings.query, checkpoint=self.settings.checkpoint)
        return self.batch_of(self._hold(identity.run), identity)

    def job(self, job: str) -> Hold:
        """The hold of a job without a query (`txn.spark.once`): under its own transactional id and its own key in the ledger."""
        with self._lock:
            hold = self._holds[job] = Hold(self.settings, self.kafka, job=job)
        return hold

    def batch_of(self, hold: Hold, identity: Identity) -> Batch:
        """A batch that is not begun."""
        batch = Batch(self, hold, identity)
        with self._lock:
            self._metrics = [*self._metrics[1 - HISTORY :], batch.metrics]
        return batch

    @property
    def metrics(self) -> dict[str, Any]:
        """Of the newest batch; empty before the first."""
        with self._lock:
            return self._metrics[-1].as_dict() if self._metrics else {}

    @property
    def history(self) -> list[dict[str, Any]]:
        """Of the newest batches, the newest last."""
        with self._lock:
            return [each.as_dict() for each in self._metrics]

    def explain(self, df: DataFrame, topic: str | None = None) -> str:
        """How this DataFrame would be written, a streaming one as well: `print(writer.explain(df))`. It writes nothing, and takes nothing
        over; brokers are asked for partitions and for the ledger's newest entry."""
        return explain(self, df, topic)

    def close(self) -> None:
        """Give the sink back: what is open is aborted. A writer that is used again takes it over again."""
        with self._lock:
            holds = [*self._holds.values()]
            self._holds.clear()
        for hold in holds:
            hold.close()
        self._guards.close()

    def __repr__(self) -> str:
        return f"ExactlyOnceKafkaWriter({self.settings.sink_id!r}, topic={self.settings.topic!r}, guard={self.settings.guard!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "kafka": self.kafka}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.settings = state["settings"]
        self.kafka = state["kafka"]
        self._metrics = []
        self._begin()

    # -- what a batch asks for -------------------------------------------------------------------------------------------------

    def execute(
        self, df: DataFrame, topic: str | None, hold: Hold, transaction: Transaction, metrics: BatchMetrics, *, staged: bool
    ) -> Outcome:
        """Write a DataFrame into the transaction."""
        columns = read_columns(df.schema, topic if topic is not None else self.settings.topic)
        frame = select_columns(df, columns)
        with metrics.phase("plan"):
            counts = self._counts(frame, columns, hold)
            if not counts:
                return Outcome()
            routes = Routes.of(counts, turn=metrics.batch % TURNS)
            tasks = self.tasks_for(df, routes, columns)
            guard, reason = self.choose_guard(df, columns, tasks, metrics)
            if guard == TurnsGuard.name:
                tasks = self.tasks_for(df, routes, columns, guard)
        plan = WritePlan(
            frame=frame,
            columns=columns,
            routes=routes,
            tasks=tasks,
            staged=staged,
            kafka=self.kafka,
            keep_bad=self.settings.dead_letters is not None,
            bad_row_limit=self.settings.bad_row_limit,
            timeout_s=self.settings.timeout_s,
            barrier_wait_s=self.settings.barrier_wait_ms / 1000.0,
        )
        metrics.guard, metrics.guard_reason, metrics.staged = guard, reason, staged
        log.debug("sink %s: batch %d: guard %s: %s", hold.key, metrics.batch, guard, reason)
        if guard == "driver":
            outcome = write_at_driver(plan, transaction, metrics, hold.opening, hold.producer.record_limit)
        else:
            outcome = write_on_executors(plan, self._guards.get(guard, df), transaction, metrics, hold.opening)
        if is_too_much(outcome.bad, self.settings):
            raise refuse(outcome.bad, self.settings, metrics.batch)
        return outcome

    def dispose_of(self, bad: Sequence[Summary], hold: Hold, transaction: Transaction, metrics: BatchMetrics) -> None:
        """Write the rows that cannot be written where such rows go."""
        metrics.bad_rows = len(bad)
        topic = self.settings.dead_letters
        if bad and topic is not None:
            bury(bad, topic, transaction, sink=self.settings.sink_id, batch=metrics.batch, largest=hold.producer.record_limit[0])

    def tasks_for(self, df: DataFrame, routes: Routes, columns: SinkColumns, guard: str = "") -> int:
        """How many Spark tasks write."""
        # A task needs a partition of its own, in each topic where rows are not brought to it, unless it writes to all of them by turns.
        most = SHARED_TASKS if guard == TurnsGuard.name and columns.placed else routes.total if columns.placed else min(routes.counts)
        if self.settings.tasks is not None:
            return min(self.settings.tasks, most)
        context = context_of(df.sparkSession)
        return most if context is None else max(1, min(most, slots_of(context)))

    def choose_guard(self, df: DataFrame, columns: SinkColumns, tasks: int, metrics: BatchMetrics) -> tuple[str, str]:
        """The guard, and why it is that one. Raises GuardUnavailable."""
        before = next((each.bytes for each in reversed(self._metrics) if each.ledger == "committed" and each is not metrics), None)
        return self._guards.choose(df, columns, tasks, metrics, before)

    # -- small print -----------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[str, Hold] = {}
        self._guards = Guards(self.settings, self.kafka)
        atexit.register(_close, weakref.ref(self))

    def _hold(self, run: str) -> Hold:
        """That of a query's run. One of an earlier run is ended: a callback that outlives `stop()` must not touch the new run's."""
        with self._lock:
            hold = self._holds.get(run)
            if hold is not None:
                return hold
            earlier, self._holds = self._holds, {}
            hold = self._holds[run] = Hold(self.settings, self.kafka)
        for each in earlier.values():
            each.retire()
        return hold

    def _counts(self, frame: DataFrame, columns: SinkColumns, hold: Hold) -> Mapping[str, int]:
        """The partitions of the topics that the batch may go to; nothing where the batch has no rows."""
        if columns.topic is not None:
            topics: Sequence[str] = (columns.topic,)
        elif self.settings.topics is not None:
            topics = self.settings.topics
        else:
            topics = [row[0] for row in frame.select(TOPIC).distinct().collect() if row[0] is not None]
            if not topics and frame.isEmpty():
                return {}
        if not topics:
            raise BadRows(f"sink {hold.key!r}: no row has a topic: set the option topic")
        return {topic: len(hold.producer.partitions_for(topic, hold.timeout_s)) for topic in topics}


def _close(writer: weakref.ref[ExactlyOnceKafkaWriter]) -> None:
    alive = writer()
    if alive is not None:
        alive.close()
