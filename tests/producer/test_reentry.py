"""A call in the middle of another one of the same producer, on the same thread: from a finalizer, or a signal's handler."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import fencepost
from fencepost.broker_stub import BrokerStub
from fencepost.producer import BufferFull, BulkFuture, Misuse, Partitioner, Producer, RecordFuture, TopicUnavailable
from fencepost.producer.accumulator.batch import INSIDE
from tests.drawn import drawn
from tests.producer.stub_helpers import quick
from tests.strike import MARKS, struck

PATIENCE_S = 20
SMALL: dict[str, Any] = {"buffer_memory": 3_000, "max_request_size": 2_500}
CALLED_FROM_INSIDE = "in the middle of another call of the same producer"

pytestmark = [*MARKS, pytest.mark.timeout(600)]


class Ledger:
    """What was accepted, by whomever, to be compared with the log."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self._numbers = count()
        self._futures: list[tuple[bytes, RecordFuture]] = []
        self._bulks: list[tuple[list[bytes], BulkFuture]] = []
        self.told = 0
        self.refusals: list[str] = []
        self.wrong: list[BaseException] = []

    def value(self, size: int = 0) -> bytes:
        return b"%d " % next(self._numbers) + b"x" * size

    def send(self, size: int = 0, **arguments: Any) -> RecordFuture:
        value = self.value(size)
        future = self.producer.send("t", value, **arguments)
        self._futures.append((value, future))
        return future

    def send_watched(self) -> RecordFuture:
        return self.send(on_delivery=self._hear)

    def send_many(self, size: int = 0, rows: int = 3) -> BulkFuture:
        values = [self.value(size) for _ in range(rows)]
        try:
            bulk = self.producer.send_many("t", values)
        except (Misuse, BufferFull) as error:
            part: BulkFuture = error.sent  # type: ignore[union-attr]
            self._bulks.append((values[: part.accepted], part))
            raise
        self._bulks.append((values, bulk))
        return bulk

    def send_arrow(self, rows: int = 400) -> BulkFuture:
        values = [self.value() for _ in range(rows)]
        bulk = self.producer.send_arrow("t", pa.table({"value": pa.array(values, pa.binary())}))
        self._bulks.append((values, bulk))
        return bulk

    def send_and_flush(self) -> None:
        self.send()
        self.producer.flush(PATIENCE_S)

    def _hear(self, future: RecordFuture) -> None:
        self.told += 1

    def inside(self, call: Callable[[Ledger], object]) -> None:
        """What a finalizer or a handler does."""
        try:
            call(self)
        except (Misuse, BufferFull) as error:
            if "inside a delivery callback" not in str(error):
                self.refusals.append(str(error))
        except BaseException as error:  # noqa: BLE001 - a finalizer's would be printed and forgotten
            self.wrong.append(error)

    def check(self, stub: BrokerStub) -> None:
        """Each record that was accepted is in the log where its future says, nothing else is, and the budget has come back."""
        assert not self.wrong, self.wrong
        assert all(CALLED_FROM_INSIDE in refusal for refusal in self.refusals), set(self.refusals)
        self.producer.flush(PATIENCE_S)
        logs = {p: [bytes(record.value or b"") for record in stub.records("t", p)] for p in self.producer.partitions_for("t")}
        accepted = []
        for value, future in self._futures:
            where = future.result(PATIENCE_S)
            assert logs[where.partition][where.offset] == value
            accepted.append(value)
        for values, bulk in self._bulks:
            outcome = bulk.result(PATIENCE_S)
            assert outcome.acknowledged == len(values)
            placed = [logs[p][offset] for p, spans in outcome.offsets.items() for span in spans for offset in span]
            assert sorted(placed) == sorted(values)
            accepted += values
        assert sorted(value for log in logs.values() for value in log) == sorted(accepted)
        accumulator = self.producer._accumulator
        assert (accumulator.used, accumulator.waiting, accumulator.hurried()) == (0, 0, False)


OUTER: dict[str, Callable[[Ledger], object]] = {
    "send": lambda ledger: ledger.send(),
    "send with a callback": lambda ledger: ledger.send_watched(),
    "send without room": lambda ledger: [ledger.send(900) for _ in range(4)],
    "send_many": lambda ledger: ledger.send_many(),
    "send_many without room": lambda ledger: ledger.send_many(900, 4),
    "result": lambda ledger: ledger.send().result(PATIENCE_S),
    "result of a bulk": lambda ledger: ledger.send_many().result(PATIENCE_S),
    "flush": lambda ledger: ledger.send_and_flush(),
}
INNER: dict[str, Callable[[Ledger], object]] = {
    "send": lambda ledger: ledger.send(),
    "send with a callback": lambda ledger: ledger.send_watched(),
    "send_many": lambda ledger: ledger.send_many(),
    "result": lambda ledger: ledger.send().result(PATIENCE_S),
    "done callback": lambda ledger: ledger.send().add_done_callback(lambda future: None),
    "result of a bulk": lambda ledger: ledger.send_many().result(PATIENCE_S),
    "flush": lambda ledger: ledger.producer.flush(PATIENCE_S),
}


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(default_partitions=2) as stub:
        stub.create_topic("t", partitions=2)
        yield stub


def on_a_thread(work: Callable[[], None]) -> None:
    """Do the work, or fail where it waits for ever."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(3 * PATIENCE_S)
    assert not thread.is_alive(), "it waits for itself"
    for error in raised:
        raise error


@drawn(4, kind=lambda row: row["outer"])
@pytest.mark.skipif(fencepost.build_info().compiled, reason="no handler of a signal runs in the middle of a compiled method")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_a_signals_handler_at_any_point(stub: BrokerStub, outer: str, inner: str) -> None:
    """A signal's handler sends a record at any point of another call. The record is accepted and delivered, unless the buffer is full. A
    call that would have to wait for the interrupted call raises at once. No thread waits for itself, and every batch, count and offset is
    right."""
    producer = quick(stub, **(SMALL if "room" in outer else {}))
    producer.partitions_for("t")
    ledger = Ledger(producer)

    def work() -> None:
        spared = 0
        points = count()
        while spared < 3:  # One call has some points more than another.
            spared += 1

            def strike() -> None:
                nonlocal spared
                spared = 0
                ledger.inside(INNER[inner])

            struck(lambda: OUTER[outer](ledger), next(points), strike)
        ledger.check(stub)

    on_a_thread(work)
    if "room" not in outer and inner.startswith("send") and inner != "send_many":
        assert not ledger.refusals
    producer.close()


class Garbage:
    """A cycle. Collected, it calls, and leaves another one behind."""

    def __init__(self, call: Callable[[], object], left: list[int]) -> None:
        self.cycle = self
        self.call = call
        self.left = left

    def __del__(self) -> None:
        if self.left[0]:
            self.left[0] -= 1
            self.call()
            Garbage(self.call, self.left)


@pytest.fixture
def eager_collections() -> Iterator[None]:
    """Collections at nearly every object that is made."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*thresholds)


MANY: dict[str, Callable[[Ledger], object]] = {
    **OUTER,
    "send with a key": lambda ledger: ledger.send(key=b"k"),
    "send with headers": lambda ledger: ledger.send(headers=[("h", b"v")]),
    "send to a partition": lambda ledger: ledger.send(300, partition=1),
    "send to each in turn": lambda ledger: ledger.send(),
    "send_arrow": lambda ledger: ledger.send_arrow(),
}
PARTITIONERS = {"send to each in turn": Partitioner.ROUND_ROBIN}


@drawn(4, kind=lambda row: row["outer"])
@pytest.mark.parametrize("inner", ["send with a callback", "send_many", "result", "flush"])
@pytest.mark.parametrize("outer", MANY)
def test_a_finalizer(stub: BrokerStub, eager_collections: None, outer: str, inner: str) -> None:
    """A garbage collection runs a finalizer inside another call, on the caller's thread or the sender's, and the finalizer calls the
    producer. No thread waits for itself, and every batch, count and offset is right. It holds compiled and uncompiled."""
    producer = quick(stub, **(SMALL if "room" in outer else {"batch_size": 700}), partitioner=PARTITIONERS.get(outer, Partitioner.DEFAULT))
    producer.partitions_for("t")
    ledger = Ledger(producer)
    left = [60]

    def call() -> None:
        # On the stub's threads nothing may wait for the stub, and on the sender's nothing for itself.
        here = threading.current_thread()
        if here is workers[0] or (producer._shared.on_sender() and inner.startswith("send")):
            ledger.inside(INNER[inner])

    workers: list[threading.Thread] = []

    def work() -> None:
        workers.append(threading.current_thread())
        Garbage(call, left)
        for _ in range(30):
            MANY[outer](ledger)
        left[0] = 0
        ledger.check(stub)

    on_a_thread(work)
    producer.close()


def test_a_topic_that_is_not_known_yet(stub: BrokerStub) -> None:
    """In the middle of another call, a `send` to a topic that is not known says so at once, and names the reason."""
    producer = quick(stub)
    producer.partitions_for("t")
    with producer._shared.region, pytest.raises(TopicUnavailable, match=CALLED_FROM_INSIDE):
        producer.send("other", b"x")
    producer.close()


def test_a_full_buffer(stub: BrokerStub) -> None:
    """In the middle of another call, a `send` without room says so at once, also where records were put aside before it; the buffer is
    never exceeded."""
    producer = quick(stub, **SMALL)
    producer.partitions_for("t")
    accepted = []
    with producer._shared.region, pytest.raises(BufferFull, match=CALLED_FROM_INSIDE):
        for _ in range(100):
            accepted.append(producer.send("t", b"x" * 500))
    assert 0 < len(accepted) < 6
    assert [future.result(PATIENCE_S).topic for future in accepted] == ["t"] * len(accepted)
    producer.close()
    assert producer._accumulator.used == 0


def test_what_was_put_aside_comes_first(stub: BrokerStub) -> None:
    """What is sent in the middle of another call comes before what is sent after that call."""
    producer = quick(stub, linger_ms=1_000)
    producer.partitions_for("t")
    futures = []
    for number in range(0, 100, 2):
        with producer._shared.region:
            futures.append(producer.send("t", b"%d" % number, partition=0))
        futures.append(producer.send("t", b"%d" % (number + 1), partition=0))
    producer.close()
    assert [future.result().offset for future in futures] == list(range(100))


@pytest.mark.parametrize("call", ["close", "flush", "partitions_for"])
def test_what_would_never_end(stub: BrokerStub, call: str) -> None:
    """Calls that wait for the sender are refused in the middle of another one, which the sender waits for."""
    producer = quick(stub)
    producer.partitions_for("t")
    arguments = ["t"] if call == "partitions_for" else []
    with producer._shared.region, pytest.raises(Misuse, match=INSIDE[:40]):
        getattr(producer, call)(*arguments)
    producer.close()
