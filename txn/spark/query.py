"""Which batch of which query this is: the ids that Spark sets for the thread that calls foreachBatch, and the digest of its source offsets.

In classic Spark both are found; under Spark Connect neither is, and the writer has to be told (`query=`, `checkpoint=`).
"""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Final

from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from txn.ledger_entry import LedgerEntry, LedgerPartition
from txn.ledger_rules import Decision, decide
from txn.spark.choosing import context_of
from txn.spark.errors import BatchUnknown
from txn.spark.writer_settings import WriterSettings

log = logging.getLogger("fencepost.spark")

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
RUN_ID: Final = "spark.jobGroup.id"
FINGERPRINT_DIGITS: Final = 32
HEAD_LINES: Final = 2
"""Of an offsets file: the format's version, and metadata (times and settings), which a replay may have otherwise."""


class BatchIdentity(Struct, frozen=True, kw_only=True):
    """`query`: the id in the checkpoint's metadata, the same after a restart. `run`: another with each start. `fingerprint`: of the source
    offsets that the checkpoint holds for the batch."""

    query: str
    run: str
    batch: int
    fingerprint: str

    @property
    def name(self) -> str:
        return f"batch {self.batch}"

    @property
    def full_name(self) -> str:
        return f"batch {self.batch} of query {self.query}"

    def decide(self, entry: LedgerEntry | None, settings: WriterSettings) -> Decision:
        """`txn.ledger_rules.decide`."""
        return decide(
            entry,
            settings.sink_id,
            query=self.query,
            batch=self.batch,
            fingerprint=self.fingerprint,
            on_new_checkpoint=settings.on_new_checkpoint,
            on_missing_ledger=settings.on_missing_ledger,
        )

    def entry(self, sink: str, rows: int, partitions: tuple[LedgerPartition, ...], at_ms: int) -> LedgerEntry:
        """What the ledger is to have of it."""
        return LedgerEntry(
            sink=sink, query=self.query, batch=self.batch, fingerprint=self.fingerprint, rows=rows, partitions=partitions, at_ms=at_ms
        )


def identify(df: DataFrame, batch: int, *, query: str | None = None, checkpoint: str | None = None) -> BatchIdentity:
    """The identity of the batch that foreachBatch was called with. Raises BatchUnknown where Spark does not tell, and nobody else did."""
    spark = df.sparkSession
    here = _local_properties(spark)
    found = here.get(QUERY_ID)
    if query is not None and found is not None and query != found:
        raise BatchUnknown(
            f"query={query!r}, but Spark says that this is a batch of query {found!r}; leave query= out where Spark knows it"
        )
    query = found or query
    if query is None and checkpoint is not None:
        query = _query_of(spark, checkpoint)
    if query is None:
        raise BatchUnknown(
            "which query this batch is of is not known here (Spark Connect does not tell): give the writer checkpoint=, the query's"
            " checkpointLocation, or query=, a name that stays the same as long as the checkpoint does"
        )
    told = here.get(BATCH_ID)
    if told is not None and int(told) != batch:
        raise BatchUnknown(f"called with batch {batch} inside batch {told} of query {query}: call the writer with its own batch")
    offsets = _offsets(spark, query, batch, checkpoint)
    if offsets is None:
        raise BatchUnknown(
            f"the source offsets of batch {batch} of query {query} cannot be read, and without them a batch that was rebuilt with other"
            " rows cannot be told from a replay: give the writer checkpoint=, the query's checkpointLocation"
        )
    return BatchIdentity(query=query, run=here.get(RUN_ID) or query, batch=batch, fingerprint=fingerprint_of(offsets))


def fingerprint_of(offsets: str) -> str:
    """Of the text of `<checkpoint>/offsets/<batch>`: the sources' offsets count, times and settings do not."""
    sources = offsets.strip().split("\n")[HEAD_LINES:]
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:FINGERPRINT_DIGITS]


def _local_properties(spark: SparkSession) -> dict[str, str]:
    """What Spark says about the thread; nothing under Connect."""
    context = context_of(spark)
    if context is None:
        return {}
    values = {name: context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID, RUN_ID)}
    return {name: value for name, value in values.items() if value is not None}


def _offsets(spark: SparkSession, query: str, batch: int, checkpoint: str | None) -> str | None:
    """The offsets file of the batch, which Spark has written before it calls."""
    context = context_of(spark)
    if context is None:
        return _read_through_spark(spark, f"{checkpoint}/offsets/{batch}") if checkpoint is not None else None
    root = checkpoint
    if root is None:
        running = spark._jsparkSession.sharedState().activeStreamingQueries()
        execution = running.get(context._jvm.java.util.UUID.fromString(query))
        if execution is None:
            return None
        root = execution.resolvedCheckpointRoot()
    return _read_through_hadoop(context, f"{root}/offsets/{batch}")


def _read_through_hadoop(context: Any, place: str) -> str | None:
    """A small file wherever Hadoop reads files. It starts no job."""
    jvm = context._jvm
    path = jvm.org.apache.hadoop.fs.Path(place)
    system = path.getFileSystem(context._jsc.hadoopConfiguration())
    if not system.exists(path):
        return None
    stream = system.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _read_through_spark(spark: SparkSession, place: str) -> str | None:
    """The same with a job, where there is no JVM to talk to."""
    try:
        rows = spark.read.option("wholetext", "true").text(place).collect()
    except PySparkException as error:
        log.warning("%s cannot be read: %s", place, error)
        return None
    return str(rows[0][0]) if rows else None


def _query_of(spark: SparkSession, checkpoint: str) -> str | None:
    """The id in the checkpoint's metadata."""
    rows = spark.read.json(f"{checkpoint}/metadata").collect()
    return str(rows[0]["id"]) if rows else None
