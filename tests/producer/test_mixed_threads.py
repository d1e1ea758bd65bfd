"""Threads that do different things with one producer at the same time: send, send_many, results, callbacks, flush, stats.

Each record is acknowledged once, at a place of its own, and told of once. A thread's records of a partition are in order, and the
bytes of the buffer come back. FENCEPOST_SEED replays a run; FENCEPOST_CROWD=full makes it a hundred times as long.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import BufferFull, BulkFuture, Producer, RecordFuture, RecordMetadata, TopicUnavailable
from fencepost.producer.wire import Api
from tests.drawn import drawn
from tests.producer.stub_helpers import quick

FULL = os.environ.get("FENCEPOST_CROWD") == "full"
SENDERS = 4
PARTITIONS = 3
RECORDS = 30_000 if FULL else 300
LIMIT_S = 600.0 if FULL else 60.0
SPLIT_ABOVE = "1500"
WAITERS = 8
TURNS = 1_000 if FULL else 60

pytestmark = pytest.mark.timeout(1_800 if FULL else 150)

SETTINGS: dict[str, dict[str, Any]] = {
    "small batches": {"batch_size": 300},
    "a full buffer": {"buffer_memory": 6_000, "max_request_size": 5_000, "batch_size": 1_000},
    "linger": {"linger_ms": 3, "compression_type": "zstd"},
    "split batches": {"batch_size": 8_000, "linger_ms": 3},
    "lost replies": {"batch_size": 500, "request_timeout_ms": 5_000},
}


class Account:
    """What the program was told. `told`: how often each record's callbacks were called. `at`: where each record is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.told: Counter[bytes] = Counter()
        self.watched: Counter[bytes] = Counter()
        self.at: dict[bytes, tuple[int, int]] = {}
        self.rows = 0

    def watch(self, value: bytes) -> Any:
        """A callback of this record."""
        with self._lock:
            self.watched[value] += 1

        def call(future: RecordFuture) -> None:
            metadata = future.result(0)
            with self._lock:
                self.told[value] += 1
                place = self.at.setdefault(value, (metadata.partition, metadata.offset))
            assert place == (metadata.partition, metadata.offset)

        return call

    def note_concurrent(self, value: bytes, future: Future[RecordMetadata]) -> None:
        self._note(value, future.result(LIMIT_S))

    def note(self, value: bytes, future: RecordFuture) -> None:
        self._note(value, future.result(LIMIT_S))

    def _note(self, value: bytes, metadata: RecordMetadata) -> None:
        with self._lock:
            place = self.at.setdefault(value, (metadata.partition, metadata.offset))
        assert place == (metadata.partition, metadata.offset)

    def note_bulk(self, values: list[bytes], bulk: BulkFuture) -> None:
        outcome = bulk.result(LIMIT_S)
        assert (outcome.acknowledged, outcome.failures) == (len(values), {})
        assert sum(len(span) for spans in outcome.offsets.values() for span in spans) == len(values)
        with self._lock:
            self.rows += len(values)


def sender(number: int, seed: int, producer: Producer, account: Account, readers: ThreadPoolExecutor) -> None:
    """One thread: its records, numbered, in many ways. Other threads read their outcomes."""
    rng = random.Random(f"{seed} {number}")
    reading: list[Future[None]] = []
    sent = 0
    while sent < RECORDS:
        value = b"%d %d %s" % (number, sent, b"." * rng.randrange(200))
        partition = rng.choice((None, 0, 1, 2))
        kind = rng.random()
        if kind < 0.2:
            values = [b"%d %d %s" % (number, sent + each, b"." * rng.randrange(80)) for each in range(rng.randrange(1, 12))]
            bulk = producer.send_many("t", values, partition=partition)
            reading.append(readers.submit(account.note_bulk, values, bulk))
            sent += len(values)
            continue
        if kind < 0.4:
            future = producer.send("t", value, partition=partition, on_delivery=account.watch(value))
        elif kind < 0.5:
            try:
                future = producer.try_send("t", value, partition=partition)
            except (BufferFull, TopicUnavailable):
                continue
        else:
            future = producer.send("t", value, partition=partition)
        sent += 1
        if kind < 0.7:
            reading.append(readers.submit(account.note, value, future))
        elif kind < 0.8:
            future.add_done_callback(account.watch(value))
            reading.append(readers.submit(future.add_done_callback, account.watch(value)))
        elif kind < 0.85:
            reading.append(readers.submit(account.note_concurrent, value, future.concurrent()))
        elif kind < 0.9:
            account.note(value, future)
    for each in reading:
        each.result(LIMIT_S)


def flush(producer: Producer, over: threading.Event) -> int:
    flushes = 0
    while not over.is_set():
        producer.flush(LIMIT_S)
        flushes += 1
    return flushes


def look(producer: Producer, over: threading.Event, buffer_memory: int) -> int:
    """Statistics that never go back, and a buffer that is never more than full."""
    acknowledged = looks = 0
    while not over.is_set():
        stats = producer.stats()
        assert stats.record_acknowledged_total >= acknowledged
        acknowledged = stats.record_acknowledged_total
        assert 0 <= stats.buffer_available_bytes <= buffer_memory
        repr(producer)
        looks += 1
    return looks


def strike(stub: BrokerStub, settings: str, rng: random.Random) -> None:
    if settings == "lost replies":
        stub.faults.on(Api.PRODUCE).after_append().disconnect().probability(0.05, rng.randrange(1 << 30))
    elif settings == "a full buffer":
        stub.faults.on(Api.PRODUCE).before().delay(5).probability(0.3, rng.randrange(1 << 30))


@pytest.fixture(autouse=True)
def short_turns() -> Iterator[None]:
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@drawn(2)
@pytest.mark.parametrize("settings", SETTINGS)
def test_threads_that_do_different_things(settings: str) -> None:
    """See the module."""
    seed = int(os.environ.get("FENCEPOST_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"{settings}: FENCEPOST_SEED={seed}")
    mixed(settings, seed)


def mixed(settings: str, seed: int) -> None:
    """One run."""
    account, over = Account(), threading.Event()
    with BrokerStub(brokers=2, auto_create_topics=False, journal=0) as stub, ThreadPoolExecutor(SENDERS + 6) as pool:
        config = {"max.message.bytes": SPLIT_ABOVE} if settings == "split batches" else {}
        stub.create_topic("t", partitions=PARTITIONS, replication_factor=2, config=config)
        strike(stub, settings, random.Random(seed))
        producer = quick(stub, **SETTINGS[settings])
        try:
            with ThreadPoolExecutor(3) as readers:
                beside = [
                    pool.submit(flush, producer, over),
                    pool.submit(look, producer, over, producer._settings.buffer_memory),
                    pool.submit(look, producer, over, producer._settings.buffer_memory),
                ]
                try:
                    sending = [pool.submit(sender, number, seed, producer, account, readers) for number in range(SENDERS)]
                    for each in sending:
                        each.result(LIMIT_S)
                finally:
                    over.set()
                assert all(each.result(LIMIT_S) for each in beside)
            producer.flush(LIMIT_S)
            assert producer.unacknowledged == 0
        finally:
            for closing in [pool.submit(producer.close, LIMIT_S) for _ in range(2)]:
                closing.result(LIMIT_S)
        check_producer(producer)
        check_log(stub, account, producer.stats().record_acknowledged_total)


def check_producer(producer: Producer) -> None:
    accumulator = producer._accumulator
    assert (int(accumulator.used), int(accumulator.waiting), len(accumulator._incomplete), len(accumulator._flushing)) == (0, 0, 0, 0)
    assert producer.stats().record_error_total == 0
    assert not producer._sender._thread.is_alive()


def check_log(stub: BrokerStub, account: Account, acknowledged: int) -> None:
    """The log against the account."""
    found: dict[bytes, tuple[int, int]] = {}
    numbers: dict[int, list[int]] = {number: [] for number in range(SENDERS)}
    records = 0
    for partition in range(PARTITIONS):
        newest: dict[int, int] = {}
        for record in stub.records("t", partition):
            assert record.value is not None
            number, place = (int(each) for each in record.value.split(b" ")[:2])
            assert newest.get(number, -1) < place
            newest[number] = place
            numbers[number].append(place)
            found[record.value] = partition, record.offset
            records += 1
    assert acknowledged == records
    assert {number: sorted(places) for number, places in numbers.items()} == {n: list(range(len(p))) for n, p in numbers.items()}
    assert all(len(places) >= RECORDS for places in numbers.values())
    assert {value: found[value] for value in account.at} == account.at
    assert len(set(account.at.values())) == len(account.at)
    assert account.told == account.watched


def test_threads_that_wait_for_topics() -> None:
    """Topics appear one by one while threads wait for these and for others: every thread gets its topic, and the sender goes on."""
    with BrokerStub(default_partitions=3, journal=0) as stub, ThreadPoolExecutor(WAITERS) as pool, quick(stub) as producer:
        for turn in range(TURNS):
            together = threading.Barrier(WAITERS)

            def wait(number: int, turn: int = turn, together: threading.Barrier = together) -> list[int]:
                together.wait(LIMIT_S)
                return producer.partitions_for(f"{turn}-{number // 2}", LIMIT_S)

            for each in [pool.submit(wait, number) for number in range(WAITERS)]:
                assert each.result(LIMIT_S) == list(range(3))
        assert producer._sender.running
