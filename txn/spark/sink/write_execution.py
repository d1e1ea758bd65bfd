"""How the writes of one writer are executed: the plan of each, its guard, and the driver or the executors that write it.

It begins and ends no transaction: `micro_batch` does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.producer.base_producer import check_topic
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import Misuse
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.connection.spark_context import slots_that_may_come
from fencepost.txn.spark.errors import GuardUnavailable, TooMuch
from fencepost.txn.spark.guards.guards import KafkaClaimsGuard, TurnsGuard
from fencepost.txn.spark.guards.selection import ROW_BYTES
from fencepost.txn.spark.rows.columns import TOPIC, SinkColumns, read_columns, select_columns
from fencepost.txn.spark.rows.routing import Routes
from fencepost.txn.spark.rows.task_summary import Summary
from fencepost.txn.spark.rows.topic_limits import TopicLimits, ask_limits
from fencepost.txn.spark.sink.dead_letters import (
    await_dead_letters,
    check_dead_letter_topic,
    count_of,
    is_too_much,
    refuse,
    send_dead_letters,
)
from fencepost.txn.spark.sink.driver_write import write_at_driver
from fencepost.txn.spark.sink.metrics import BatchMetrics, MetricsHistory
from fencepost.txn.spark.sink.no_topic import nowhere
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.sink_session import SinkSession
from fencepost.txn.spark.sink.write_job import write_on_executors
from fencepost.txn.spark.sink.write_plan import Outcome, WritePlan
from fencepost.txn.spark.sink.writer_guards import WriterGuards
from fencepost.txn.transaction import Transaction

log = logging.getLogger("fencepost.spark")

ROTATIONS: Final = 1 << 20
"""Rows without a key begin at another partition in each batch. After so many batches the cycle begins again."""
LIMITS_S: Final = 60.0
"""How long the limits of topics are kept."""


class WriteExecution:
    """See the module. `history`: the metrics of previous batches, whose size decides whether the driver writes."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings, history: MetricsHistory) -> None:
        self.settings = settings
        self.kafka = kafka
        self._history = history
        self._limits = TopicLimits()
        self._asked_at: dict[str, float] = {}
        self._guards = WriterGuards(settings, kafka)

    def execute(
        self,
        df: DataFrame,
        topic: str | None,
        sink_session: SinkSession,
        transaction: Transaction,
        metrics: BatchMetrics,
        *,
        staged: bool,
        collects: bool = True,
    ) -> Outcome:
        """Write a DataFrame into the transaction. `collects`: whether the driver may try to write it."""
        columns = read_columns(df.schema, topic if topic is not None else self.settings.topic)
        frame = select_columns(df, columns)
        with metrics.phase("plan"):
            topics = self._topics(frame, columns)
            if topics is None:
                return Outcome()
            if not topics:
                return self._accepted(Outcome(bad=nowhere(frame, self.settings)), metrics)
            dead_letter_topics = () if self.settings.dead_letters is None else (self.settings.dead_letters,)
            counts = {topic: len(sink_session.producer.partitions_for(topic, sink_session.timeout_s)) for topic in topics}
            routes = Routes.of(counts, rotation=metrics.batch % ROTATIONS)
            limits = self._limits_of([*routes.topics, *dead_letter_topics])
            check_dead_letter_topic(self.settings, limits)
            guard, reason = self.choose_guard(df, metrics, collects=collects)
        plan = WritePlan(
            frame=frame,
            columns=columns,
            routes=routes,
            tasks=self.tasks_for(df, routes, columns, guard),
            moves=self.moves(df, routes, columns, guard),
            staged=staged,
            kafka=self.kafka,
            keep_bad=self.settings.dead_letters is not None,
            bad_row_limit=self.settings.bad_rows_taken,
            limits=limits,
            collect_bytes_max=self.settings.collect_bytes_max,
            timeout_s=self.settings.timeout_s,
        )
        before, metrics.guard = metrics.guard, guard
        metrics.guard_reason, metrics.staged = reason, staged
        log.debug("sink %s: batch %d: guard %s: %s", sink_session.key, metrics.batch, guard, reason)
        if guard == "driver":
            try:
                outcome = write_at_driver(plan, transaction, metrics, sink_session.opening, sink_session.producer.record_limit)
            except TooMuch as error:
                if self.settings.guard == "driver":
                    raise GuardUnavailable(f"guard='driver': {error}: raise that, or take guard='auto'") from error
                if before:
                    # An earlier write of this batch has partitions, and only its writer can write to them in its transaction: all writes
                    # are repeated.
                    raise
                log.info("sink %s: %s: tasks write it", sink_session.key, error)
                metrics.guard = ""
                return self.execute(df, topic, sink_session, transaction, metrics, staged=staged, collects=False)
        else:
            outcome = write_on_executors(plan, self._guards.get(guard, df), transaction, metrics, sink_session.opening)
        return self._accepted(outcome, metrics)

    def dispose_of(self, bad: Sequence[Summary], sink_session: SinkSession, transaction: Transaction, metrics: BatchMetrics) -> None:
        """Write the bad rows to the topic of dead letters."""
        metrics.bad_rows = len(bad)
        topic = self.settings.dead_letters
        if bad and topic is not None:
            limits = self._limits_of([topic])
            check_dead_letter_topic(self.settings, limits)
            largest = min(sink_session.producer.record_limit[0], limits.bytes_max(topic))
            sent = send_dead_letters(bad, topic, transaction, sink=self.settings.sink_id, batch=metrics.batch, largest=largest)
            await_dead_letters(sent, topic, sink_session.timeout_s)

    def tasks_for(self, df: DataFrame, routes: Routes, columns: SinkColumns, guard: str) -> int | None:
        """The number of Spark tasks that write; None: as many as the DataFrame has."""
        if guard == TurnsGuard.name:
            return self.settings.tasks
        # Without leases each task needs its own partition in each topic, unless rows are shuffled.
        moves = self.moves(df, routes, columns, guard)
        most = routes.total if moves else min(routes.counts)
        if self.settings.tasks is not None:
            return min(self.settings.tasks, most)
        slots = slots_that_may_come(df.sparkSession)
        return most if slots is None or not moves else max(1, min(most, slots))

    def moves(self, df: DataFrame, routes: Routes, columns: SinkColumns, guard: str) -> bool:
        """Whether tasks get rows by a shuffle. Rows with a key or a partition are shuffled, except under the guard `turns`. Rows without
        either are shuffled if otherwise fewer tasks could write than can run at once, because each task needs its own partition."""
        if guard == TurnsGuard.name or columns.placed:
            return guard != TurnsGuard.name
        slots = slots_that_may_come(df.sparkSession)
        return guard == KafkaClaimsGuard.name and self.settings.tasks is None and (slots is None or slots > min(routes.counts))

    def choose_guard(self, df: DataFrame, metrics: BatchMetrics, *, collects: bool = True) -> tuple[str, str]:
        """The guard, and the reason. Raises GuardUnavailable."""
        earlier = self._history.committed_before(metrics)
        before = earlier.bytes + ROW_BYTES * earlier.rows if earlier is not None and collects else None
        return self._guards.choose(df, metrics, before)

    def forget_limits(self) -> None:
        """A run of the query begins: the topics' limits are asked for again."""
        self._asked_at.clear()

    def close(self) -> None:
        """Close the guards."""
        self._guards.close()

    # -- small print -----------------------------------------------------------------------------------------------------------

    def _limits_of(self, topics: Sequence[str]) -> TopicLimits:
        """The limits of these topics, and perhaps of others. They are asked for again from time to time, because they may change while a
        query runs. Topics that no batch names any more are not."""
        self._asked_at = {topic: at for topic, at in self._asked_at.items() if time.monotonic() - at < LIMITS_S}
        unknown = sorted(set(topics).difference(self._asked_at))
        if unknown:
            found = ask_limits(read_settings(self.kafka.resolve()), unknown, self.settings.timeout_s)
            known = {topic: limits for topic, limits in self._limits.topics.items() if topic in self._asked_at}
            self._limits = replace(found, topics={**known, **found.topics})
            self._asked_at.update(dict.fromkeys(unknown, time.monotonic()))
        return self._limits

    def _accepted(self, outcome: Outcome, metrics: BatchMetrics) -> Outcome:
        """Raises BadRows if there are too many bad rows."""
        metrics.bad_rows = count_of(outcome.bad)
        if is_too_much(outcome.bad, self.settings):
            raise refuse(outcome.bad, self.settings, metrics.batch)
        return outcome

    def _topics(self, frame: DataFrame, columns: SinkColumns) -> Sequence[str] | None:
        """The topics of the batch's rows; None without rows. A row with an invalid topic name, or with a topic of another purpose, is a bad
        row."""
        own = self.settings.own_topics
        if columns.topic in own:
            raise Misuse(f"topic={columns.topic!r}: a topic of its own, not the one that {own[columns.topic]}")
        if columns.topic is not None:
            return (columns.topic,)
        if self.settings.topics is not None:
            return self.settings.topics
        # As bytes, because a collation may treat two names as one.
        found = [row[0] for row in frame.select(F.col(TOPIC).cast("binary")).distinct().collect()]
        names = [bytes(name).decode(errors="replace") for name in found if name is not None]
        return [name for name in names if name not in own and _is_name(name)] if found else None


def _is_name(topic: str) -> bool:
    try:
        check_topic(topic)
    except ValueError:
        return False
    return True
