"""The guard `turns`: each Kafka partition has one writing task at a time, and the next one continues at its sequence.

A task that disconnects while it has a partition ends the attempt for all tasks.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import FencepostError
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.shared.participant import Participant
from fencepost.txn.shared.participation import Participation, Written
from fencepost.txn.spark.errors import AttemptConflict, BadRows, DriverUnreachable, GuardUnavailable
from fencepost.txn.spark.guards.partition_lease_server import LeaseServer
from fencepost.txn.spark.guards.partition_leases import ANY as ANY_PARTITION
from fencepost.txn.spark.guards.partition_leases import PartitionLeases
from fencepost.txn.spark.guards.selection import TABLE
from fencepost.txn.spark.rows.routing import kafka_partitions
from fencepost.txn.spark.rows.row_placement import PLACED, Portion
from fencepost.txn.spark.rows.task_summary import told_of
from fencepost.txn.spark.sink import partition_writer as delivering
from fencepost.txn.spark.sink.partition_writer import LeasedPartitions, giving_if_idle, split
from fencepost.txn.spark.sink.permanent_errors import heard, last_words
from fencepost.txn.spark.sink.write_job import account
from tests.reading import read_values
from tests.txn.spark.site import PARTITIONS, TOPIC, Site

WAIT_S = 30.0
ANY = [(TOPIC, partition) for partition in range(PARTITIONS)]


def participation(*sequences: int) -> Participation:
    """A participation of so many partitions, each with its next sequence."""
    shared = tuple((TOPIC, partition, sequence) for partition, sequence in enumerate(sequences))
    return Participation(transactional_id="t", producer_id=1, producer_epoch=0, transaction_version=2, sequences=shared)


def written(partition: int, records: int, following: int) -> Written:
    return Written(TOPIC, partition, records, 0, records - 1, following)


# -- the book ------------------------------------------------------------------------------------------------------------------


def test_one_task_takes_what_there_is_and_two_share() -> None:
    """A single task gets all partitions that it asks for, beside another task half. A returned partition continues at its sequence."""
    leases = PartitionLeases(participation(0, 0, 7))
    assert leases.enter(0, 10) == ""
    assert leases.grant(0, ANY) == [(TOPIC, 0, 0), (TOPIC, 1, 0), (TOPIC, 2, 7)]
    assert leases.enter(1, 11) == ""
    assert leases.grant(1, ANY) == []
    assert leases.holders(ANY[:2]) == "task 0 has out-0, task 0 has out-1"
    leases.take_back(0, [written(2, 3, 10), written(0, 1, 1), written(1, 2, 2)])
    assert leases.grant(1, ANY[::-1]) == [(TOPIC, 2, 10), (TOPIC, 1, 2)]
    leases.take_back(1, [written(2, 5, 15), written(1, 1, 3)])
    leases.finish(0)
    leases.finish(1)
    assert leases.registry() == {0: 10, 1: 11}


def test_rows_for_any_partition_get_the_one_that_is_free_for_longest() -> None:
    """A task does not wait while any partition of the topic is free. Each attempt to write a batch begins at another partition."""
    anywhere = [(TOPIC, ANY_PARTITION)]
    leases = PartitionLeases(participation(0, 5, 7), rotation=4)
    leases.enter(0, 10)
    leases.enter(1, 11)
    assert leases.grant(0, anywhere) == [(TOPIC, 1, 5)]
    assert leases.grant(1, anywhere) == [(TOPIC, 2, 7)]
    leases.take_back(0, [written(1, 3, 8)])
    assert leases.grant(0, anywhere) == [(TOPIC, 0, 0)]
    assert leases.grant(1, anywhere) == [(TOPIC, 1, 8)]
    assert leases.grant(1, anywhere) == leases.grant(1, [("other", ANY_PARTITION)]) == []
    assert leases.holders(anywhere) == "task 1 has out-2, task 0 has out-0, task 1 has out-1"


def leaves(leases: PartitionLeases) -> None:
    leases.leave(0)


def comes_again(leases: PartitionLeases) -> None:
    assert leases.enter(0, 11) == "task 0 belongs to attempt 10"


def comes_twice(leases: PartitionLeases) -> None:
    assert leases.enter(0, 10) == "attempt 10 of task 0 connected twice"


def gives_what_it_lacks(leases: PartitionLeases) -> None:
    leases.take_back(0, [written(1, 1, 1)])


def miscounts(leases: PartitionLeases) -> None:
    leases.take_back(0, [written(0, 3, 4)])


def keeps(leases: PartitionLeases) -> None:
    leases.finish(0)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (leaves, "task 0 left before it was done"),
        (comes_again, "task 0 belongs to attempt 10, and attempt 11 asked for it"),
        (comes_twice, "attempt 10 of task 0 connected twice"),
        (gives_what_it_lacks, "task 0 gave back out-1, which it did not have"),
        (miscounts, "task 0 gave back out-0 at sequence 4: 3 records from 0 on"),
        (keeps, "task 0 says that it is done, and has out-0"),
        (lambda leases: None, "task 0 has not said that it is done"),
    ],
)
def test_any_violation_ends_the_attempt(step: Callable[[PartitionLeases], None], why: str) -> None:
    """After a violation the server admits no task, and the driver does not commit."""
    leases = PartitionLeases(participation(0, 0))
    leases.enter(0, 10)
    assert leases.grant(0, ANY[:1])
    step(leases)
    if leases.trouble:
        assert leases.enter(1, 12) != ""
    with pytest.raises(AttemptConflict, match=why):
        leases.registry()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 5)), max_size=60))
def test_no_two_tasks_ever_have_a_partition(steps: list[tuple[int, int, int]]) -> None:
    """For any order of requests and returns, each partition has one writer at a time, and its sequences have no gap."""
    leases = PartitionLeases(participation(0, 5, 2**31 - 3))
    for task in range(4):
        leases.enter(task, task)
    held: dict[int, dict[tuple[str, int], int]] = {task: {} for task in range(4)}
    reached = dict(zip(ANY, (0, 5, 2**31 - 3), strict=True))
    for task, choice, records in steps:
        if held[task]:
            leases.take_back(task, [written(tp[1], records, (sequence + records) % 2**31) for tp, sequence in held[task].items()])
            reached |= {tp: (sequence + records) % 2**31 for tp, sequence in held[task].items()}
            held[task] = {}
        else:
            for topic, partition, sequence in leases.grant(task, ANY[choice % 3 :] + ANY[: choice % 3]):
                assert all((topic, partition) not in others for others in held.values())
                assert sequence == reached[topic, partition]
                held[task][topic, partition] = sequence
        assert leases.trouble == ""


# -- over a connection ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[LeaseServer]:
    with LeaseServer("127.0.0.1", "127.0.0.1") as server:
        yield server


def test_a_task_waits_for_its_lease(server: LeaseServer) -> None:
    """The task gets the partition as soon as the other task returns it. If that takes too long, the error names the task that has it."""
    client = server.begin(participation(0))
    with client.enter(0, 10) as first, client.enter(1, 11) as second, ThreadPoolExecutor(1) as pool:
        assert first.take(ANY[:1], 0.0) == [(TOPIC, 0, 0)]
        assert second.take(ANY[:1], 0.0) == []
        with pytest.raises(AttemptConflict, match=r"no Kafka partition became free within 0\.01 s \(timeout_ms\): task 0 has out-0"):
            second.take(ANY[:1], 0.01)
        waiting = pool.submit(second.take, ANY[:1], WAIT_S)
        first.give([written(0, 4, 4)], done=True)
        assert waiting.result(WAIT_S) == [(TOPIC, 0, 4)]
        second.give([written(0, 1, 5)], done=True)
        assert server.registry() == {0: 10, 1: 11}


def test_a_task_that_disconnects_ends_the_attempt(server: LeaseServer) -> None:
    """A task that disconnects ends the attempt at once, also for waiting tasks. The next attempt starts from the beginning."""
    client = server.begin(participation(0))
    with client.enter(1, 11) as second, ThreadPoolExecutor(1) as pool:
        first = client.enter(0, 10)
        first.take(ANY[:1], 0.0)
        waiting = pool.submit(second.take, ANY[:1], WAIT_S)
        first.close()
        with pytest.raises(AttemptConflict, match="task attempt 11 may not write: task 0 left before it was done"):
            waiting.result(WAIT_S)
    with pytest.raises(AttemptConflict, match="task 0 left before it was done"):
        server.registry()
    with server.begin(participation(0)).enter(0, 12) as again:
        assert again.take(ANY[:1], 0.0) == [(TOPIC, 0, 0)]


def test_a_task_that_fails_tells_the_others_why(server: LeaseServer) -> None:
    """Spark may report the error of a task that waited before that of the task that failed. So both have the cause, with the mark that
    says whether an attempt would help."""
    client = server.begin(participation(0))
    with client.enter(1, 11) as second, ThreadPoolExecutor(1) as pool:
        with pytest.raises(FencepostError, match="the rows are odd"), client.enter(0, 10) as first, last_words():
            first.take(ANY[:1], 0.0)
            waiting = pool.submit(second.take, ANY[:1], WAIT_S)
            raise BadRows("the rows are odd")
        with pytest.raises(AttemptConflict, match=r"task attempt 11 may not write: task 0 failed: .*the rows are odd") as refused:
            waiting.result(WAIT_S)
    assert isinstance(heard(str(refused.value)), BadRows)


@pytest.mark.parametrize(("error", "why"), [(ValueError("x" * 20_000), "x{10000}$"), (ValueError(), "ValueError$")])
def test_what_a_failed_task_tells_is_short(server: LeaseServer, error: Exception, why: str) -> None:
    """The text has a limit, and an error without one is told by its type."""
    client = server.begin(participation(0))
    with pytest.raises(ValueError, match=r"^x*$"), client.enter(0, 10):
        raise error
    with pytest.raises(AttemptConflict, match=f"task 0 failed: {why}"):
        server.registry()


def test_an_attempt_to_write_that_is_over_grants_nothing(server: LeaseServer) -> None:
    """While the batch is written again, the server refuses a task of the earlier attempt, whether it waited or comes late."""
    old = server.begin(participation(0))
    with old.enter(0, 10) as sleeper, old.enter(1, 11) as waiter, ThreadPoolExecutor(1) as pool:
        sleeper.take(ANY[:1], 0.0)
        waiting = pool.submit(waiter.take, ANY[:1], WAIT_S)
        new = server.begin(participation(0))
        for late in (lambda: waiting.result(WAIT_S), lambda: sleeper.give([written(0, 1, 1)]), lambda: old.enter(2, 12)):
            with pytest.raises(AttemptConflict, match="its attempt to write the batch is over"):
                late()
        with new.enter(0, 20) as task:
            task.give([], done=True)
    assert server.registry() == {0: 20}


def test_unauthenticated_connections_get_no_answer(server: LeaseServer) -> None:
    """A connection without the secret, or with another protocol, gets no answer and disturbs no task."""
    client = server.begin(participation(0))
    with pytest.raises(AttemptConflict, match="wrong secret: this is no task of this driver"):
        msgspec.structs.replace(client, secret="guessed").enter(0, 10)
    with pytest.raises(AttemptConflict, match="the driver does not answer this task"), client.enter(0, 10) as task:
        task._socket.sendall(b"GET / HTTP/1.1\r\n\n")
        task.take(ANY[:1], 0.0)
    assert client.secret not in repr(client)


def test_a_driver_that_cannot_be_reached(server: LeaseServer) -> None:
    """The error names the address, and what to do."""
    client = server.begin(participation(0))
    server.close()
    with pytest.raises(DriverUnreachable, match=rf"127\.0\.0\.1:{client.port} cannot be reached from this executor .*'kafka-claims'"):
        client.enter(0, 10)


# -- what a task does ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[1, 2], ids=["tv1", "tv2"])
def stub(request: pytest.FixtureRequest) -> Iterator[BrokerStub]:
    with BrokerStub(transaction_version=request.param) as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        yield stub


def portion(task: int, number: int, rows: int = 40, *, placed: bool = True) -> Portion:
    """Rows whose values say which task they come from, and in which order."""
    values = pa.RecordBatch.from_pydict({"value": [f"{task}/{number * rows + row}" for row in range(rows)]})
    places = pa.array([row % PARTITIONS for row in range(rows)], pa.int32())
    return Portion(TOPIC, values.append_column(PLACED, places) if placed else values, rows * 10)


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("aside", [0, 1000, 1 << 20])
def test_tasks_that_write_to_the_same_partitions(
    stub: BrokerStub, server: LeaseServer, monkeypatch: pytest.MonkeyPatch, aside: int, placed: bool
) -> None:
    """For any small buffer, with and without named partitions: each row is there once, and one task's rows in a partition are in its order.

    The tasks' accounts add up to the contents of the log.
    """
    monkeypatch.setattr(delivering, "ASIDE_BYTES", aside)
    tasks, portions = 4, 6
    config = {"bootstrap_servers": stub.bootstrap}
    with TransactionalProducer({**config, "transactional_id": "t"}) as owner, owner.begin() as transaction:
        shared = transaction.share(ANY)
        client = server.begin(shared)

        def run(task: int) -> list[Written]:
            with Participant(config) as participant, client.enter(task, task + 100) as lease:
                delivery = LeasedPartitions(participant, shared, lease, WAIT_S, tasks=tasks)
                for number in range(portions):
                    delivery.add(portion(task, number, placed=placed))
                return delivery.finish()

        with ThreadPoolExecutor(tasks) as pool:
            told = [each for accounts in pool.map(run, range(tasks)) for each in accounts]
        assert server.registry() == {task: task + 100 for task in range(tasks)}
        whole = account(shared, [told_of(each) for each in told])
        transaction.returned(whole)
    assert sum(each.records for each in whole) == tasks * portions * 40
    assert sorted(read_rows(stub)) == [(task, row) for task in range(tasks) for row in range(portions * 40)]
    for task, partition in itertools.product(range(tasks), ANY):
        rows = [row for one, row in read_rows(stub, partition[1]) if one == task]
        assert rows == sorted(rows)


def test_a_task_that_waits_for_its_rows_keeps_no_partition(stub: BrokerStub, server: LeaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow function before the write blocks no other task. The task returns its partitions when their records are acknowledged."""
    monkeypatch.setattr(delivering, "IDLE_S", 0.1)
    config = {"bootstrap_servers": stub.bootstrap}
    with TransactionalProducer({**config, "transactional_id": "t"}) as owner, owner.begin() as transaction:
        shared = transaction.share(ANY)
        client = server.begin(shared)
        with (
            Participant(config) as first,
            client.enter(0, 100) as lease,
            giving_if_idle(LeasedPartitions(first, shared, lease, WAIT_S, tasks=1)) as slow,
        ):
            slow.add(portion(0, 0))
            with Participant(config) as second, client.enter(1, 101) as other:
                quick = LeasedPartitions(second, shared, other, WAIT_S, tasks=1)
                quick.add(portion(1, 0))
                told = [*quick.finish()]
            slow.add(portion(0, 1))
            told += slow.finish()
        transaction.returned(account(shared, [told_of(each) for each in told]))
    assert sorted(read_rows(stub)) == sorted([*((0, row) for row in range(80)), *((1, row) for row in range(40))])


def read_rows(stub: BrokerStub, *partitions: int) -> list[tuple[int, int]]:
    """Task and number of each row, in the log's order; without `partitions`, of all partitions."""
    values = read_values(stub.bootstrap, TOPIC, partitions or range(PARTITIONS))
    return [(int(task), int(row)) for task, row in (value.decode().split("/") for value in values)]


def test_accounts_that_do_not_add_up() -> None:
    """If Spark delivered fewer accounts than the tasks wrote, the driver commits nothing."""
    with pytest.raises(AttemptConflict, match="out-0: Spark delivered accounts of 2 records, and their sequences go from 0 to 5"):
        account(participation(0), [told_of(written(0, 2, 5))])
    whole = account(participation(3), [told_of(Written(TOPIC, 0, 2, 10, 15, 8)), told_of(Written(TOPIC, 0, 3, 12, 14, 6))])
    assert whole == [Written(TOPIC, 0, 5, 10, 15, 8)]


def test_rows_are_split_in_their_order() -> None:
    """Rows keep their order within a partition."""
    rows = pa.RecordBatch.from_pydict({"value": [*"abcdef"], PLACED: pa.array([1, 0, 1, 2, 0, 1], pa.int32())})
    parts = [(partition, part.column("value").to_pylist()) for partition, part in split(rows)]
    assert parts == [
        (0, ["b", "e"]),
        (1, ["a", "c", "f"]),
        (2, ["d"]),
    ]


# -- in Spark ------------------------------------------------------------------------------------------------------------------

KEYS = [f"k{number}" for number in range(60)]


def test_rows_stay_where_they_are(site: Site) -> None:
    """Two writes of a batch and a second batch, with more tasks than partitions: each key is in the partition of Java's producer, each row
    once.
    """
    writer = site.by_hand(guard="turns", topic="one")
    site.stub.create_topic("one", partitions=1)
    rows = site.rows(*KEYS, key="value").repartition(5)
    with writer.batch(rows, site.offsets(0)) as batch:
        batch.write(rows)
        batch.write(rows, topic=TOPIC)
    writer(rows, site.offsets(1))
    assert (writer.metrics["guard"], writer.metrics["tasks"]) == ("turns", 5)
    assert Counter(site.committed("one", 1)) == dict.fromkeys(KEYS, 2)
    places = kafka_partitions(pa.array(KEYS), PARTITIONS).to_pylist()
    assert {message.key().decode(): message.partition() for message in site.messages()} == dict(zip(KEYS, places, strict=True))


def test_rows_without_a_key_stay_where_they_are(site: Site) -> None:
    """As many tasks write as Spark makes of the DataFrame, for any number of partitions and slots; or as many as the user sets."""
    site.stub.create_topic("one", partitions=1)
    writer = site.by_hand(guard="turns", topic="one")
    rows = site.rows(*KEYS).repartition(5)
    writer(rows, site.offsets(0))
    assert writer.metrics["tasks"] == 5
    assert sorted(site.committed("one", 1)) == sorted(KEYS)
    asked = site.by_hand(guard="turns", tasks=3)
    asked(rows, site.offsets(1))
    assert asked.metrics["tasks"] == 3
    assert {message.partition() for message in site.messages()} == {*range(PARTITIONS)}


def test_two_topics_without_a_key(site: Site) -> None:
    """A column names the topic of each row, and tasks write to all partitions of both topics."""
    site.stub.create_topic("one", partitions=1)
    writer = site.by_hand(guard="turns", topic=None)
    writer(site.rows(*KEYS, topic=f"if(value < 'k3', 'one', '{TOPIC}')").repartition(4), site.offsets(0))
    assert writer.metrics["tasks"] == 4
    assert sorted(site.committed("one", 1) + site.committed()) == sorted(KEYS)


def test_a_rerun_by_turns(site: Site) -> None:
    """An aborted batch is written again, under a new epoch, from sequence 0."""
    site.stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(1).error(ErrorCode.UNKNOWN_SERVER_ERROR)
    writer = site.by_hand(guard="turns")
    writer(site.rows(*KEYS, key="value"), site.offsets(0))
    assert site.committed() == sorted(KEYS)
    assert writer.metrics["reruns"] == 1


def test_an_address_of_another_host(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver cannot listen at this address. The error names the address, and what to set."""
    conf = type(site.spark.conf)
    told = conf.get
    elsewhere = {"spark.driver.host": "203.0.113.7", "spark.driver.bindAddress": "203.0.113.7"}
    monkeypatch.setattr(conf, "get", lambda self, key, *default: elsewhere.get(key) or told(self, key, *default))
    with pytest.raises(GuardUnavailable, match=r"guard='turns': this process cannot listen at 203\.0\.113\.7.*or guard='kafka-claims'"):
        site.by_hand(guard="turns")(site.rows(*KEYS, key="value"), site.offsets(0))
    assert site.committed() == []


def test_auto_takes_turns_until_executors_cannot_reach_the_driver(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an executor cannot reach the driver, the batch is written again under `kafka-claims`. Later batches use it at once."""
    monkeypatch.setattr("fencepost.txn.spark.guards.selection.TABLE", [row for row in TABLE if row.guard != "driver"])
    writer = site.by_hand(guard="auto")
    rows = site.rows(*KEYS, key="value")
    writer(rows, site.offsets(0))
    assert (writer.metrics["guard"], writer.metrics["unreachable"]) == ("turns", 0)
    begin = LeaseServer.begin
    monkeypatch.setattr(LeaseServer, "begin", lambda self, shared: msgspec.structs.replace(begin(self, shared), port=1))
    writer(rows, site.offsets(1))
    assert (writer.metrics["guard"], writer.metrics["unreachable"], writer.metrics["reruns"]) == ("kafka-claims", 1, 1)
    writer(rows, site.offsets(2))
    assert (writer.metrics["guard"], writer.metrics["unreachable"], writer.metrics["reruns"]) == ("kafka-claims", 0, 0)
    assert Counter(site.committed()) == dict.fromkeys(KEYS, 3)
