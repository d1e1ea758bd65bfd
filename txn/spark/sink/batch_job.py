"""A batch job's DataFrame into Kafka: its rows become visible together, once for each version of the job, however often the job runs.

The job is a micro-batch without a query: the same transaction, guards and ledger record, under the job's own transactional id and ledger
key (`sink_id#job_id`). It does not look at what the DataFrame reads: another DataFrame under a written version is not written.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Any, Final, Unpack

from msgspec import Struct
from pyspark.sql import DataFrame

from fencepost.producer.errors import ConfigError, FencepostError, Misuse
from fencepost.txn.ledger.batch_decision import Decision, decide_once
from fencepost.txn.ledger.entry import LedgerEntry, LedgerPartition, ledger_key
from fencepost.txn.spark.sink.foreach_batch_writer import ExactlyOnceKafkaWriter
from fencepost.txn.spark.sink.keywords import WriterKeywords
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.sink_session import SinkSession

log = logging.getLogger("fencepost.spark")

STREAMING: Final = ("checkpoint", "query", "on_new_checkpoint", "on_missing_ledger", "on_gap")
"""Settings that need a query."""


class JobVersion(Struct, frozen=True, kw_only=True):
    """The identity of the batch: a version of a job."""

    job: str
    batch: int
    query: None = None

    @property
    def name(self) -> str:
        return f"version {self.batch}"

    @property
    def full_name(self) -> str:
        return f"version {self.batch} of job {self.job!r}"

    def decide(self, entry: LedgerEntry | None, settings: WriterSettings) -> Decision:
        """`txn.ledger.batch_decision.decide_once`."""
        return decide_once(entry, settings.sink_id, job=self.job, version=self.batch)

    def entry(self, sink: str, rows: int, partitions: tuple[LedgerPartition, ...], at_ms: int, transactional_id: str) -> LedgerEntry:
        """The entry for the ledger."""
        return LedgerEntry(
            sink=sink,
            query=None,
            batch=self.batch,
            fingerprint=None,
            rows=rows,
            partitions=partitions,
            job=self.job,
            at_ms=at_ms,
            transactional_id=transactional_id,
        )


def write_once(
    df: DataFrame,
    bootstrap: str | Sequence[str],
    sink_id: str,
    *,
    job_id: str | None,
    version: int | None = None,
    topic: str | None = None,
    **settings: Unpack[WriterKeywords],
) -> dict[str, Any]:
    """Write a DataFrame with the columns of Spark's Kafka sink, in one transaction. Returns the metrics. If their `ledger` is "skipped",
    this version was written before, and nothing is read or written now. A version older than the ledger's raises OlderVersion.

    `job_id` and `version` identify what is written once: a lasting name, and a number that rises with each run that has new rows. With
    `job_id=None` the rows are visible together or not at all, and a second run writes them again. The settings are those of
    `ExactlyOnceKafkaWriter` that need no query.
    """
    for name in STREAMING:
        if name in settings:
            raise ConfigError(
                f"{name}={settings[name]!r}: write_once is not part of a streaming query; job_id and version say what is written"
            )
    identity = job_version(sink_id, job_id, version)
    writer = ExactlyOnceKafkaWriter(bootstrap, sink_id, topic=topic, **settings)
    if not hasattr(df, "sparkSession") or df.isStreaming:
        what = "a streaming one: writeStream.foreachBatch with ExactlyOnceKafkaWriter" if hasattr(df, "sparkSession") else repr(df)[:300]
        raise Misuse(f"write_once writes a DataFrame, not {what}")
    try:
        sink_session = writer.job(identity.job)
        with writer.batch_of(sink_session, identity) as batch:
            if not batch.skipped:
                batch.write(df)
        if job_id is None:
            _forget(sink_session)
        return batch.metrics.as_dict()
    finally:
        writer.close()


def job_version(sink_id: str, job_id: str | None, version: int | None) -> JobVersion:
    if job_id is None:
        if version is not None:
            raise Misuse(f"version={version} without a job_id: give both, or neither")
        # The ledger tells this very run whether an unanswered commit was carried out. No later run will ask.
        return JobVersion(job=f"once-{uuid.uuid4().hex}", batch=0)
    ledger_key(sink_id, job_id)
    if version is None:
        raise Misuse(f"job_id={job_id!r} without a version: a later run with new rows would be taken for a repeat of this one")
    given: object = version
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 63:
        raise Misuse(f"version={version!r}: a whole number from 0 to 2^63-1")
    return JobVersion(job=job_id, batch=version)


def _forget(sink_session: SinkSession) -> None:
    """Without a job id no later run asks for the entry, so the ledger need not keep it."""
    try:
        with sink_session.producer.transaction(sink_session.timeout_s) as transaction:
            transaction.send(
                sink_session.ledger.topic, None, key=sink_session.key.encode(), partition=sink_session.ledger.partition_of(sink_session.key)
            )
    except FencepostError as error:
        log.warning("sink %s: written; its entry stays in the ledger: %s", sink_session.key, error)
