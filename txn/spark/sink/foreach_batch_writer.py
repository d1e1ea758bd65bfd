"""The writer that a streaming query calls: each micro-batch into Kafka, visible at once and once.

    writer = ExactlyOnceKafkaWriter("broker:9092", "orders", topic="orders")
    df.writeStream.foreachBatch(writer).option("checkpointLocation", ...).start()

It lives in the driver, and is not sent to executors. `micro_batch` has what is done for one batch.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack

from pyspark.sql import DataFrame

from fencepost.producer.errors import Misuse
from fencepost.txn.spark.connection.secrets import KafkaSettings, Provider
from fencepost.txn.spark.sink.explain import explain
from fencepost.txn.spark.sink.failure_policy import interrupts
from fencepost.txn.spark.sink.keywords import WriterKeywords
from fencepost.txn.spark.sink.metrics import MetricsHistory, SparkWriterStats
from fencepost.txn.spark.sink.micro_batch import Batch
from fencepost.txn.spark.sink.query_identity import Identity, identify
from fencepost.txn.spark.sink.settings import NAMES, WriterSettings
from fencepost.txn.spark.sink.sink_session import SinkSession
from fencepost.txn.spark.sink.write_execution import WriteExecution
from fencepost.txn.spark.sink.writer_sessions import WriterSessions

BATCH_MAX: Final = (1 << 63) - 1


class ExactlyOnceKafkaWriter:
    """For `foreachBatch`. `bootstrap`: brokers. `sink_id` and the settings after it: `WriterSettings`. All others are the producer's, in
    either spelling, or Spark's `kafka.*` options. `secrets`: a function that returns those that must not be pickled.

    The DataFrame's columns are those of Spark's Kafka sink: value, and optionally key, headers, topic, partition, timestamp. The errors of
    `txn.spark.errors` and of the ledger fail the query; then nothing of the batch is visible.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        sink_id: str,
        *,
        topic: str | None = None,
        secrets: Provider | None = None,
        **settings: Unpack[WriterKeywords],
    ) -> None:
        ours: dict[str, Any] = {name: value for name, value in settings.items() if name in NAMES}
        if isinstance(ours.get("topics"), Iterable) and not isinstance(ours["topics"], str | bytes | Mapping):
            ours["topics"] = tuple(ours["topics"])
        self.settings = WriterSettings(sink_id=sink_id, topic=topic, **ours)
        rest = {name: value for name, value in settings.items() if name not in NAMES}
        self.kafka = KafkaSettings.of({"bootstrap_servers": bootstrap, **rest}, secrets, names=NAMES)
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
        sink_session, begins = self._sessions.of_run(identity.run)
        if begins:
            self._execution.forget_limits()
        return self.batch_of(sink_session, identity)

    def job(self, job: str) -> SinkSession:
        """The session of a job without a query (`txn.spark.sink.batch_job`), with its own transactional id and ledger key."""
        return self._sessions.of_job(job)

    def batch_of(self, sink_session: SinkSession, identity: Identity) -> Batch:
        """A batch that has not begun."""
        batch = Batch(self._execution, self._sessions, sink_session, identity)
        self._history.add(batch.metrics)
        return batch

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the newest batch; empty before the first."""
        return self._history.newest()

    @property
    def history(self) -> list[dict[str, Any]]:
        """The metrics of the newest batches, the newest last."""
        return self._history.all()

    def stats(self) -> SparkWriterStats:
        """The totals of all batches, for `prometheus_text`. Any thread may call this while batches are written."""
        return self._history.stats(self.settings.sink_id)

    def explain(self, df: DataFrame, topic: str | None = None) -> str:
        """How this DataFrame, also a streaming one, would be written: `print(writer.explain(df))`. It writes nothing and takes nothing
        over. It asks brokers for partitions and for the ledger's newest entry."""
        return explain(self._execution, df, topic)

    def close(self) -> None:
        """Give the sink up: an open transaction is aborted. If the writer is used again, it takes the sink over again."""
        self._sessions.close()
        self._execution.close()

    def __repr__(self) -> str:
        return f"ExactlyOnceKafkaWriter({self.settings.sink_id!r}, topic={self.settings.topic!r}, guard={self.settings.guard!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "kafka": self.kafka}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.settings = state["settings"]
        self.kafka = state["kafka"]
        self._begin()

    # -- small print -----------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._history = MetricsHistory()
        self._sessions = WriterSessions(self.settings, self.kafka)
        self._execution = WriteExecution(self.settings, self.kafka, self._history)
        atexit.register(_close, weakref.ref(self))


def _close(writer: weakref.ref[ExactlyOnceKafkaWriter]) -> None:
    alive = writer()
    if alive is not None:
        alive.close()
