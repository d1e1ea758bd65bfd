"""Spark Connect: what works there does, and what does not says so. Server and client are in this process, in the JVM of the other tests."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from broker_stub import BrokerStub
from producer.wire import Api, ErrorCode
from tests.reading import read_values
from tests.txn.spark.late_workers import despite_late_workers
from txn.spark import ExactlyOnceKafkaWriter, write_once
from txn.spark.datasource import register
from txn.spark.errors import BatchUnknown, GuardUnavailable, QueryStopped

pytest.importorskip("grpc", reason="Spark Connect needs pip install 'pyspark[connect]'")

LIMIT_S = 180
TOPIC = "out"
PARTITIONS = 3
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


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        yield stub


def committed(stub: BrokerStub) -> list[str]:
    return sorted(value.decode() for value in read_values(stub.bootstrap, TOPIC, range(PARTITIONS)))


def once(remote: Any, stub: BrokerStub, *, keyed: bool = False, **settings: Any) -> dict[str, Any]:
    text = "cast(id as string)"
    df = remote.range(0, 100, 1, 2).selectExpr(f"{text} as value", *([f"{text} as key"] if keyed else []))
    return write_once(df, stub.bootstrap, "sink", **{"job_id": None, "topic": TOPIC, "retry_backoff_ms": 5, **settings})


@pytest.mark.parametrize(
    ("guard", "settings"),
    [("auto", {}), ("barrier", {"tasks": 2}), ("kafka-claims", {"tasks": 2, "keyed": False}), ("driver", {})],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_batch_job_is_written(remote: Any, stub: BrokerStub, guard: str, settings: dict[str, Any]) -> None:
    """Under every guard that needs nothing but the brokers; which one is taken where nobody says is the one that does not ask Spark."""
    done = once(remote, stub, guard=guard, **{"keyed": True, **settings})
    assert (done["ledger"], done["rows"], done["guard"]) == ("committed", 100, {"auto": "kafka-claims"}.get(guard, guard))
    assert len(set(committed(stub))) == len(committed(stub)) == 100


def test_a_task_that_fails_is_run_again(remote: Any, stub: BrokerStub) -> None:
    """The batch is aborted and written once more, as anywhere."""
    stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).error(ErrorCode.INVALID_TXN_STATE)
    done = once(remote, stub, guard="barrier", tasks=2, keyed=True)
    assert (done["ledger"], done["reruns"]) == ("committed", 1)
    assert len(committed(stub)) == 100


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"guard": "status"}, "guard='status': Spark Connect has no status tracker"),
        ({"guard": "barrier"}, "guard='barrier': Spark Connect does not say how many tasks can run at once.* set tasks= to what"),
    ],
)
def test_guards_that_need_a_context_say_so(remote: Any, stub: BrokerStub, settings: dict[str, Any], text: str) -> None:
    """With what to take instead."""
    with pytest.raises(GuardUnavailable, match=text):
        once(remote, stub, keyed=True, **settings)
    assert committed(stub) == []


def test_who_does_not_know_its_checkpoint_is_refused(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """Connect tells neither query nor offsets; a name alone does not tell a replay from other rows."""
    df = remote.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(BatchUnknown, match=r"which query this batch is of is not known here .* give the writer checkpoint="):
        ExactlyOnceKafkaWriter(stub.bootstrap, "sink", topic=TOPIC)(df, 0)
    with pytest.raises(BatchUnknown, match=r"source offsets of batch 0 of query q cannot be read.*give the writer checkpoint="):
        ExactlyOnceKafkaWriter(stub.bootstrap, "sink", topic=TOPIC, query="q")(df, 0)
    with pytest.raises(BatchUnknown, match="source offsets of batch 0 of query q cannot be read"):
        ExactlyOnceKafkaWriter(stub.bootstrap, "sink", topic=TOPIC, query="q", checkpoint=str(tmp_path))(df, 0)


def test_a_job_that_is_interrupted_is_not_run_again(remote: Any, stub: BrokerStub) -> None:
    """Whoever interrupts the session's operations has the writer stop, with nothing visible."""
    held = stub.faults.on(Api.PRODUCE).where(topic=TOPIC).forever().hold()
    ended: list[BaseException] = []

    def write() -> None:
        try:
            once(remote, stub, keyed=True, guard="barrier", tasks=2)
        except Exception as error:  # noqa: BLE001  # whatever it is, the test looks at it
            ended.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    assert held.wait(timeout=LIMIT_S)
    remote.interruptAll()
    held.remove()
    writing.join(LIMIT_S)
    assert not writing.is_alive()
    assert [type(error) for error in ended] == [QueryStopped], ended
    assert committed(stub) == []


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
        """As if Spark had died between the sink's commit and its own."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)

    def run(self, begin: Any) -> None:
        lines = self.remote.readStream.option("maxFilesPerTrigger", 1).text(str(self.input))
        writer = begin(lines.writeStream).option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

        def once() -> None:
            assert writer.start().awaitTermination(LIMIT_S)

        despite_late_workers(once)


def test_a_query_is_exact_when_it_replays(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """foreachBatch runs in a process of the server's, which reads the checkpoint that the writer was told."""
    stream = Stream(remote, tmp_path)
    writer = ExactlyOnceKafkaWriter(stub.bootstrap, "query", topic=TOPIC, checkpoint=str(stream.checkpoint))
    stream.feed("1", "a", "b")
    stream.feed("2", "c")
    stream.run(lambda to: to.foreachBatch(writer))
    stream.forget(1)
    stream.run(lambda to: to.foreachBatch(writer))
    assert committed(stub) == ["a", "b", "c"]


def test_the_data_source_writes(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """It is told what it needs, with Connect as without."""
    register(remote)
    stream = Stream(remote, tmp_path)
    options = {"kafka.bootstrap.servers": stub.bootstrap, "topic": TOPIC, "sinkId": "source"}
    stream.feed("1", "a")
    stream.run(lambda to: to.format("fencepost").options(**options))
    stream.forget(0)
    stream.run(lambda to: to.format("fencepost").options(**options))
    assert committed(stub) == ["a"]
    keyed = remote.range(0, 40, 1, 2).selectExpr("cast(id as string) as value", "cast(id % 2 as string) as key")
    with pytest.raises(PySparkException, match="is produced by two Spark tasks"):
        keyed.write.format("fencepost").mode("append").options(**options).save()
