"""The writer that a streaming query calls: each micro-batch into Kafka, visible at once and once.

    writer = ExactlyOnceKafkaWriter("broker:9092", "orders", topic="orders")
    df.writeStream.foreachBatch(writer).option("checkpointLocation", ...).start()

It lives in the driver. What goes to executors is `task`, without it. Everything about one batch is in `batch`.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from producer.config import read_settings
from producer.core.errors import Misuse
from producer.front import check_topic
from txn.ledger_errors import LedgerBusy
from txn.spark.at_driver import write_at_driver
from txn.spark.bad_rows import bury, check_buried, check_letters, count_of, is_too_much, refuse
from txn.spark.batch import Batch, Identity
from txn.spark.choosing import ROW_BYTES, slots_that_may_come
from txn.spark.columns import TOPIC, SinkColumns, read_columns, select_columns
from txn.spark.errors import GuardUnavailable, TooMuch
from txn.spark.executing import write_on_executors
from txn.spark.explaining import explain
from txn.spark.failures import interrupts
from txn.spark.guarding import Guards
from txn.spark.guards import BarrierGuard, KafkaClaimsGuard, TurnsGuard
from txn.spark.hold import Hold
from txn.spark.looking import look_first
from txn.spark.metrics import BatchMetrics
from txn.spark.nowhere import nowhere
from txn.spark.plan import Outcome, WritePlan
from txn.spark.query import identify
from txn.spark.routing import Routes
from txn.spark.secrets import KafkaSettings, Provider
from txn.spark.summary import Summary
from txn.spark.topic_limits import TopicLimits, ask_limits
from txn.spark.writer_settings import NAMES, WriterSettings
from txn.transaction import Transaction

log = logging.getLogger("fencepost.spark")

TURNS: Final = 1 << 20
"""Keyless rows begin elsewhere in each batch, around and around."""
BATCH_MAX: Final = (1 << 63) - 1
LIMITS_S: Final = 60.0
"""For how long it is believed what topics take."""
NOT_ASKED: Final = (frozenset[str](), TopicLimits(), 0.0)
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
        self.kafka = KafkaSettings.of({"bootstrap_servers": bootstrap, **rest}, secrets, names=NAMES)
        self._metrics: list[BatchMetrics] = []
        self._begin()

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write the batch. This is what `foreachBatch` calls."""
        with interrupts(), self.batch(df, batch_id) as batch:
            batch.write(df)

    def batch(self, df: DataFrame, batch_id: int) -> Batch:
        """Several writes as one transaction: `with writer.batch(df, batch_id) as b: b.write(df1, topic="a"); b.write(df2, topic="b")`."""
        given: object = batch_id
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= BATCH_MAX:
            raise Misuse(f"batch_id={batch_id!r}: a whole number from 0 to {BATCH_MAX}, as Spark calls foreachBatch's function with")
        with interrupts():
            identity = identify(df, batch_id, query=self.settings.query, checkpoint=self.settings.checkpoint)
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

    def claim(self, hold: Hold, identity: Identity) -> None:
        """A batch is about to be written under the hold. Raises what speaks against it: LedgerBusy where this writer is at work for another
        query, which goes on, Misuse where it is for this one, and before the sink is taken over what the ledger says. A query whose turn
        comes meanwhile waits for the decision: one that is refused must not have been in another one's way."""
        with self._deciding:
            with self._lock:
                for other in self._holds.values():
                    if other is hold or other.at_work is None or other.at_work.query == identity.query:
                        continue
                    if self.settings.on_new_checkpoint != "reset":
                        raise LedgerBusy(
                            f"sink {hold.key!r}: to be written is {identity.full_name}, and this writer is writing"
                            f" {other.at_work.full_name}: a writer is for one query, which goes on. Give the other one a writer and a sink"
                            " id of its own"
                        )
                if hold.at_work is not None:
                    raise Misuse(
                        f"sink {hold.key!r}: {hold.at_work.full_name} is under way in another call of this writer, which writes one after"
                        " the other. Several writes of one batch go inside `with writer.batch(df, batch_id) as batch:`, each by"
                        " batch.write(...)"
                    )
            if not hold.held:
                look_first(hold, identity, self.settings)
            hold.at_work = identity

    def retire_others(self, hold: Hold) -> None:
        """The hold is about to take the sink over. Those of earlier runs are ended: a callback that outlives `stop()` must not touch the
        new run's."""
        with self._lock:
            earlier = {run: each for run, each in self._holds.items() if each is not hold}
            for run in earlier:
                del self._holds[run]
        for each in earlier.values():
            each.retire()

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
        self,
        df: DataFrame,
        topic: str | None,
        hold: Hold,
        transaction: Transaction,
        metrics: BatchMetrics,
        *,
        staged: bool,
        collects: bool = True,
    ) -> Outcome:
        """Write a DataFrame into the transaction. `collects`: whether that may be tried from the driver."""
        columns = read_columns(df.schema, topic if topic is not None else self.settings.topic)
        frame = select_columns(df, columns)
        with metrics.phase("plan"):
            topics = self._topics(frame, columns)
            if topics is None:
                return Outcome()
            if not topics:
                return self._accepted(Outcome(bad=nowhere(frame, self.settings)), metrics)
            letters = () if self.settings.dead_letters is None else (self.settings.dead_letters,)
            counts = {topic: len(hold.producer.partitions_for(topic, hold.timeout_s)) for topic in topics}
            routes = Routes.of(counts, turn=metrics.batch % TURNS)
            limits = self._limits_of([*routes.topics, *letters])
            check_letters(self.settings, limits)
            guard, reason = self.choose_guard(df, columns, routes, metrics, collects=collects)
        plan = WritePlan(
            frame=frame,
            columns=columns,
            routes=routes,
            tasks=self.tasks_for(df, routes, columns, guard),
            moves=self._moves(df, routes, columns, guard),
            staged=staged,
            kafka=self.kafka,
            keep_bad=self.settings.dead_letters is not None,
            bad_row_limit=self.settings.bad_rows_taken,
            limits=limits,
            collect_bytes_max=self.settings.collect_bytes_max,
            timeout_s=self.settings.timeout_s,
            barrier_wait_s=self.settings.barrier_wait_ms / 1000.0,
        )
        before, metrics.guard = metrics.guard, guard
        metrics.guard_reason, metrics.staged = reason, staged
        log.debug("sink %s: batch %d: guard %s: %s", hold.key, metrics.batch, guard, reason)
        if guard == "driver":
            try:
                outcome = write_at_driver(plan, transaction, metrics, hold.opening, hold.producer.record_limit)
            except TooMuch as error:
                if self.settings.guard == "driver":
                    raise GuardUnavailable(f"guard='driver': {error}: raise that, or take guard='auto'") from error
                if before:
                    # An earlier write of this batch has partitions, which nobody else can write to in its transaction: all writes anew.
                    raise
                log.info("sink %s: %s: tasks write it", hold.key, error)
                metrics.guard = ""
                return self.execute(df, topic, hold, transaction, metrics, staged=staged, collects=False)
        else:
            outcome = write_on_executors(plan, self._guards.get(guard, df), transaction, metrics, hold.opening)
        return self._accepted(outcome, metrics)

    def dispose_of(self, bad: Sequence[Summary], hold: Hold, transaction: Transaction, metrics: BatchMetrics) -> None:
        """Write the rows that cannot be written where such rows go."""
        metrics.bad_rows = len(bad)
        topic = self.settings.dead_letters
        if bad and topic is not None:
            limits = self._limits_of([topic])
            check_letters(self.settings, limits)
            largest = min(hold.producer.record_limit[0], limits.bytes_max(topic))
            sent = bury(bad, topic, transaction, sink=self.settings.sink_id, batch=metrics.batch, largest=largest)
            check_buried(sent, topic, hold.timeout_s)

    def tasks_for(self, df: DataFrame, routes: Routes, columns: SinkColumns, guard: str) -> int | None:
        """How many Spark tasks write; None: as many as Spark makes of the DataFrame."""
        if guard == TurnsGuard.name:
            return self.settings.tasks
        # A task needs a partition of its own, in each topic where rows are not brought to it, unless it writes to all of them by turns.
        moves = self._moves(df, routes, columns, guard)
        most = routes.total if moves else min(routes.counts)
        if self.settings.tasks is not None:
            return min(self.settings.tasks, most)
        slots = slots_that_may_come(df.sparkSession)
        return most if slots is None or not (moves or guard == BarrierGuard.name) else max(1, min(most, slots))

    def _moves(self, df: DataFrame, routes: Routes, columns: SinkColumns, guard: str) -> bool:
        """Whether rows are brought to tasks that have their partitions: where they say which these are, and where tasks would otherwise
        have to be fewer than could run at once, as each needs a partition of its own."""
        if guard == TurnsGuard.name or columns.placed:
            return guard != TurnsGuard.name
        slots = slots_that_may_come(df.sparkSession)
        return guard == KafkaClaimsGuard.name and self.settings.tasks is None and (slots is None or slots > min(routes.counts))

    def choose_guard(
        self, df: DataFrame, columns: SinkColumns, routes: Routes, metrics: BatchMetrics, *, collects: bool = True
    ) -> tuple[str, str]:
        """The guard, and why it is that one. Raises GuardUnavailable."""
        earlier = [each for each in self._metrics if each.ledger == "committed" and each is not metrics]
        before = earlier[-1].bytes + ROW_BYTES * earlier[-1].rows if earlier and collects else None
        tasks = self.tasks_for(df, routes, columns, BarrierGuard.name)
        assert tasks is not None
        return self._guards.choose(df, columns, tasks, metrics, before)

    # -- small print -----------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._deciding = threading.Lock()
        self._holds: dict[str, Hold] = {}
        self._limits: tuple[frozenset[str], TopicLimits, float] = NOT_ASKED
        self._guards = Guards(self.settings, self.kafka)
        atexit.register(_close, weakref.ref(self))

    def _limits_of(self, topics: Sequence[str]) -> TopicLimits:
        """What topics take. It is asked again every now and then, as it may be changed while a query runs."""
        asked, limits, at = self._limits
        if not asked.issuperset(topics) or time.monotonic() - at >= LIMITS_S:
            asked = asked.union(topics)
            limits = ask_limits(read_settings(self.kafka.resolve()), sorted(asked), self.settings.timeout_s)
            self._limits = asked, limits, time.monotonic()
        return limits

    def _hold(self, run: str) -> Hold:
        """That of a query's run."""
        with self._lock:
            if run not in self._holds:
                self._holds[run] = Hold(self.settings, self.kafka)
                self._limits = NOT_ASKED
            return self._holds[run]

    def _accepted(self, outcome: Outcome, metrics: BatchMetrics) -> Outcome:
        """Raises BadRows where its bad rows are too many."""
        metrics.bad_rows = count_of(outcome.bad)
        if is_too_much(outcome.bad, self.settings):
            raise refuse(outcome.bad, self.settings, metrics.batch)
        return outcome

    def _topics(self, frame: DataFrame, columns: SinkColumns) -> Sequence[str] | None:
        """The topics that the batch may go to; None where it has no rows. A row with what no topic can be called, or with the name of one
        that is for something else, is a bad row."""
        own = self.settings.own_topics
        if columns.topic in own:
            raise Misuse(f"topic={columns.topic!r}: a topic of its own, not the one that {own[columns.topic]}")
        if columns.topic is not None:
            return (columns.topic,)
        if self.settings.topics is not None:
            return self.settings.topics
        # As bytes: to a collation two names may be one.
        found = [row[0] for row in frame.select(F.col(TOPIC).cast("binary")).distinct().collect()]
        names = [bytes(name).decode(errors="replace") for name in found if name is not None]
        return [name for name in names if name not in own and _is_name(name)] if found else None


def _is_name(topic: str) -> bool:
    try:
        check_topic(topic)
    except ValueError:
        return False
    return True


def _close(writer: weakref.ref[ExactlyOnceKafkaWriter]) -> None:
    alive = writer()
    if alive is not None:
        alive.close()
