"""Helpers for the tests of the Spark writer.

They are a directory whose files are the batches of a query (one file per batch), checkpoints made by hand for calls of the writer without a
query, and the records that another client reads. Every wait has a deadline.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.broker_stub import BrokerStub
from fencepost.txn.spark import ExactlyOnceKafkaWriter
from tests.reading import read_messages, read_values

LIMIT_S = 60
TOPIC = "out"
PARTITIONS = 3


class AnySite:
    """A cluster, a topic, and a directory for everything else. `sink`: the writers' sink id."""

    def __init__(self, spark: SparkSession, bootstrap: str, place: Path, *, topic: str = TOPIC, sink: str = "sink") -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.sink = sink
        self.place = place
        self.input = place / "input"
        self.input.mkdir()
        self.checkpoint = place / "checkpoint"
        self.writers: list[ExactlyOnceKafkaWriter] = []
        self._fed = 0

    def writer(self, **settings: Any) -> ExactlyOnceKafkaWriter:
        """A writer that is closed with the test. By default it uses the guard `driver`, which is fastest."""
        given = {"topic": self.topic, "guard": "driver", "linger_ms": 0, **settings}
        writer = ExactlyOnceKafkaWriter(self.bootstrap, self.sink, **given)
        self.writers.append(writer)
        return writer

    def close(self) -> None:
        for query in self.spark.streams.active:
            query.stop()
        for writer in self.writers:
            writer.close()

    # -- batches of a query ----------------------------------------------------------------------------------------------------

    def feed(self, *values: str) -> None:
        """Add a file, which is the next batch."""
        self._fed += 1
        unfinished = self.place / "unfinished"
        unfinished.write_text("".join(f"{value}\n" for value in values))
        unfinished.rename(self.input / f"{self._fed:03}.txt")

    @property
    def lines(self) -> DataFrame:
        """The column `value`, one file per batch."""
        return self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.input))

    def start(
        self, call: Any, df: DataFrame | None = None, *, checkpoint: Path | None = None, live: bool = False, mode: str = "append"
    ) -> StreamingQuery:
        """Start a query that ends after the existing files, or with `live` waits for more."""
        stream = (df if df is not None else self.lines).writeStream.foreachBatch(call).outputMode(mode)
        stream = stream.option("checkpointLocation", str(checkpoint or self.checkpoint))
        return (stream.trigger(processingTime="0 seconds") if live else stream.trigger(availableNow=True)).start()

    def run(self, call: Any, df: DataFrame | None = None, *, checkpoint: Path | None = None, mode: str = "append") -> str | None:
        """Run a query over the existing files. Return the text of its failure, if it has one."""
        return self.outcome(self.start(call, df, checkpoint=checkpoint, mode=mode))

    @staticmethod
    def outcome(query: StreamingQuery) -> str | None:
        """Wait for the end of the query."""
        failure = None
        try:
            assert query.awaitTermination(LIMIT_S), f"the query has not ended within {LIMIT_S} s"
        except Exception as error:  # noqa: BLE001  # its class depends on where in Spark the callback failed
            failure = str(error)
        assert (query.exception() is None) == (failure is None)
        return failure

    # -- calls of the writer without a query -----------------------------------------------------------------------------------

    def by_hand(self, **settings: Any) -> ExactlyOnceKafkaWriter:
        """A writer that gets the query's name from the test. Call `offsets` before each batch."""
        return self.writer(query="by hand", checkpoint=str(self.checkpoint), **settings)

    def offsets(self, batch: int, said: str = "{}") -> int:
        """Write what Spark writes before it calls the writer. Return the batch number."""
        place = self.checkpoint / "offsets"
        place.mkdir(parents=True, exist_ok=True)
        (place / str(batch)).write_text(f"v1\n{{}}\n{said}")
        return batch

    def rows(self, *values: Any, **columns: str) -> DataFrame:
        """A DataFrame with the column `value`, and other columns as SQL expressions of it."""
        df = self.spark.createDataFrame([(value,) for value in values], "value string")
        return df.selectExpr("value", *[f"{sql} as {name}" for name, sql in columns.items()])

    # -- what came of it -------------------------------------------------------------------------------------------------------

    def committed(self, topic: str | None = None, partitions: int = PARTITIONS) -> list[str]:
        """Every value that a `read_committed` consumer reads, up to the current ends."""
        return sorted(value.decode() for value in read_values(self.bootstrap, topic or self.topic, range(partitions)))

    def messages(self, topic: str | None = None, partitions: int = PARTITIONS) -> list[Any]:
        """What `committed` reads, as confluent-kafka's messages."""
        return read_messages(self.bootstrap, topic or self.topic, range(partitions))


class Site(AnySite):
    """A query, its checkpoint and its topic, on a stub."""

    def __init__(self, spark: SparkSession, stub: BrokerStub, place: Path) -> None:
        super().__init__(spark, stub.bootstrap, place)
        self.stub = stub
        stub.create_topic(TOPIC, partitions=PARTITIONS)
