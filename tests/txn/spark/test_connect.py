"""Spark Connect: what works there does, and what does not says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import FencepostError, Misuse
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.ledger.errors import OlderVersion
from fencepost.txn.spark import ExactlyOnceKafkaWriter, route, write_once
from fencepost.txn.spark.datasource.datasource import register
from fencepost.txn.spark.errors import BatchUnknown, GuardUnavailable, QueryStopped
from fencepost.txn.spark.rows.columns import BadColumns
from tests.drawn import drawn
from tests.reading import read_values
from tests.txn.spark.connect_session import LIMIT_S, Stream, remote
from tests.txn.spark.releases import ARROW_WRITERS, needs

__all__ = ["remote"]

pytest.importorskip("grpc", reason="Spark Connect needs pip install 'pyspark[connect]'")

TOPIC = "out"
PARTITIONS = 3
WRITES = needs(*ARROW_WRITERS)
QUERIES = drawn(3, of="long queries over Spark Connect")
CANNOT_ASK = "executors may not reach the driver (Spark Connect, a closed port), or speculation copies tasks"


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        yield stub


def committed(stub: BrokerStub, topic: str = TOPIC) -> list[str]:
    return sorted(value.decode() for value in read_values(stub.bootstrap, topic, range(PARTITIONS)))


def once(remote: Any, stub: BrokerStub, *, keyed: bool = False, **settings: Any) -> dict[str, Any]:
    text = "cast(id as string)"
    df = remote.range(0, 100, 1, 2).selectExpr(f"{text} as value", *([f"{text} as key"] if keyed else []))
    return write_once(df, stub.bootstrap, "sink", **{"job_id": None, "topic": TOPIC, "retry_backoff_ms": 5, **settings})


@drawn(2)
@pytest.mark.parametrize(
    ("guard", "settings"),
    [("auto", {}), ("kafka-claims", {"tasks": 2, "keyed": False}), ("kafka-claims", {"tasks": 2}), ("driver", {})],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_batch_job_is_written(remote: Any, stub: BrokerStub, guard: str, settings: dict[str, Any]) -> None:
    """Under every guard that needs no driver; `auto` is kafka-claims."""
    done = once(remote, stub, guard=guard, **{"keyed": True, **settings})
    assert (done["ledger"], done["rows"], done["guard"]) == ("committed", 100, {"auto": "kafka-claims"}.get(guard, guard))
    assert done["guard_reason"] == (CANNOT_ASK if guard == "auto" else "asked for")
    assert len(set(committed(stub))) == len(committed(stub)) == 100


def test_a_task_that_fails_is_run_again(remote: Any, stub: BrokerStub) -> None:
    """The batch is aborted and written once more, as anywhere."""
    stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).error(ErrorCode.INVALID_TXN_STATE)
    done = once(remote, stub, guard="kafka-claims", tasks=2, keyed=True)
    assert (done["ledger"], done["reruns"]) == ("committed", 1)
    assert len(committed(stub)) == 100


def test_an_executors_words_reach_the_client(remote: Any, stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would come again fails at once, as the error that the executor raised."""
    monkeypatch.setattr("fencepost.txn.spark.sink.write_task.VERSION", "0.0.1")
    with pytest.raises(Misuse, match=r"the driver has fencepost 0\.0\.1, and the executor .* has \d.*: install the same on both"):
        once(remote, stub, guard="kafka-claims", tasks=2, keyed=True)
    assert committed(stub) == []


def test_turns_needs_a_context(remote: Any, stub: BrokerStub) -> None:
    """The error says what to set instead."""
    with pytest.raises(GuardUnavailable, match=r"guard='turns': under Spark Connect .* set guard='kafka-claims'"):
        once(remote, stub, keyed=True, guard="turns")
    assert committed(stub) == []


def test_a_version_is_written_once(remote: Any, stub: BrokerStub) -> None:
    """The client asks the ledger itself, and what that refuses is raised there as what it is."""
    job: dict[str, Any] = {"job_id": "load", "guard": "driver"}
    assert [once(remote, stub, version=version, **job)["ledger"] for version in (1, 1, 2)] == ["committed", "skipped", "committed"]
    assert len(committed(stub)) == 200
    with pytest.raises(OlderVersion):
        once(remote, stub, version=1, **job)
    with pytest.raises(BadColumns, match="value"):
        write_once(remote.range(1), stub.bootstrap, "sink", job_id=None, topic=TOPIC)


def test_explain_says_how(remote: Any, stub: BrokerStub) -> None:
    """`explain` says what is known without access to Spark's context."""
    df = remote.range(1).selectExpr("'v' as value", "'k' as key")
    said = ExactlyOnceKafkaWriter(stub.bootstrap, "sink", topic=TOPIC).explain(df)
    assert f"kafka-claims: {CANNOT_ASK}" in said


def test_a_writer_without_a_checkpoint_is_refused(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """Connect tells neither query nor offsets; a name alone does not tell a replay from other rows."""
    df = remote.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(BatchUnknown, match=r"the query of this batch is not known here.* or give it checkpoint="):
        ExactlyOnceKafkaWriter(stub.bootstrap, "sink", topic=TOPIC)(df, 0)
    with pytest.raises(BatchUnknown, match=r"source offsets of batch 0 of query q cannot be read.*give the writer checkpoint="):
        ExactlyOnceKafkaWriter(stub.bootstrap, "sink", topic=TOPIC, query="q")(df, 0)
    with pytest.raises(BatchUnknown, match="source offsets of batch 0 of query q cannot be read"):
        ExactlyOnceKafkaWriter(stub.bootstrap, "sink", topic=TOPIC, query="q", checkpoint=str(tmp_path))(df, 0)


def test_a_job_that_is_interrupted_is_not_run_again(remote: Any, stub: BrokerStub) -> None:
    """Interrupting the session's operations stops the writer, and readers see nothing."""
    held = stub.faults.on(Api.PRODUCE).where(topic=TOPIC).forever().hold()
    ended: list[BaseException] = []

    def write() -> None:
        try:
            once(remote, stub, keyed=True, guard="kafka-claims", tasks=2)
        except Exception as error:  # noqa: BLE001  # the test checks the error
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


@QUERIES
def test_a_query_is_exact_when_it_replays(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """foreachBatch runs in a process of the server's, which reads the checkpoint that the writer was told, and keeps the metrics: the first
    batch's guard is kafka-claims, and then batches are small. A batch that the ledger has is skipped."""
    stream = Stream(remote, tmp_path)
    writer = ExactlyOnceKafkaWriter(stub.bootstrap, "query", topic=TOPIC, checkpoint=str(stream.checkpoint))
    told = tmp_path / "told"

    def write(df: Any, batch: int) -> None:
        writer(df, batch)
        with told.open("a") as to:
            to.write(json.dumps([writer.metrics[name] for name in ("batch", "ledger", "guard", "guard_reason")]) + "\n")

    stream.feed("1", "a", "b")
    stream.feed("2", "c")
    stream.run(lambda to: to.foreachBatch(write))
    stream.forget(1)
    stream.run(lambda to: to.foreachBatch(write))
    assert committed(stub) == ["a", "b", "c"]
    assert writer.metrics == {}
    assert [json.loads(line) for line in told.read_text().splitlines()] == [
        [0, "committed", "kafka-claims", CANNOT_ASK],
        [1, "committed", "driver", "the batch before had at most collect_bytes_max bytes"],
        [1, "skipped", "", ""],
    ]


@QUERIES
def test_guards_in_foreachbatch(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """Each by its name, with a sink of its own: what can be had commits, and the others say why they cannot, as the error's own class."""
    stream = Stream(remote, tmp_path)
    asked: dict[str, dict[str, Any]] = {
        "kafka-claims": {"guard": "kafka-claims", "tasks": 1},
        "driver": {"guard": "driver"},
        "turns": {"guard": "turns"},
    }
    for name in asked:
        stub.create_topic(name, partitions=PARTITIONS)
    writers = {
        name: ExactlyOnceKafkaWriter(stub.bootstrap, name, topic=name, checkpoint=str(stream.checkpoint), **settings)
        for name, settings in asked.items()
    }
    told = tmp_path / "told"

    def write(df: Any, batch: int) -> None:
        found = {}
        for name, writer in writers.items():
            try:
                writer(df.withColumn("key", df.value), batch)
                found[name] = str(writer.metrics["ledger"])
            except FencepostError as error:
                found[name] = f"{type(error).__name__}: {error}"
            writer.close()
        told.write_text(json.dumps(found))

    stream.feed("1", "a", "b")
    stream.run(lambda to: to.foreachBatch(write))
    found = json.loads(told.read_text())
    refused = found.pop("turns")
    assert found == dict.fromkeys(("kafka-claims", "driver"), "committed")
    assert refused.startswith("GuardUnavailable: guard='turns': under Spark Connect executors may not reach this process")
    assert [committed(stub, name) for name in asked] == [["a", "b"], ["a", "b"], []]


def test_a_query_that_fails_says_why(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """The client has Spark's exception, with the name and the words of ours in it."""
    stream = Stream(remote, tmp_path)
    stream.feed("1", "a")
    writer = ExactlyOnceKafkaWriter(stub.bootstrap, "query", topic=TOPIC)
    with pytest.raises(StreamingQueryException, match=r"txn\.spark\.errors\.BatchUnknown: the query .* or give it checkpoint="):
        stream.run(lambda to: to.foreachBatch(writer))
    assert committed(stub) == []


def test_a_query_that_is_stopped_in_the_middle(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """`stop()` ends the callback's process at once: no exception, nothing visible, and the next start writes the batch."""
    stream = Stream(remote, tmp_path)
    writer = ExactlyOnceKafkaWriter(stub.bootstrap, "query", topic=TOPIC, checkpoint=str(stream.checkpoint), guard="driver")
    stream.feed("1", "a", "b")
    held = stub.faults.on(Api.PRODUCE).where(topic=TOPIC).after_append().times(1).hold()
    query = stream.live(writer, lambda: held.hits > 0)
    query.stop()
    assert not query.isActive
    assert query.exception() is None
    held.release()
    assert committed(stub) == []
    stream.run(lambda to: to.foreachBatch(writer))
    assert committed(stub) == ["a", "b"]


def given(stub: BrokerStub, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": stub.bootstrap, **options}


@WRITES
@QUERIES
def test_the_data_source_writes_and_reads_a_stream(remote: Any, stub: BrokerStub, tmp_path: Path) -> None:
    """It is told what it needs, with Connect as without: files to a topic, from there to another one, each batch once."""
    register(remote)
    stub.create_topic("copy", partitions=PARTITIONS)
    for name in ("files", "topic"):
        (tmp_path / name).mkdir()
    files, copy = Stream(remote, tmp_path / "files"), Stream(remote, tmp_path / "topic")
    files.feed("1", "a")
    to_topic = given(stub, topic=TOPIC, sinkId="source")
    files.run(lambda to: to.format("fencepost").options(**to_topic))
    files.forget(0)
    files.run(lambda to: to.format("fencepost").options(**to_topic))
    assert committed(stub) == ["a"]
    rows = remote.readStream.format("fencepost").options(**given(stub, subscribe=TOPIC, startingOffsets="earliest")).load()
    to_copy = given(stub, topic="copy", sinkId="copy")
    copy.run(lambda to: to.format("fencepost").options(**to_copy), rows.selectExpr("value"))
    assert committed(stub, "copy") == ["a"]


@WRITES
def test_the_data_source_writes_and_reads_a_batch(remote: Any, stub: BrokerStub) -> None:
    """Rows with keys, routed by the client; a version that is written is not written again; errors keep their words."""
    register(remote)
    keyed = remote.range(0, 40, 1, 2).selectExpr("cast(id as string) as value", "cast(id % 2 as string) as key")
    routed = route(keyed, PARTITIONS, topic=TOPIC)
    job = given(stub, topic=TOPIC, sinkId="source", jobId="load", version="1")
    for _ in range(2):
        routed.write.format("fencepost").mode("append").options(**job).save()
    read = remote.read.format("fencepost").options(**given(stub, subscribe=TOPIC)).load().select("key", "value").collect()
    assert sorted((int(row.key), int(row.value)) for row in read) == sorted((n % 2, n) for n in range(40))
    other = given(stub, topic=TOPIC, sinkId="other")
    with pytest.raises(PySparkException, match="is produced by two Spark tasks"):
        keyed.write.format("fencepost").mode("append").options(**other).save()
    with pytest.raises(PySparkException, match="nothing that Kafka has can be overwritten"):
        keyed.write.format("fencepost").mode("overwrite").options(**other).save()
    with pytest.raises(PySparkException, match=r"unknown option 'subscrib'; did you mean 'subscribe'\?"):
        remote.read.format("fencepost").options(**given(stub, subscrib=TOPIC)).load().collect()
