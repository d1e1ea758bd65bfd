"""A job and what can go wrong around it: aborted transactions, lost replies, other runs, brokers that are down. Afterwards every record is
there once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Fenced
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import AsyncJob, BadRecord, IteratorSource, Job, JobFailed, OutputRecord
from tests.reading import read_messages
from tests.txn.jobs.helpers import DEAD, LIMIT_S, TOPIC, numbers, quick, settings_for, stub, values
from tests.txn.jobs.stories import N, counting, is_overtaken, leaves_a_transaction_open, takes_too_long
from tests.txn.pauses import LONG, LONG_S, longest_pauses
from tests.txn.stub_helpers import removed_after

__all__ = ["longest_pauses", "stub"]

pytestmark = pytest.mark.timeout(120)

ABSENT: dict[str, Any] = {"call_timeout_ms": 1_000, "producer": {"allow_auto_create_topics": False}}
"""Settings of a test that writes to a topic that there is not."""


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (Api.PRODUCE, ErrorCode.INVALID_TXN_STATE),
        (Api.END_TXN, ErrorCode.TRANSACTION_ABORTABLE),
        (Api.END_TXN, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
    ids=lambda value: value.name,
)
def test_an_aborted_batch_is_read_again(stub: BrokerStub, api: Api, code: ErrorCode) -> None:
    """The source is opened again at the last commit."""
    stub.faults.on(api).on_call(2).error(code)
    stats = quick(stub, counting(N), batch_size=50, batch_ms=20_000).run(timeout=LIMIT_S)
    assert values(stub) == numbers(N)
    assert stats.aborts >= 1
    assert stats.records_in == N


def test_an_abort_at_the_end(stub: BrokerStub) -> None:
    """The last batch is aborted when the source has ended already: it is read again in the same run."""
    stub.faults.on(Api.END_TXN).error(ErrorCode.TRANSACTION_ABORTABLE)
    stats = quick(stub, counting(N), batch_ms=20_000).run(timeout=LIMIT_S)
    assert (stats.aborts, stats.records_in) == (1, N)
    assert values(stub) == numbers(N)


def test_a_commit_whose_outcome_is_not_known_at_first(stub: BrokerStub) -> None:
    """The coordinator commits, and its answers are lost until the call's time has passed. The job asks before it goes on."""
    lost = stub.faults.on(Api.END_TXN).after_append().forever().drop()
    removing = removed_after(lost, hits=5)
    stats = quick(stub, counting(N), batch_size=50, call_timeout_ms=1_000, producer={"request_timeout_ms": 300}).run(timeout=LIMIT_S)
    removing.join()
    assert values(stub) == numbers(N)
    assert lost.hits > 1
    assert stats.records_in == N


def test_an_outcome_that_stays_unknown(stub: BrokerStub) -> None:
    """The job stops. The position tells the next run, which loses and doubles nothing."""
    lost = stub.faults.on(Api.END_TXN).after_append().forever().drop()
    quiet = stub.faults.on(Api.DESCRIBE_TRANSACTIONS).forever().drop()
    given: dict[str, Any] = {"batch_size": 50, "call_timeout_ms": 500, "aborts_max": 1, "producer": {"request_timeout_ms": 200}}
    with pytest.raises(JobFailed, match=r"the outcome of a commit stays unknown: .* Run the job again: its position then tells"):
        quick(stub, counting(N), **given).run(timeout=LIMIT_S)
    lost.remove()
    quiet.remove()
    assert quick(stub, counting(N)).run(timeout=LIMIT_S).before == 50
    assert values(stub) == numbers(N)


def test_a_second_run(stub: BrokerStub) -> None:
    """It ends the first one, wherever that is, and continues at the position of its last commit. Nothing of the first one's open batch is
    visible, and the first one says that the second ended it."""
    is_overtaken(stub.bootstrap, TOPIC)


def test_a_run_that_is_replaced_between_two_batches(stub: BrokerStub) -> None:
    """It notices at its next transaction."""
    with quick(stub, counting(N), batch_size=50) as first:
        first.run(max_batches=1)
        quick(stub, counting(N), batch_size=50).run(max_batches=1)
        with pytest.raises(Fenced, match="another run of job 'job' has begun"):
            first.run(timeout=LIMIT_S)
    assert values(stub) == numbers(100)


def test_what_a_killed_run_left_open(stub: BrokerStub) -> None:
    """A producer with the job's id left records in an open transaction. The next run ends it at once, and does not wait for its timeout."""
    leaves_a_transaction_open(stub.bootstrap, TOPIC)


def test_a_batch_that_takes_too_long() -> None:
    """The coordinator aborts the transaction. The job takes a new identity, and reads the batch again."""
    with BrokerStub(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}) as stub:
        stub.create_topic(TOPIC, partitions=1)
        takes_too_long(stub.bootstrap, TOPIC)


def test_a_record_that_is_tried_for_longer_than_a_transaction_may_last() -> None:
    """Records before it are sent already. They are committed before their transaction is too old, and the record becomes a dead letter
    after its last attempt."""

    def one_by_one(position: Any) -> Iterator[tuple[bytes, int]]:
        for number in range(position or 0, N):
            time.sleep(0.001)
            yield b"record %d" % number, number + 1

    def fails(record: bytes) -> bytes:
        if record == b"record 100":
            raise KeyError("never")
        return record

    with BrokerStub(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}) as stub:
        for topic in (TOPIC, DEAD):
            stub.create_topic(topic, partitions=1)
        pauses: dict[str, Any] = {"attempts": 40, "retry_backoff_ms": 100, "retry_backoff_max_ms": 100}
        slow: dict[str, Any] = {
            "dead_letters": DEAD,
            "batch_size": 1_000,
            "batch_ms": 300,
            "transaction_timeout_ms": 3_000,
            "transform": fails,
        }
        stats = quick(stub, IteratorSource(one_by_one), **pauses, **slow).run(timeout=LIMIT_S)
        assert (stats.dead_letters, stats.aborts) == (1, 0)
        assert values(stub) == [record for record in numbers(N) if record != b"record 100"]


@pytest.mark.parametrize("ends", ["stop", "deadline"])
@pytest.mark.parametrize("kind", [Job, AsyncJob])
@pytest.mark.usefixtures("longest_pauses")
def test_the_run_ends_before_the_next_attempt(stub: BrokerStub, kind: type[Any], ends: str) -> None:
    """The records before are committed. The next run tries the record as often as if this one had not."""
    failures: list[bytes] = []
    jobs: list[Any] = []

    def fails(record: bytes) -> bytes:
        if record == b"record 17":
            failures.append(record)
            if ends == "stop" and len(failures) == 1:
                jobs[0].stop()
            raise KeyError("not yet")
        return record

    async def fails_later(record: bytes) -> bytes:
        return fails(record)

    def one_by_one(position: Any) -> Iterator[tuple[bytes, int]]:
        for number in range(position or 0, N):
            yield b"record %d" % number, number + 1

    def run(timeout: float, **pauses: Any) -> Any:
        chosen = settings_for(stub.bootstrap, transform=fails if kind is Job else fails_later, dead_letters=DEAD, **pauses)
        jobs.append(kind("job", IteratorSource(one_by_one), **chosen))
        made = jobs[-1].run(timeout=timeout)
        return made if kind is Job else asyncio.run(made)

    began = time.monotonic()
    stats = run(LIMIT_S if ends == "stop" else 4.0, **LONG)
    assert time.monotonic() - began < LONG_S
    assert (len(failures), stats.records_in, stats.dead_letters) == (1, 17, 0)
    assert values(stub) == numbers(17)
    assert (run(LIMIT_S).dead_letters, len(failures)) == (1, 4)
    assert values(stub) == [record for record in numbers(N) if record != b"record 17"]


def test_aborts_in_a_row(stub: BrokerStub) -> None:
    """A batch that is refused again and again stops the job, with the last reason."""
    refused = stub.faults.on(Api.PRODUCE).forever().error(ErrorCode.INVALID_TXN_STATE)
    with pytest.raises(JobFailed, match="4 transactions in a row were aborted, more than aborts_max=3; the last: "):
        quick(stub, counting(N), aborts_max=3).run(timeout=LIMIT_S)
    refused.remove()
    quick(stub, counting(N)).run(timeout=LIMIT_S)
    assert values(stub) == numbers(N)


def test_a_partition_that_does_not_exist(stub: BrokerStub) -> None:
    """The function names it. It may be created, so the batch is tried again. The error names the topic, the partition and how many there
    are."""

    def misplaced(record: bytes) -> OutputRecord:
        return OutputRecord(value=record, partition=99)

    with pytest.raises(JobFailed, match=r"more than aborts_max=1; the last: there is no partition 99"):
        quick(stub, counting(N), transform=misplaced, aborts_max=1).run(timeout=LIMIT_S)
    assert values(stub) == []


def test_a_topic_that_does_not_exist(stub: BrokerStub) -> None:
    """The batch is tried again, and then the error names the topic."""

    def misplaced(record: bytes) -> OutputRecord:
        return OutputRecord(value=record, topic="absent")

    with pytest.raises(JobFailed, match=r"more than aborts_max=1; the last: topic 'absent' did not become available"):
        quick(stub, counting(N), transform=misplaced, aborts_max=1, **ABSENT).run(timeout=LIMIT_S)
    assert values(stub) == []


def misplace(record: bytes) -> OutputRecord:
    """Record 12 goes to a partition that there is not."""
    return OutputRecord(value=record, partition=99 if record == b"record 12" else 0)


def test_a_dead_letter_for_a_partition_that_does_not_exist(stub: BrokerStub) -> None:
    """The record becomes a dead letter, and all others are there."""
    stats = quick(stub, counting(N), transform=misplace, dead_letters=DEAD).run(timeout=LIMIT_S)
    assert (stats.records_in, stats.dead_letters) == (N, 1)
    assert values(stub) == [each for each in numbers(N) if each != b"record 12"]
    assert values(stub, DEAD) == [b"record 12"]


def test_a_bad_record_for_a_partition_that_does_not_exist(stub: BrokerStub) -> None:
    """Without dead letters the job stops at the record; everything before it is committed."""
    words = r"the record after position 12: UnknownPartition: there is no partition 99: 'flights' has 1 partition, numbered from 0"
    with pytest.raises(BadRecord, match=words):
        quick(stub, counting(N), transform=misplace).run(timeout=LIMIT_S)
    assert values(stub) == numbers(12)


def test_a_broker_that_fails_unexpectedly(stub: BrokerStub) -> None:
    """It fails twice for the first record. The record is no dead letter: the broker takes it later."""
    stub.faults.on(Api.PRODUCE).where(topic=TOPIC).times(2).error(ErrorCode.UNKNOWN_SERVER_ERROR)
    stats = quick(stub, counting(50), dead_letters=DEAD, batch_size=1).run(timeout=LIMIT_S)
    assert (stats.aborts, stats.dead_letters) == (2, 0)
    assert values(stub) == numbers(50)


def test_a_broker_that_is_down(stub: BrokerStub) -> None:
    """The job waits for it, and continues."""
    stopped: list[None] = []

    def slowly(position: Any) -> Any:
        for number in range(position or 0, N):
            if number == 100 and not stopped:
                stopped.append(None)
                stub.stop_broker(1)
                threading.Timer(1.5, stub.start_broker, [1]).start()
            yield b"record %d" % number, number + 1

    stats = quick(stub, IteratorSource(slowly), batch_size=50, call_timeout_ms=500).run(timeout=LIMIT_S)
    assert stats.records_in == N
    assert values(stub) == numbers(N)


def test_no_broker_until_the_deadline(stub: BrokerStub) -> None:
    """A run waits no longer than its own time, also if a call may take longer than that. Nothing is open that it would have to end."""
    stub.stop_broker(1)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        quick(stub, counting(N)).run(timeout=2.0)
    assert 1.5 < time.monotonic() - began < 10.0


def test_connections_that_break(stub: BrokerStub) -> None:
    """One in five requests of each kind ends its connection."""
    for api in (Api.PRODUCE, Api.END_TXN, Api.INIT_PRODUCER_ID, Api.FETCH, Api.METADATA):
        stub.faults.on(api).forever().probability(0.2, seed=7).disconnect()
    quick(stub, counting(N), batch_size=20).run(timeout=LIMIT_S)
    stub.faults.clear()
    assert values(stub) == numbers(N)


def test_positions_written_by_others_do_not_count(stub: BrokerStub) -> None:
    """A record outside of any transaction in the topic of positions does not move a job."""
    from fencepost import Producer

    quick(stub, counting(N), batch_size=100).run(max_batches=1)
    [entry] = [each for each in read_messages(stub.bootstrap, "__fencepost_jobs", range(8)) if each.key() == b"job"]
    with Producer(bootstrap_servers=stub.bootstrap) as other:
        value = (entry.value() or b"").replace(b'"position":100', b'"position":250')
        other.send("__fencepost_jobs", value, key=b"job", partition=entry.partition()).result(LIMIT_S)
    assert quick(stub, counting(N)).run().records_in == N - 100
    assert values(stub) == numbers(N)
