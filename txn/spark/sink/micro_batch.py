"""One micro-batch: any number of writes, and its ledger record, in one Kafka transaction: visible together, or not at all.

A write is executed when it is called. If the transaction cannot be committed, all writes of the batch are executed again in a new one, up
to `max_reruns` times. So the DataFrames must stay the same during the block. A batch that the ledger has is not written again, but its
DataFrames are executed, because Spark checks that the state of stateful operators was committed. After a permanent failure of a write the
transaction is gone, with the writes before it. Then nothing of the batch is committed, even if the caller catches the error inside the
block.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, NoReturn, Self

from pyspark.sql import DataFrame

from fencepost.producer.errors import FencepostError, Misuse
from fencepost.txn.errors import CommitOutcomeUnknown, IllegalCall
from fencepost.txn.ledger.batch_decision import Decision
from fencepost.txn.ledger.entry import LedgerEntry
from fencepost.txn.protocol.own_topics import check_own_topic
from fencepost.txn.spark.connection.spark_context import context_of, described
from fencepost.txn.spark.errors import BatchFailed, DriverUnreachable, QueryStopped, SinkTakenOver, TransactionTooLong
from fencepost.txn.spark.sink.failure_policy import Course, course_of, interrupts, refuse_stopped
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.permanent_errors import cause_of, executors_words
from fencepost.txn.spark.sink.query_identity import Identity
from fencepost.txn.spark.sink.sink_session import SinkSession
from fencepost.txn.spark.sink.write_execution import WriteExecution
from fencepost.txn.spark.sink.write_plan import Outcome, Write
from fencepost.txn.spark.sink.writer_sessions import WriterSessions
from fencepost.txn.transaction import Transaction

log = logging.getLogger("fencepost.spark")

ABORT_S: Final = 10.0


class Batch:
    """See the module. `skipped`: the ledger has the batch. `metrics`: those of the batch, so far."""

    def __init__(self, execution: WriteExecution, sessions: WriterSessions, sink_session: SinkSession, identity: Identity) -> None:
        self.identity = identity
        self.metrics = BatchMetrics(sink=sink_session.key, query=identity.query, batch=identity.batch)
        self.skipped = False
        self._execution = execution
        self._sessions = sessions
        self._settings = execution.settings
        self._sink_session = sink_session
        self._writes: list[Write] = []
        self._outcome = Outcome()
        self._transaction: Transaction | None = None
        self._alone = threading.Lock()
        self._timeouts = 0
        self._expired = False
        self._inside = False
        self._failure: BaseException | None = None

    def write(self, df: DataFrame, topic: str | None = None) -> None:
        """Write a DataFrame with the sink's columns into the batch's transaction. `topic` overrides the writer's topic and the column.

        One write at a time, because writes of one batch share the sequences of their partitions.
        """
        if topic is not None:
            check_own_topic("topic", topic)
        if not self._alone.acquire(blocking=False):
            raise Misuse("another write into this batch is under way: the writes of a batch follow one another")
        try:
            if not self._inside:
                raise Misuse(f"{self.identity.name} has not begun or is over: write inside its block, with writer.batch(...) as batch")
            if self._failure is not None:
                raise self._failed() from self._failure
            if self.skipped:
                self._check_repeated(Write(df, topic))
                with interrupts(), self._described(df):
                    df.write.format("noop").mode("overwrite").save()
                self._writes.append(Write(df, topic))
                return
            self._writes.append(Write(df, topic))
            try:
                self._until_certain(lambda: self._execute(self._writes[-1]))
            except BaseException as error:
                self._failure = error
                raise
        finally:
            self._alone.release()

    # -- its life ------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            with self.metrics.phase("begin"):
                self._sessions.claim(self._sink_session, self.identity)
                self._take()
        except BaseException:
            self.metrics.ledger = "aborted"
            raise
        if self.skipped:
            self.metrics.ledger = "skipped"
            log.info("sink %s: %s is in the ledger: nothing is written", self._sink_session.key, self.identity.full_name)
        self._inside = True
        return self

    def _take(self) -> None:
        """The writer has the sink for this batch, and knows whether to write it."""
        try:
            if self._sink_session.held:
                self._sink_session.look()
            else:
                self._sessions.retire_others(self._sink_session)
                self._sink_session.take_over()
            self.skipped = self._decide() is Decision.SKIP
        except BaseException:
            self._sink_session.at_work = None
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        alone = self._alone.acquire(blocking=False)
        try:
            failed = None if self._failure is None and alone else self._failed(under_way=not alone)
            if error is not None or failed is not None:
                self._abort(best_effort=True)
                self.metrics.ledger = "aborted"
            if error is None and failed is not None:
                raise failed from self._failure
            if error is None and not self.skipped:
                self._until_certain(self._commit)
            if error is None:
                self._sink_session.written = self.identity.batch, (*(self._earlier or ()), *self._writes)
        finally:
            if alone:
                self._alone.release()
            self._inside = False
            self._sink_session.at_work = None
            self._writes.clear()

    def _failed(self, *, under_way: bool = False) -> FencepostError:
        """The error if the block continues or ends without the rows of a failed write."""
        if isinstance(self._failure, QueryStopped):
            return QueryStopped()
        why = "is under way, in another thread: wait for it inside the block"
        if not under_way and self._failure is not None:
            why = f"has failed, and its transaction is aborted: {cause_of(self._failure)}"
        return Misuse(
            f"{self.identity.name} of sink {self._sink_session.key!r} cannot be committed: a write into it {why}. Nothing"
            f" of the batch is visible"
        )

    def _check_repeated(self, write: Write) -> None:
        """The ledger has the batch. Raises Misuse if an earlier call in this run wrote it with other rows. Spark passes a batch once in a
        run, so only the program can pass it twice."""
        earlier = self._earlier
        if earlier is None or any(write.topic == each.topic and write.df.sameSemantics(each.df) for each in earlier):
            return
        raise Misuse(
            f"{self.identity.name} of sink {self._sink_session.key!r} is committed, by an earlier call and without the rows of this"
            " DataFrame. To write several DataFrames in one transaction, use `with writer.batch(df, batch_id) as batch:` and one"
            " batch.write(...) for each. To write them in separate transactions, use one writer with its own sink id for each"
        )

    @property
    def _earlier(self) -> tuple[Write, ...] | None:
        """The writes of earlier calls in this run for this batch; None without such a call."""
        batch, writes = self._sink_session.written
        return writes if batch == self.identity.batch else None

    def _decide(self) -> Decision:
        return self.identity.decide(self._sink_session.entry, self._settings)

    # -- attempts ------------------------------------------------------------------------------------------------------------

    def _until_certain(self, step: Callable[[], None]) -> None:
        """Take the step. If the transaction must be aborted, begin a new one with all writes so far, and take the step again."""
        commits = step == self._commit
        while True:
            try:
                step()
                return
            except BaseException as error:  # noqa: BLE001  # what stops a query comes as any of them
                if self._settled(error):
                    return
            step = self._replay_and_commit if commits else self._replay

    def _replay(self) -> None:
        self._outcome = Outcome()
        self.metrics.ledger = "open"
        for write in self._writes:
            self._execute(write)

    def _replay_and_commit(self) -> None:
        self._replay()
        self._commit()

    def _settled(self, error: BaseException) -> bool:
        """Whether the batch turned out to be committed. False: write it again. Raises if neither is certain."""
        course = course_of(error)
        self.metrics.ledger = "unknown" if course is Course.FIND_OUT else "aborted"
        match course:
            case Course.STOP | Course.GIVE_UP:
                self._abort(best_effort=True)
                if course is Course.STOP and isinstance(error, Exception):
                    raise QueryStopped from None
                raise error
            case Course.FIND_OUT:
                return self._find_out(error)
            case Course.LOST:
                return self._lost(error)
            case _ if self._sink_session.outlived:
                return self._outlived(error)
            case Course.FENCED:
                self._yield(error)
        transaction = self._transaction
        try:
            self._abort(best_effort=False)
        except IllegalCall:
            return self._commit_again(transaction)
        except FencepostError as second:
            self._transaction = transaction
            self._count_rerun(error)
            self._transaction = None
            if course_of(second) in (Course.FENCED, Course.LOST):
                return self._settled(second)
            return self._taken_over_anew(second)
        self._count_rerun(error)
        self._sink_session.read()
        if self._skips_now():
            # This driver has not committed it, so another one has.
            self._yield(error)
        return False

    def _commit_again(self, transaction: Transaction | None) -> bool:
        """The failure interrupted a commit that the coordinator was asked for. Its outcome tells whether the batch is written."""
        assert transaction is not None
        try:
            transaction.commit(self._sink_session.timeout_s)
        except FencepostError as error:
            return self._settled(error)
        self._committed()
        return True

    def _find_out(self, error: BaseException) -> bool:
        """The commit was requested and not answered."""
        assert isinstance(error, CommitOutcomeUnknown)
        try:
            error.resolve(self._sink_session.timeout_s)
        except CommitOutcomeUnknown as unknown:
            log.warning("sink %s: %s; the ledger is asked", self._sink_session.key, unknown)
            if self._taken_over_again(error):
                return True
            self.metrics.ledger = "aborted"
            self._count_rerun(error)
            return False
        except FencepostError as other:
            return self._settled(other)
        self._committed()
        return True

    def _lost(self, error: BaseException) -> bool:
        """The coordinator knows another producer id for the transactional id, or none. The id has expired (transactional.id.expiration.ms),
        and another driver may have registered it since."""
        if self._expired:
            self._yield(error)
        self._expired = True
        return self._taken_over_anew(error)

    def _taken_over_anew(self, error: BaseException) -> bool:
        """Take over once more, unless the ledger shows that another driver has the sink by now."""
        standing = self._sink_session.ledger.standing(self._sink_session.key, self._sink_session.timeout_s)
        opened = standing.open
        others = opened is not None and (opened.query, opened.batch) != (self.identity.query, self.identity.batch)
        if others or standing.committed != self._sink_session.entry:
            self._yield(error)
        log.warning("sink %s: the ledger is unchanged, and the sink is taken over again: %s", self._sink_session.key, error)
        return self._taken_over_again(error)

    def _outlived(self, error: BaseException) -> bool:
        """The transaction was open for too long."""
        self._timeouts += 1
        if self._timeouts > 1 or self._settings.stage == "never":
            if self._sink_session.replaced():
                self._yield(error)
            self._abort(best_effort=True)
            raise TransactionTooLong(
                f"{self.identity.name} of sink {self._sink_session.key!r} was open longer than"
                f" transaction_timeout_ms={self._sink_session.transaction_timeout_ms}"
                + (", with its rows prepared beforehand" if self._timeouts > 1 else " (stage='never')")
                + "; raise it (the brokers allow transaction.max.timeout.ms), give the query more executors or the topic more partitions;"
                " the batch itself cannot become smaller, as its offsets are settled"
            ) from error
        log.warning("sink %s: the transaction outlived its timeout: once more, with the rows prepared beforehand", self._sink_session.key)
        if self._settings.stage == "auto" and not self._sink_session.too_slow:
            self._sink_session.too_slow = True
            log.warning(
                "sink %s: from here on the rows of each batch of this run are prepared beforehand (stage='auto')", self._sink_session.key
            )
        return self._taken_over_again(error)

    def _taken_over_again(self, error: BaseException) -> bool:
        """Take over once more, unless the coordinator shows that another driver has the sink."""
        if self._sink_session.replaced():
            self._yield(error)
        self._transaction = None
        self._sink_session.take_over()
        return self._skips_now()

    def _skips_now(self) -> bool:
        if self._decide() is Decision.SKIP:
            self._count_committed()
            # Further writes of the block belong to the batch that the ledger has.
            self.skipped = True
        return self.skipped

    def _count_rerun(self, error: BaseException) -> None:
        self.metrics.unreachable += isinstance(error, DriverUnreachable)
        most = self._settings.max_reruns
        if self.metrics.reruns >= most:
            self._abort(best_effort=True)
            raise BatchFailed(
                f"{cause_of(error)} (the last cause of {most + 1} for which {self.identity.name} of sink"
                f" {self._sink_session.key!r} was aborted;"
                f" max_reruns={most}; nothing of it is visible)"
            ) from error
        self.metrics.reruns += 1
        log.warning("sink %s: %s is aborted and written again: %s", self._sink_session.key, self.identity.name, cause_of(error))

    def _yield(self, error: BaseException) -> NoReturn:
        """Another driver has the sink, and keeps it."""
        self._sink_session.close()
        doubtful = isinstance(error, CommitOutcomeUnknown)
        fate = "This driver may have committed it; the ledger says so" if doubtful else "Nothing of it was committed by this driver"
        raise SinkTakenOver(
            f"another driver has registered transactional id {self._sink_session.transactional_id!r} (sink"
            f" {self._sink_session.key!r}) while {self.identity.full_name} was written here: {error}. {fate}. Two queries must not share"
            " a sink id; if this query was replaced, it may end"
        ) from error

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def _execute(self, write: Write) -> None:
        if self._transaction is None:
            with self.metrics.phase("begin"):
                self._transaction = self._sink_session.begin(self._entry())
        with executors_words(context_of(write.df.sparkSession)), self._described(write.df):
            outcome = self._execution.execute(
                write.df, write.topic, self._sink_session, self._transaction, self.metrics, staged=self._staged
            )
        self._outcome = self._outcome.and_then(outcome)

    def _described(self, df: DataFrame) -> AbstractContextManager[None]:
        return described(context_of(df.sparkSession), f"fencepost {self._sink_session.key} {self.identity.name}")

    @property
    def _staged(self) -> bool:
        mode = self._settings.stage
        return mode == "always" or (mode == "auto" and self._sink_session.too_slow)

    def _commit(self) -> None:
        if self._transaction is None:
            with self.metrics.phase("begin"):
                self._transaction = self._sink_session.begin(self._entry())
        self._sink_session.opening()
        self._execution.dispose_of(self._outcome.bad, self._sink_session, self._transaction, self.metrics)
        entry = self._entry()
        with self.metrics.phase("ledger"):
            self._sink_session.record(entry)
        for write in self._writes[:1]:
            refuse_stopped(write.df.sparkSession)
        with self.metrics.phase("commit"):
            self._transaction.commit(self._sink_session.timeout_s)
        self._committed(entry)

    def _committed(self, entry: LedgerEntry | None = None) -> None:
        if entry is None:
            self._sink_session.read()
        else:
            self._sink_session.entry = entry
        self._transaction = None
        self._count_committed()

    def _count_committed(self) -> None:
        """The last attempt is what the ledger has."""
        outcome = self._outcome
        self.metrics.ledger = "committed"
        self.metrics.committed_at = time.time()
        self.metrics.rows, self.metrics.bytes = outcome.rows, outcome.bytes
        self.metrics.partitions = len({(each.topic, each.partition) for each in outcome.partitions})

    def _entry(self) -> LedgerEntry:
        written = tuple(each for each in self._outcome.partitions if each.records)
        now_ms = int(time.time() * 1000)
        return self.identity.entry(self._settings.sink_id, self._outcome.rows, written, now_ms, self._sink_session.transactional_id)

    def _abort(self, *, best_effort: bool) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return
        try:
            with self.metrics.phase("abort"):
                transaction.abort(ABORT_S if best_effort else self._sink_session.timeout_s)
        except FencepostError as error:
            if not best_effort:
                raise
            log.warning("sink %s: the abort failed (the coordinator or the next start will abort): %s", self._sink_session.key, error)
            self._sink_session.close()
