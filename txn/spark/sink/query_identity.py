"""The query and the batch: the ids that Spark sets for the thread that calls foreachBatch, and the digest of the batch's source offsets.

Classic Spark tells both. Spark Connect tells neither, so the user must (`query=`, `checkpoint=`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fencepost.producer.wire.errors import NO_JSON
from fencepost.txn.ledger.batch_decision import Decision, decide
from fencepost.txn.ledger.entry import LedgerEntry, LedgerPartition
from fencepost.txn.spark.connection.spark_context import context_of
from fencepost.txn.spark.errors import BatchUnknown
from fencepost.txn.spark.sink.settings import WriterSettings

log = logging.getLogger("fencepost.spark")

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
RUN_ID: Final = "spark.jobGroup.id"
FINGERPRINT_DIGITS: Final = 32
HEAD_LINES: Final = 2
"""The lines of an offsets file that do not count: the format's version, and metadata (times and settings), which may differ in a replay."""

Read = Callable[[str], str | None]
"""Reads a small text file, None if it is missing."""


class FileOffset(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The offset of Spark's file source: the number of the newest entry in its own log. It does not name the files."""

    log_offset: int


class FileEntry(Struct, frozen=True, rename="camel"):
    """A line of that log: a file. `batch_id`: its entry; a compacted log has lines of several entries."""

    batch_id: int


class Identity(Protocol):
    """The identity of a batch for the ledger: a micro-batch of a query, or a version of a job."""

    @property
    def query(self) -> str | None: ...

    @property
    def batch(self) -> int: ...

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def full_name(self) -> str:
        """The same, with the query or the job."""

    def decide(self, entry: LedgerEntry | None, settings: WriterSettings) -> Decision:
        """Whether to write it, given the ledger's entry. Raises a LedgerRefusal."""

    def entry(self, sink: str, rows: int, partitions: tuple[LedgerPartition, ...], at_ms: int, transactional_id: str) -> LedgerEntry:
        """The entry for the ledger."""


class BatchIdentity(Struct, frozen=True, kw_only=True):
    """`query`: the id in the checkpoint's metadata, the same after a restart. `run`: another one with each start. `fingerprint`: the digest
    of the batch's source offsets in the checkpoint. `offsets_of`: the text of an earlier batch's source offsets, None if it is gone."""

    query: str
    run: str
    batch: int
    fingerprint: str
    offsets_of: Callable[[int], str | None]

    @property
    def name(self) -> str:
        return f"batch {self.batch}"

    @property
    def full_name(self) -> str:
        return f"batch {self.batch} of query {self.query}"

    def decide(self, entry: LedgerEntry | None, settings: WriterSettings) -> Decision:
        """`txn.ledger.batch_decision.decide`."""
        return decide(
            entry,
            settings.sink_id,
            query=self.query,
            batch=self.batch,
            fingerprint=self.fingerprint,
            on_new_checkpoint=settings.on_new_checkpoint,
            on_missing_ledger=settings.on_missing_ledger,
            on_gap=settings.on_gap,
            read_since=self.read_since,
        )

    def read_since(self, batch: int) -> bool:
        """Whether a batch after that one, and before this one, has read something: its source offsets differ from the previous batch's.
        Spark keeps those of the newest hundred batches."""
        later = self.offsets_of(self.batch - 1)
        for number in range(self.batch - 2, batch - 1, -1):
            earlier = self.offsets_of(number)
            if earlier is None or later is None:
                return False
            if fingerprint_of(earlier) != fingerprint_of(later):
                return True
            later = earlier
        return False

    def entry(self, sink: str, rows: int, partitions: tuple[LedgerPartition, ...], at_ms: int, transactional_id: str) -> LedgerEntry:
        """The entry for the ledger."""
        return LedgerEntry(
            sink=sink,
            query=self.query,
            batch=self.batch,
            fingerprint=self.fingerprint,
            rows=rows,
            partitions=partitions,
            at_ms=at_ms,
            transactional_id=transactional_id,
        )


def identify(df: DataFrame, batch: int, *, query: str | None = None, checkpoint: str | None = None) -> BatchIdentity:
    """The identity of the batch that foreachBatch was called with. Raises BatchUnknown if neither Spark nor the user tells it."""
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
            "the query of this batch is not known here: Spark Connect does not tell it, and classic Spark tells only the thread that calls"
            " foreachBatch's function. Call the writer in that thread; or give it checkpoint=, the query's checkpointLocation,"
            " or query=, a name that stays the same as long as the checkpoint does"
        )
    told = here.get(BATCH_ID)
    if told is not None and int(told) != batch:
        raise BatchUnknown(f"called with batch {batch} inside batch {told} of query {query}: call the writer with its own batch")
    root = _root_of(spark, found) if checkpoint is None and found is not None else checkpoint
    read = _reader(spark)
    offsets = read(f"{root}/offsets/{batch}") if root is not None else None
    if offsets is None:
        raise BatchUnknown(
            f"the source offsets of batch {batch} of query {query} cannot be read, and without them a batch that was rebuilt with other"
            " rows cannot be told from a replay: give the writer checkpoint=, the query's checkpointLocation"
        )
    files = files_of(offsets, read, f"{root}/sources")
    return BatchIdentity(
        query=query,
        run=here.get(RUN_ID) or query,
        batch=batch,
        fingerprint=fingerprint_of(offsets, files),
        offsets_of=lambda number: read(f"{root}/offsets/{number}"),
    )


def fingerprint_of(offsets: str, files: Sequence[str] = ()) -> str:
    """The digest of the text of `<checkpoint>/offsets/<batch>`, and of the files that its file sources have read. The sources' offsets
    count; times and settings do not."""
    return hashlib.sha256("\n".join([*_sources(offsets), *files]).encode()).hexdigest()[:FINGERPRINT_DIGITS]


def files_of(offsets: str, read: Read, sources: str) -> list[str]:
    """The lines of the newest entry in the log of each file source. The offset of such a source only counts entries, so a batch that was
    planned again over other files has the same."""
    found: list[str] = []
    for number, line in enumerate(_sources(offsets)):
        try:
            newest = msgspec.json.decode(line, type=FileOffset).log_offset
        except NO_JSON:
            continue  # another kind of source, whose offsets identify what they read, or "-" for none
        entry = read(f"{sources}/{number}/{newest}") or read(f"{sources}/{number}/{newest}.compact") or ""
        found += [line for line in entry.split("\n")[1:] if line and msgspec.json.decode(line, type=FileEntry).batch_id == newest]
    return found


def _sources(offsets: str) -> list[str]:
    return offsets.strip().split("\n")[HEAD_LINES:]


def _local_properties(spark: SparkSession) -> dict[str, str]:
    """What Spark tells about the thread; nothing under Connect."""
    context = context_of(spark)
    if context is None:
        return {}
    values = {name: context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID, RUN_ID)}
    return {name: value for name, value in values.items() if value is not None}


def _root_of(spark: SparkSession, query: str) -> str | None:
    """The checkpoint of a running query, if Spark tells."""
    context = context_of(spark)
    if context is None:
        return None
    running = spark._jsparkSession.sharedState().activeStreamingQueries()
    execution = running.get(context._jvm.java.util.UUID.fromString(query))
    return None if execution is None else str(execution.resolvedCheckpointRoot())


def _reader(spark: SparkSession) -> Read:
    """How to read files here."""
    context = context_of(spark)
    if context is None:
        return lambda place: _read_through_spark(spark, place)
    return lambda place: _read_through_hadoop(context, place)


def _read_through_hadoop(context: Any, place: str) -> str | None:
    """A small file, on any of Hadoop's file systems. It starts no job."""
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
    """The same with a job, if there is no JVM to call."""
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
