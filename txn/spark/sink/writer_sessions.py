"""The sessions of one writer: one for each run of its query, or one for a job. One session at a time has the sink."""

from __future__ import annotations

from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.keyed_topic.errors import LedgerBusy
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.sink.query_identity import Identity
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.sink_session import SinkSession
from fencepost.txn.spark.sink.takeover_check import look_first


class WriterSessions:
    """See the module."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings) -> None:
        self._settings = settings
        self._kafka = kafka
        self._lock = RLock()
        self._deciding = RLock()
        self._sessions: dict[str, SinkSession] = {}

    def of_run(self, run: str) -> tuple[SinkSession, bool]:
        """The session of a query's run, and whether it is new."""
        with self._lock:
            begins = run not in self._sessions
            if begins:
                self._sessions[run] = SinkSession(self._settings, self._kafka)
            return self._sessions[run], begins

    def of_job(self, job: str) -> SinkSession:
        """A new session of a job."""
        with self._lock:
            sink_session = self._sessions[job] = SinkSession(self._settings, self._kafka, job=job)
        return sink_session

    def claim(self, sink_session: SinkSession, identity: Identity) -> None:
        """A batch is about to be written in the session. Raises LedgerBusy if this writer is writing for another query, which continues,
        and Misuse if it is writing for this one. Before a takeover it also raises the ledger's refusal. Another query waits for the
        decision meanwhile, because a refused query must not have disturbed it."""
        with self._deciding:
            with self._lock:
                self._check(sink_session, identity)
            if not sink_session.held:
                look_first(sink_session, identity, self._settings)
            sink_session.at_work = identity

    def _check(self, sink_session: SinkSession, identity: Identity) -> None:
        """The refusals of this writer."""
        for other in self._sessions.values():
            if other is sink_session or other.at_work is None or other.at_work.query == identity.query:
                continue
            if self._settings.on_new_checkpoint != "reset":
                raise LedgerBusy(
                    f"sink {sink_session.key!r}: to be written is {identity.full_name}, and this writer is writing"
                    f" {other.at_work.full_name}: a writer is for one query, and that query continues. Give the other"
                    " one a writer and a sink id of its own"
                )
        if sink_session.at_work is not None:
            raise Misuse(
                f"sink {sink_session.key!r}: {sink_session.at_work.full_name} is under way in another call of this writer,"
                " which writes one batch after another. Several writes of one batch go inside"
                " `with writer.batch(df, batch_id) as batch:`, each by batch.write(...)"
            )

    def retire_others(self, sink_session: SinkSession) -> None:
        """The session is about to take the sink over. The sessions of earlier runs end: a callback that outlives `stop()` must not use the
        new run's."""
        with self._lock:
            earlier, self._sessions = self._sessions, only(sink_session, self._sessions)
        for each in earlier.values():
            if each is not sink_session:
                each.retire()

    def close(self) -> None:
        """Give the sink up: an open transaction is aborted."""
        with self._lock:
            sessions = [*self._sessions.values()]
            self._sessions.clear()
        for sink_session in sessions:
            sink_session.close()


def only(sink_session: SinkSession, sessions: dict[str, SinkSession]) -> dict[str, SinkSession]:
    """This session, under its runs."""
    return {run: each for run, each in sessions.items() if each is sink_session}
