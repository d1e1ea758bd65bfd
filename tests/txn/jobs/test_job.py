"""A job: position and records are committed together, the transform makes records, and a run stops cleanly."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import AsyncJob, BadJobEntry, BadRecord, IteratorSource, JobFailed, OutputRecord, SourceChanged
from fencepost.txn.jobs.positions import Positions
from tests.reading import read_messages
from tests.txn.jobs.helpers import DEAD, LIMIT_S, TOPIC, PowerCut, dead_letters, numbers, quick, settings_for, stub, values
from tests.txn.jobs.stories import counting

__all__ = ["stub"]

pytestmark = pytest.mark.timeout(120)


def positions(stub: BrokerStub) -> Positions:
    return Positions(read_settings({"bootstrap_servers": stub.bootstrap}))


def test_a_crash_anywhere(stub: BrokerStub) -> None:
    """A run is interrupted at each of these records, before or after it is sent. Every record is there once, in order."""
    for crash_at in (0, 1, 49, 50, 51, 120, 199):

        def crashing(item: bytes, crash_at: int = crash_at) -> bytes:
            if item == b"record %d" % crash_at:
                raise PowerCut
            return item

        with pytest.raises(PowerCut):
            quick(stub, counting(200), transform=crashing, batch_size=50, batch_ms=20_000).run()
        assert len(values(stub)) == crash_at // 50 * 50
    stats = quick(stub, counting(200), batch_size=50).run()
    assert (stats.before, stats.records_in) == (150, 50)
    assert values(stub) == numbers(200)


def test_the_position_is_committed_with_the_records(stub: BrokerStub) -> None:
    """The record of the position is in the same transaction: the raw log has both between the same markers, and none without the other."""
    with quick(stub, counting(100), batch_size=10) as job:
        for count in range(1, 11):
            job.run(max_batches=1)
            assert job.position == 10 * count
            entry = positions(stub).read("job", LIMIT_S)
            assert entry is not None
            assert (entry.position, entry.records, entry.source, entry.topic) == (10 * count, 10 * count, "iterator", TOPIC)
            assert values(stub) == numbers(10 * count)


def test_what_a_transform_may_return(stub: BrokerStub) -> None:
    """Nothing, a value, a pair, a record for another topic, a list, or a generator."""
    stub.create_topic("other", partitions=1)
    made: list[Any] = [
        None,
        b"value",
        (b"key", b"pair"),
        OutputRecord(value=b"elsewhere", topic="other"),
        [b"first", (b"k", b"second"), OutputRecord(value=b"third", headers={"h": b"1"})],
    ]
    source = IteratorSource(lambda position: ((number, number + 1) for number in range(position or 0, len(made))))
    stats = quick(stub, source, transform=lambda number: made[number]).run()
    assert (stats.records_in, stats.records_out) == (5, 6)
    messages = read_messages(stub.bootstrap, TOPIC)
    assert [(each.key(), each.value(), each.headers()) for each in messages] == [
        (None, b"value", None),
        (b"key", b"pair", None),
        (None, b"first", None),
        (b"k", b"second", None),
        (None, b"third", [("h", b"1")]),
    ]
    assert values(stub, "other") == [b"elsewhere"]


def test_records_as_a_source_yields_them(stub: BrokerStub) -> None:
    """Without a transform a record is bytes, a pair, or an OutputRecord."""
    made = [b"value", (b"key", b"pair"), OutputRecord(value=b"record", key=b"k")]
    quick(stub, IteratorSource(lambda position: ((each, index) for index, each in enumerate(made[position or 0 :], 1)))).run()
    assert [(each.key(), each.value()) for each in read_messages(stub.bootstrap, TOPIC)] == [
        (None, b"value"),
        (b"key", b"pair"),
        (b"k", b"record"),
    ]


class Shelf:
    """A program's own source, with attributes that have the names of ours."""

    def __init__(self) -> None:
        self.pieces = [b"one", b"two"]
        self.to_record = None

    def open(self, position: Any, /) -> Iterator[tuple[bytes, int]]:
        for number in range(position or 0, len(self.pieces)):
            yield self.pieces[number], number + 1


def test_a_source_may_have_any_other_attribute(stub: BrokerStub) -> None:
    """Only `open` is asked of a program's own class."""
    quick(stub, Shelf()).run()
    assert values(stub) == [b"one", b"two"]


def test_a_transform_that_fails_at_first(stub: BrokerStub) -> None:
    """It is called again after a pause."""
    calls: list[bytes] = []

    def shaky(item: bytes) -> bytes:
        calls.append(item)
        if calls.count(item) < 3 and item == b"record 3":
            raise OSError("not now")
        return item

    stats = quick(stub, counting(5), transform=shaky, attempts=3).run()
    assert stats.retries == 2
    assert values(stub) == numbers(5)


@pytest.mark.parametrize("result", [ValueError("no price"), "text", (b"k", "text"), OutputRecord(value=b"x", topic="no/topic")])
def test_a_record_that_cannot_be_written(stub: BrokerStub, result: Any) -> None:
    """It stops the job after the commit of what comes before it, by its place; or it becomes a dead letter. What comes after it is
    written once."""

    def transform(item: bytes) -> Any:
        if item != b"record 7":
            return item
        if isinstance(result, Exception):
            raise result
        return result

    with pytest.raises(BadRecord, match=r"the record after position 7: .*Everything before") as raised:
        quick(stub, counting(20), transform=transform, attempts=2).run()
    assert raised.value.attempts == (2 if isinstance(result, Exception) else 1)
    assert values(stub) == numbers(7)
    stats = quick(stub, counting(20), transform=transform, attempts=1, dead_letters=DEAD).run()
    assert (stats.records_in, stats.dead_letters) == (13, 1)
    assert values(stub) == [each for each in numbers(20) if each != b"record 7"]
    [(value, headers)] = dead_letters(stub)
    assert (value, headers["fencepost.job"], headers["fencepost.place"]) == (b"record 7", "job", "the record after position 7")


@pytest.mark.parametrize("dead", [None, DEAD])
def test_a_record_that_brokers_refuse(stub: BrokerStub, dead: str | None) -> None:
    """The batch is aborted, and its records are written one in a transaction, until the refused one is found."""
    stub.create_topic("small", partitions=1, config={"max.message.bytes": 1_000})

    def transform(item: bytes) -> bytes:
        return item + (b"x" * 3_000 if item == b"record 12" else b"")

    job = quick(stub, counting(20), transform=transform, topic="small", dead_letters=dead)
    if dead is None:
        with pytest.raises(BadRecord, match=r"the record after position 12: .*MESSAGE_TOO_LARGE"):
            job.run()
        assert values(stub, "small") == numbers(12)
        return
    stats = job.run()
    assert (stats.records_in, stats.dead_letters) == (20, 1)
    assert values(stub, "small") == [each for each in numbers(20) if each != b"record 12"]


def test_stop_commits_what_is_read(stub: BrokerStub) -> None:
    """`stop` ends the run after the commit of the open batch, well before the batch is full or old."""

    def stopping(item: bytes) -> bytes:
        if item == b"record 10":
            job.stop()
        return item

    def slowly(position: Any) -> Iterator[tuple[bytes, int]]:
        for number in range(position or 0, 1_000):
            time.sleep(0.002)
            yield b"record %d" % number, number + 1

    job = quick(stub, IteratorSource(slowly), transform=stopping, batch_size=5_000, batch_ms=20_000)
    stats = job.run(timeout=LIMIT_S)
    assert 11 <= stats.records_in < 500
    assert values(stub) == numbers(stats.records_in)
    assert job.run().records_in == stats.records_in


def test_stop_in_a_signal_handler(stub: BrokerStub) -> None:
    """As a service does it for SIGTERM."""

    def terminated(item: bytes) -> bytes:
        if item == b"record 10":
            os.kill(os.getpid(), signal.SIGTERM)
        return item

    job = quick(stub, IteratorSource(lambda position: iter(lambda: (b"record 10", 1), None)), transform=terminated)
    before = signal.signal(signal.SIGTERM, lambda *_: job.stop())
    try:
        stats = job.run(timeout=LIMIT_S)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(values(stub)) == stats.records_in > 0


def test_a_source_that_has_nothing_for_now(stub: BrokerStub) -> None:
    """When it yields None the job commits what it has."""
    seen: list[int] = []

    def pausing(position: Any) -> Iterator[tuple[bytes, int] | None]:
        yield b"record 0", 1
        yield None
        seen.append(len(values(stub)))
        yield b"record 1", 2

    quick(stub, IteratorSource(pausing), batch_ms=20_000).run()
    assert seen == [1]
    assert values(stub) == numbers(2)


def breaking(position: Any) -> Iterator[tuple[bytes, int]]:
    """100 records. From the start only 60 come before an error."""
    for number in range(position or 0, 100):
        if number == 60 and not position:
            raise KeyError("page 6")
        yield b"record %d" % number, number + 1


def test_a_source_that_raises(stub: BrokerStub) -> None:
    """What it yielded before is committed, and its own error is raised."""
    with pytest.raises(KeyError, match="page 6"):
        quick(stub, IteratorSource(breaking), batch_ms=20_000).run()
    assert values(stub) == numbers(60)
    quick(stub, IteratorSource(breaking)).run()
    assert values(stub) == numbers(100)


def test_a_source_that_raises_before_an_abort(stub: BrokerStub) -> None:
    """The batch before the error is aborted. It is read again and committed, before the error is raised."""
    aborted = stub.faults.on(Api.END_TXN).error(ErrorCode.TRANSACTION_ABORTABLE)
    with pytest.raises(KeyError, match="page 6"):
        quick(stub, IteratorSource(breaking), batch_ms=20_000).run(timeout=LIMIT_S)
    assert aborted.hits == 1
    assert values(stub) == numbers(60)


@pytest.mark.parametrize("position", [object(), float("nan"), [float("inf")], {"at": -float("inf")}])
def test_a_position_that_json_cannot_hold(stub: BrokerStub, position: Any) -> None:
    """It is refused before the first commit. (msgspec writes null for nan, and null is the start.)"""
    with pytest.raises(BadJobEntry, match=r"position=.*: a position must be a value that JSON can hold"):
        quick(stub, IteratorSource(lambda _: iter([(b"x", position)]))).run()
    assert values(stub) == []


def going_on(position: Any) -> Iterator[tuple[bytes, dict[str, int]]]:
    """A hundred records, whose position is one dictionary that changes, also the one that the job gave."""
    at = position if position is not None else {"done": 0}
    while at["done"] < 100:
        record = b"record %d" % at["done"]
        at["done"] += 1
        yield record, at


def test_a_position_that_the_source_changes(stub: BrokerStub) -> None:
    """The job reads several records before it commits the first of them. The position that it commits is still that of the last one."""
    for run in range(1, 11):
        quick(stub, IteratorSource(going_on), batch_size=7).run(max_batches=1)
        assert values(stub) == numbers(7 * run)


def test_an_aborted_batch_of_a_source_that_changes_its_position(stub: BrokerStub) -> None:
    """The source changes the position that it was given. After an abort it begins at the last commit nevertheless."""
    quick(stub, IteratorSource(going_on), batch_size=10).run(max_batches=1)
    stub.faults.on(Api.END_TXN).error(ErrorCode.TRANSACTION_ABORTABLE)
    stats = quick(stub, IteratorSource(going_on), batch_size=10).run(timeout=LIMIT_S)
    assert (stats.aborts, stats.records_in) == (1, 90)
    assert values(stub) == numbers(100)


def test_a_position_that_means_the_start(stub: BrokerStub) -> None:
    """None after a record would have the next run send everything again."""
    with pytest.raises(BadJobEntry, match="position=None: the source gives it after a record"):
        quick(stub, IteratorSource(lambda _: iter([(b"x", 1), (b"y", None)]))).run()
    assert values(stub) == []


@pytest.mark.parametrize("odd", [b"x", (b"x",), (b"x", 1, 2), 5, b"xy"])
def test_a_source_that_yields_no_pairs(stub: BrokerStub, odd: Any) -> None:
    """What came before is committed. The error says what was yielded, and what a source must yield."""
    with pytest.raises(TypeError, match=r"the source yields .*: a pair of a record and the position after it, or None"):
        quick(stub, IteratorSource(lambda _: iter([(b"a", 1), odd]))).run()
    assert values(stub) == [b"a"]


def test_another_kind_of_source(stub: BrokerStub) -> None:
    """A job's position belongs to its kind of source."""
    quick(stub, counting(3)).run()
    with pytest.raises(
        SourceChanged, match=r"has the position of a source of kind 'iterator', and this source is of kind 'other'.* jobs reset"
    ):
        quick(stub, IteratorSource(lambda position: iter(()), kind="other")).run()


def test_another_topic(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """The log names both topics before the first record goes to the new one, and not after that. Only what is new is written."""
    stub.create_topic("other", partitions=1)
    quick(stub, counting(2)).run()
    assert quick(stub, counting(2)).run().records_in == 0
    assert "earlier runs" not in caplog.text
    assert quick(stub, counting(3), topic="other").run().records_in == 1
    assert quick(stub, counting(3), topic="other").run().records_in == 0
    assert caplog.text.count("job 'job': earlier runs wrote to topic 'flights', and this one writes to 'other'") == 1
    assert values(stub, "other") == [b"record 2"]


def test_two_jobs_do_not_meet(stub: BrokerStub) -> None:
    """Each has its own position and transactional id."""
    quick(stub, counting(3), "a").run()
    quick(stub, counting(3), "b").run()
    assert values(stub) == numbers(3) * 2
    assert {name: each.entry.records for name, each in positions(stub).list(LIMIT_S).items() if each.entry} == {"a": 3, "b": 3}


def test_progress(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """The progress line is logged, and its function gets the statistics. Its errors do not stop the job."""
    told: list[Any] = []

    def progress(stats: Any) -> None:
        told.append(stats)
        raise RuntimeError("in the display")

    caplog.set_level("INFO", "fencepost.job")

    def slowly(position: Any) -> Iterator[tuple[bytes, int]]:
        for number in range(position or 0, 20):
            time.sleep(0.003)
            yield b"record %d" % number, number + 1

    quick(stub, IteratorSource(slowly), progress_ms=5, on_progress=progress, batch_size=3).run()
    assert told[-1].records_in >= 15
    assert "job 'job': " in caplog.text
    assert "on_progress raised" in caplog.text


def test_async(stub: BrokerStub) -> None:
    """The same on an event loop, with an async transform; the source runs in a thread of its own."""
    threads: set[int] = set()

    def reading(position: Any) -> Iterator[tuple[bytes, int]]:
        for number in range(position or 0, 300):
            threads.add(threading.get_ident())
            yield b"record %d" % number, number + 1

    async def transform(item: bytes) -> bytes:
        await asyncio.sleep(0)
        return item

    async def main() -> None:
        job = AsyncJob("job", IteratorSource(reading), **settings_for(stub.bootstrap, transform=transform, batch_size=100))
        assert (await job.run(max_batches=1)).records_in == 100
        assert job.position == 100
        assert (await AsyncJob("job", IteratorSource(reading), **settings_for(stub.bootstrap)).run()).records_in == 200

    asyncio.run(main())
    assert threading.get_ident() not in threads
    assert values(stub) == numbers(300)


def test_a_cancellation_aborts_the_open_batch(stub: BrokerStub) -> None:
    """Nothing of it is visible, and the next run writes it."""

    async def main() -> None:
        async def cancelled(item: bytes) -> bytes:
            if item == b"record 70":
                running.cancel()
                await asyncio.sleep(LIMIT_S)
            return item

        job = AsyncJob("job", counting(100), **settings_for(stub.bootstrap, transform=cancelled, batch_size=50, batch_ms=20_000))
        running = asyncio.ensure_future(job.run())
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert values(stub) == numbers(50)
    quick(stub, counting(100)).run()
    assert values(stub) == numbers(100)


def test_a_topic_that_may_not_be_written(stub: BrokerStub) -> None:
    """The job says what to grant, and does not try again."""
    stub.faults.on(Api.PRODUCE).forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(JobFailed, match="grant WRITE on the topic"):
        quick(stub, counting(3)).run(timeout=20)
