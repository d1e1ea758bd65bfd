"""What `format("fencepost")` writes, step by step and without Spark: what is committed is what each partition's one attempt wrote."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError, Misuse
from fencepost.producer.wire import Api
from fencepost.txn.ledger.entry import LedgerEntry
from fencepost.txn.ledger.errors import CheckpointReplaced, CheckpointRolledBack, OlderVersion
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.shared.participant import ParticipationEnded
from fencepost.txn.spark.datasource.write_options import read_sink_options
from fencepost.txn.spark.errors import AttemptConflict, BadRows, BatchUnknown
from fencepost.txn.spark.rows.columns import BadColumns
from fencepost.txn.spark.rows.routing import ROUTE
from tests.reading import read_messages, read_values
from tests.txn.spark.datasource.write_steps import Play, plan

TOPIC = "out"
PARTITIONS = 3


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        stub.create_topic("letters", partitions=2)
        yield stub


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of a query whose first batch is about to be written."""
    plan(tmp_path, 0)
    return tmp_path


def found(stub: BrokerStub) -> list[str]:
    return sorted(value.decode() for value in read_values(stub.bootstrap, TOPIC, range(PARTITIONS)))


def entries(stub: BrokerStub) -> list[LedgerEntry]:
    return Ledger(read_settings({"bootstrap_servers": stub.bootstrap})).list()


def ints(*numbers: int | None) -> Any:
    return pa.array(numbers, pa.int32())


@pytest.mark.parametrize("option", ["kafka.transaction.timeout.ms", "transactionTimeoutMs"])
def test_the_transactions_own_timeout(stub: BrokerStub, option: str) -> None:
    """It has Kafka's name or ours. Only the connection with the transactional id gets it."""
    options: dict[str, Any] = {"jobId": "load", "version": 1, option: 90_000}
    play = Play(stub.bootstrap, TOPIC, **options)
    begun = play.begin()
    play.commit(play.task(begun, 0, value=["row"]), begun=begun)
    assert found(stub) == ["row"]
    asked: list[Any] = [exchange.request for exchange in stub.journal.requests(Api.INIT_PRODUCER_ID)]
    assert {each.transaction_timeout_ms for each in asked if each.transactional_id} == {90_000}


def test_a_job_is_written_once(stub: BrokerStub) -> None:
    """Keyless tasks take a partition each, all of it is visible with the commit, and the same version is not written again."""
    play = Play(stub.bootstrap, TOPIC, jobId="load", version=1)
    begun = play.begin()
    told = [play.task(begun, task, value=[f"{task}-{row}" for row in range(5)]) for task in range(2)]
    told.append(play.task(begun, 2, value=[]))
    assert found(stub) == []
    play.commit(*told, begun=begun)
    assert len(found(stub)) == 10
    (entry,) = entries(stub)
    assert (entry.key, entry.batch, entry.rows, sum(each.records for each in entry.partitions)) == ("sink#load", 1, 10, 10)
    again = play.begin()
    assert again.shared is None
    play.commit(play.task(again, 0, value=["again"]), begun=again)
    assert len(found(stub)) == 10
    with pytest.raises(OlderVersion):
        Play(stub.bootstrap, TOPIC, jobId="load", version=0).begin()


def test_without_a_job_nothing_stays_in_the_ledger(stub: BrokerStub) -> None:
    """No later call could ask for the entry."""
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    play.commit(play.task(begun, 0, value=["a"]), begun=begun)
    assert found(stub) == ["a"]
    assert entries(stub) == []


def test_a_second_attempt_does_not_write(stub: BrokerStub) -> None:
    """A second attempt of a task is refused, because the first may have written. Without the account of the first, the batch is not
    committed."""
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    play.task(begun, 0, attempt_id=1, value=["lost"])
    with pytest.raises(AttemptConflict, match="attempt 1 of this task may have written already"):
        play.task(begun, 0, attempt_id=2, value=["lost"])
    other = play.task(begun, 1, value=["other"])
    with pytest.raises(AttemptConflict, match="belongs to task attempt 1, and Spark delivered attempt None"):
        play.commit(other, begun=begun)
    with pytest.raises(AttemptConflict, match="1 of 2 Spark tasks have not said what they wrote"):
        play.commit(other, None, begun=begun)
    play.abort(other, None, begun=begun)
    assert found(stub) == []
    with pytest.raises(ParticipationEnded):
        play.task(begun, 2, value=["late"])


def test_rows_of_a_partition_come_from_one_task(stub: BrokerStub) -> None:
    """A second task, or a second attempt, with rows for a partition is refused. The error says how to bring the rows together."""
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    play.task(begun, 0, value=["a", "b"], partition=ints(0, 1))
    with pytest.raises(
        AttemptConflict, match=r"Kafka partition 1 of topic 'out' is produced by two Spark tasks, 0 and 1; wrap the DataFrame"
    ):
        play.task(begun, 1, value=["c", "d"], partition=ints(2, 1))
    with pytest.raises(AttemptConflict, match="out-0 belongs to attempt 100 of this task, which may have written there"):
        play.task(begun, 0, attempt_id=7, value=["a"], partition=ints(0))


def test_rows_that_were_routed_stay_where_they_are(stub: BrokerStub) -> None:
    """A row without key and partition goes to the partition that `route` has brought it to."""
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    routed = {ROUTE: ints(1, 2), "timestamp": pa.array([1_500, None], pa.int64())}
    told = play.task(begun, 0, value=["a", "b"], partition=ints(None, 2), **routed)
    assert told.claimed == [1, 2]
    play.commit(told, begun=begun)
    messages = {message.value(): message for message in read_messages(stub.bootstrap, TOPIC, range(PARTITIONS))}
    assert (messages[b"a"].partition(), messages[b"b"].partition()) == (1, 2)
    assert messages[b"a"].timestamp()[1] == 1_500


def test_more_tasks_than_partitions_are_refused(stub: BrokerStub) -> None:
    """With what to do."""
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    for task in range(PARTITIONS):
        play.task(begun, task, value=["a"])
    with pytest.raises(
        AttemptConflict, match=r"more Spark tasks with rows of topic 'out' than it has partitions: df.coalesce\(3\) or less"
    ):
        play.task(begun, PARTITIONS, value=["a"])


@pytest.mark.parametrize(
    ("times", "milliseconds"),
    [
        (pa.array([1_234_567, -1], pa.timestamp("us", "UTC")), [1_234, 0]),
        (pa.array([1.2345678, 2.0], pa.float64()), [1_234, 2_000]),
        (pa.array([1_234, 5], pa.int64()), [1_234, 5]),
    ],
    ids=["timestamp", "double", "bigint"],
)
def test_times_are_those_of_sparks_sink(stub: BrokerStub, times: Any, milliseconds: list[int]) -> None:
    """Cut off after the milliseconds."""
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    play.commit(play.task(begun, 0, value=["a", "b"], timestamp=times), begun=begun)
    messages = read_messages(stub.bootstrap, TOPIC, range(PARTITIONS))
    assert [message.timestamp()[1] for message in sorted(messages, key=lambda each: str(each.value()))] == milliseconds


def test_rows_that_cannot_be_written(stub: BrokerStub) -> None:
    """They fail the batch, or go to their topic in the same transaction."""
    bad = {"value": ["good", "bad"], "partition": ints(0, 9)}
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    with pytest.raises(BadRows, match=r"9 is not in the range \[0...3\) of topic 'out'.*set onBadRow="):
        play.commit(play.task(begun, 0, **bad), begun=begun)
    play.abort(begun=begun)
    kept = Play(stub.bootstrap, TOPIC, onBadRow="letters", jobId="j", version=1)
    begun = kept.begin()
    kept.commit(kept.task(begun, 0, **bad), begun=begun)
    assert found(stub) == ["good"]
    assert read_values(stub.bootstrap, "letters", range(2)) == [b"bad"]


def test_a_compacted_topic_of_bad_rows(stub: BrokerStub) -> None:
    """It is refused when the write begins, with the option, before anything is written."""
    stub.create_topic("kept", config={"cleanup.policy": "compact"})
    with pytest.raises(Misuse, match=r"onBadRow='kept': the topic is compacted .*Nothing was written"):
        Play(stub.bootstrap, TOPIC, onBadRow="kept").begin()
    assert found(stub) == []


def test_rows_that_a_topic_does_not_take(stub: BrokerStub) -> None:
    """Those that the brokers would refuse are found as foreachBatch finds them: too large for the topic, and times that are none."""
    stub.create_topic("small", partitions=1, config={"max.message.bytes": 2000})
    play = Play(stub.bootstrap, "small", onBadRow="letters", jobId="j", version=1)
    begun = play.begin()
    times = pa.array([1000.5, 1.0, -1.0, 1e300], pa.float64())
    play.commit(play.task(begun, 0, value=["good", "x" * 3000, "early", "never"], timestamp=times), begun=begun)
    assert [value.decode() for value in read_values(stub.bootstrap, "small", [0])] == ["good"]
    assert sorted(len(value) for value in read_values(stub.bootstrap, "letters", range(2))) == [5, 5, 3000]


def test_batches_of_a_query_go_by_its_checkpoint(stub: BrokerStub, checkpoint: Path) -> None:
    """The newest batch there is the one that is written: once, and under the rules of the ledger."""
    play = Play(stub.bootstrap, TOPIC, str(checkpoint))
    for batch in range(2):
        plan(checkpoint, batch, f'{{"at":{batch}}}')
        begun = play.begin()
        assert begun.identity.full_name == f"batch {batch} of query a-query"
        play.commit(play.task(begun, 0, value=[str(batch)]), batch=batch)
    replayed = play.begin()
    assert replayed.shared is None
    play.commit(play.task(replayed, 0, value=["again"]), batch=1)
    assert found(stub) == ["0", "1"]
    plan(checkpoint, 1, '{"at":7}')
    with pytest.raises(CheckpointReplaced):
        play.begin()
    (checkpoint / "offsets" / "1").unlink()
    with pytest.raises(CheckpointRolledBack):
        play.begin()


def test_the_ledger_is_not_read_twice(stub: BrokerStub, checkpoint: Path) -> None:
    """Each batch begins with looking and with reading: of what the process has read before only the new end is asked for, and so by the
    second look of the same batch. With the first batch there was nothing to be read yet."""
    play = Play(stub.bootstrap, TOPIC, str(checkpoint))
    starts: list[list[int]] = []
    for batch in range(4):
        plan(checkpoint, batch, f'{{"at":{batch}}}')
        stub.journal.clear()
        begun = play.begin()
        requests: list[Any] = [exchange.request for exchange in stub.journal.requests(Api.FETCH)]
        place = begun.shared.record if begun.shared is not None else None
        starts.append(
            [
                each.fetch_offset
                for request in requests
                for topic in request.topics
                for each in topic.partitions
                if (topic.topic, each.partition) == place
            ]
        )
        play.commit(play.task(begun, 0, value=[str(batch)]), batch=batch)
    assert all(offsets and min(offsets) > 0 for offsets in starts[2:])
    assert starts[1].count(0) == 1
    assert min(starts[2]) < min(starts[3])


def test_a_batch_without_tasks_is_in_the_ledger(stub: BrokerStub, checkpoint: Path) -> None:
    """No task reports the beginning, so the end begins the transaction."""
    play = Play(stub.bootstrap, TOPIC, str(checkpoint))
    play.begin()
    play.commit(batch=0)
    (entry,) = entries(stub)
    assert (entry.batch, entry.rows) == (0, 0)


def test_another_batch_than_was_begun_is_not_committed(stub: BrokerStub, checkpoint: Path) -> None:
    """A plan that is ahead of the checkpoint is not followed."""
    play = Play(stub.bootstrap, TOPIC, str(checkpoint))
    begun = play.begin()
    told = play.task(begun, 0, value=["a"])
    with pytest.raises(BatchUnknown, match="Spark commits batch 5, and what was begun is batch 0 of query a-query"):
        play.commit(told, batch=5)
    other = play.task(play.begin(), 1, value=["b"])
    with pytest.raises(AttemptConflict, match="into different transactions"):
        play.commit(told, other, batch=0)


def test_a_checkpoint_that_cannot_be_read_is_refused(stub: BrokerStub, tmp_path: Path) -> None:
    """The error says what to do."""
    for place in (str(tmp_path / "nothing"), "strange://host/place"):
        with pytest.raises(BatchUnknown, match=r"cannot be read by Python on the driver's host.*foreachBatch"):
            Play(stub.bootstrap, TOPIC, place).begin()


def test_a_commit_whose_answer_is_lost_is_one(stub: BrokerStub) -> None:
    """If the answer to the commit is lost, the batch is committed. An abort after it changes nothing, and does not raise."""
    quick: dict[str, Any] = {"kafka.request.timeout.ms": 500}
    play = Play(stub.bootstrap, TOPIC, **quick)
    begun = play.begin()
    told = play.task(begun, 0, value=["a"])
    stub.faults.on(Api.END_TXN).after_append().times(1).drop()
    play.commit(told, begun=begun)
    play.abort(told, begun=begun)
    assert found(stub) == ["a"]


def test_an_abort_never_raises(stub: BrokerStub, checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a report of any task the sink is taken over, which aborts. If no broker answers, the failure is logged."""
    play = Play(stub.bootstrap, TOPIC, str(checkpoint), timeoutMs=1000)
    begun = play.begin()
    play.task(begun, 0, value=["lost"])
    play.abort(None, None)
    with pytest.raises(ParticipationEnded):
        play.task(begun, 1, value=["late"])
    stub.close()
    with caplog.at_level(logging.WARNING, "fencepost.spark"):
        play.abort(None)
    assert "sink sink: not aborted" in caplog.text


def options(**given: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": "broker:9092", "sinkid": "s", "topic": "t", **given}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"sinkid": None}, "the option sinkId is missing"),
        ({"topics": "a,b"}, "options topic='t' and topics='a,b': give topic if all rows go to one"),
        ({"topic": None, "topics": " ,"}, "option topics=' ,': topics with commas between them"),
        ({"topic": None, "topics": "a,b", "onbadrow": "b"}, "option onBadRow='b': a topic of its own, none of the sink's"),
        ({"checkpointlocation": None}, "the option checkpointLocation is missing"),
        ({"guard": "turns"}, "option guard='turns': the guard here is always"),
        ({"maxreruns": "3"}, "option maxReruns='3': a data source is not asked twice"),
        ({"jobid": "j"}, "option jobId='j': it is for batch writes only"),
        ({"timeoutms": "soon"}, "option timeoutMs='soon': a whole number"),
        ({"sinkIdd": "s"}, "unknown option 'sinkIdd'; did you mean 'sinkId'"),
        ({"kafka.transactional.id": "mine"}, "transactional.id"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(given: dict[str, str | None], text: str) -> None:
    """The error names the option, its value and what to do."""
    wanted: dict[str, Any] = {**options(checkpointlocation="/c"), **given}
    with pytest.raises((ConfigError, Misuse), match=text):
        read_sink_options({name: value for name, value in wanted.items() if value is not None}, streaming=True)
    with pytest.raises(ConfigError, match="onNewCheckpoint='reset': it is for streaming writes only"):
        read_sink_options(options(onNewCheckpoint="reset"), streaming=False)


def test_columns_are_those_of_sparks_sink(stub: BrokerStub) -> None:
    """With its words."""
    play = Play(stub.bootstrap, TOPIC)
    begun = play.begin()
    with pytest.raises(BadColumns, match=r"value attribute unsupported type int\. value must be a"):
        play.task(begun, 0, value=ints(1))
    with pytest.raises(BadColumns, match="Required attribute 'value' not found"):
        play.task(begun, 0, key=["k"])
