"""A session over Spark Connect, and queries in it. Server and client are in this process, in the JVM of the other tests.

A callback of `foreachBatch` still runs in its own process, which the server starts for each run of a query.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.txn.spark.late_workers import despite_late_workers

LIMIT_S = 180
MODE = "SPARK_CONNECT_MODE_ENABLED"
"""What has pyspark's functions make columns for Connect."""


@pytest.fixture(scope="module")
def remote(spark: SparkSession) -> Iterator[Any]:
    """A session over the wire."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    context.sc().conf().set("spark.connect.grpc.binding.port", str(port))
    service = jvm.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(context.sc())
    os.environ[MODE] = "1"
    session = RemoteSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    yield session
    session.stop()
    del os.environ[MODE]
    nothing = jvm.scala.Option.empty()
    service.stop(nothing, nothing)


class Stream:
    """A directory whose files are the batches of a query."""

    def __init__(self, remote: Any, place: Path) -> None:
        self.remote = remote
        self.input = place / "input"
        self.input.mkdir()
        self.checkpoint = place / "checkpoint"

    def feed(self, name: str, *values: str) -> None:
        (self.input / f".{name}").write_text("".join(f"{value}\n" for value in values))
        (self.input / f".{name}").rename(self.input / f"{name}.txt")

    def forget(self, batch: int) -> None:
        """Delete Spark's commit of the batch, as if Spark had died between the sink's commit and its own."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)

    @property
    def lines(self) -> Any:
        """The column `value`, one file per batch."""
        return self.remote.readStream.option("maxFilesPerTrigger", 1).text(str(self.input))

    def run(self, begin: Callable[[Any], Any], df: Any = None) -> None:
        """Run a query over the existing files, to its end. Raises the query's failure."""
        stream = begin((df if df is not None else self.lines).writeStream)
        stream = stream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

        def once() -> None:
            assert stream.start().awaitTermination(LIMIT_S)

        despite_late_workers(once)

    def live(self, call: Any, until: Callable[[], bool]) -> Any:
        """A query that waits for more files, once `until` is true."""
        stream = self.lines.writeStream.foreachBatch(call).option("checkpointLocation", str(self.checkpoint))
        started: list[Any] = []

        def once() -> None:
            started.append(stream.trigger(processingTime="0 seconds").start())
            deadline = time.monotonic() + LIMIT_S
            while not until():
                assert not started[-1].awaitTermination(0.1), "the query has ended"
                assert time.monotonic() < deadline, f"nothing happened within {LIMIT_S} s"

        despite_late_workers(once)
        return started[-1]
