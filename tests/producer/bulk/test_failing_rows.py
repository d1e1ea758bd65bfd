"""Bulks with rows that fail, at random places, from several callers at once.

The producer survives the caller's data and code, each row has one outcome, and each claimed offset holds exactly that row. FENCEPOST_RUNS
says how many runs to play, by default a sample. The number of a run replays it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, BufferFull, BulkFuture, Misuse, Producer
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import QUICK

RUNS = max(4, int(os.environ.get("FENCEPOST_RUNS", "0")))
PARTITIONS = 3
BULKS = 12
SETTINGS: dict[str, Any] = {**QUICK, "batch_size": 3_000, "buffer_memory": 60_000, "max_request_size": 20_000, "max_block_ms": 15_000}

pytestmark = pytest.mark.timeout(60 + 10 * RUNS)


class Poison(Exception):
    """What the caller's own code raises."""


class Struck(BaseException):
    """What a signal's handler raises, as Ctrl-C does."""


class Story:
    """One caller. `mine`: the values of each bulk, row by row, and its future; `singles`: those of records sent one by one; `untold`: those
    of calls that were interrupted, which may have been accepted."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.rng = random.Random(f"{seed} {name}")
        self.mine: list[tuple[list[bytes], BulkFuture]] = []
        self.singles: list[tuple[bytes, Any]] = []
        self.untold: set[bytes] = set()
        self.count = 0
        self.calls = 0
        self.raised: Counter[str] = Counter()

    def value(self) -> bytes:
        self.count += 1
        return b"%s-%d-" % (self.name.encode(), self.count) + b"x" * self.rng.choice((0, 0, 10, 200))

    def rows(self) -> list[bytes]:
        return [self.value() for _ in range(self.rng.choice((1, 5, 60, 700, 5_000)))]

    def row(self, value: bytes) -> object:
        """A good row in one of its shapes."""
        rng = self.rng
        key = rng.choice((None, b"k", b"key-%d" % rng.randrange(9)))
        shapes: list[object] = [
            value,
            (key, value),
            (key, value, [("h", b"1"), ("grüße", None)]),
            (key, value, None, 1_700_000_000_000 + rng.randrange(10_000), rng.randrange(PARTITIONS)),
            {"value": value, "key": key, "headers": {"h": b"2"}},
        ]
        return rng.choice(shapes)

    def poison(self) -> object:
        """A row that cannot be sent."""
        poisons: list[object] = [
            (b"k", b"v", [("\ud800", b"x")]),
            (b"k", b"v", [("h", "text")]),
            (b"k", b"v", [(7, b"x")]),
            (b"k", b"v", [None]),
            (b"k", "text"),
            ("text", b"v"),
            "text",
            7,
            object(),
            (b"k", b"v", None, -1),
            (b"k", b"v", None, 2**63),
            (b"k", b"v", None, None, 2**31),
            (b"k", b"v", None, None, -1),
            b"x" * 30_000,
            (b"k", b"v", [("h", b"x" * 30_000)]),
            {"valeu": b"v"},
            (),
        ]
        return self.rng.choice(poisons)

    def bulk(self) -> tuple[list[bytes], Any]:
        """The values of a bulk's good rows, and what to send: a list, or an iterator that may raise, either perhaps poisoned."""
        values = self.rows()
        rows = [self.row(value) for value in values]
        if self.rng.random() < 0.5:
            place = self.rng.randrange(len(rows) + 1)
            rows.insert(place, self.poison())
            values.insert(place, b"never")
        kind = self.rng.random()
        if kind < 0.5:
            return values, rows
        end = self.rng.randrange(len(rows)) if kind < 0.75 else None

        def given() -> Iterator[object]:
            for number, row in enumerate(rows):
                if number == end:
                    raise Poison("an iterator")
                yield row

        return values, given()

    def table(self) -> tuple[list[bytes], Any]:
        """Values, and a table of them. The names of its headers may be no text."""
        values = self.rows()
        bad = self.rng.randrange(len(values)) if self.rng.random() < 0.5 else None
        names = pa.array([b"\xed\xa0\x80" if number == bad else b"h" for number in range(len(values))], pa.binary()).view(pa.string())
        pairs = pa.StructArray.from_arrays([names, pa.array([b"1"] * len(values))], ["key", "value"])
        headers = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), pairs)
        keys = [self.rng.choice((None, b"k", b"l")) for _ in values]
        return values, pa.table({"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.binary()), "h": headers})

    def hear(self, error: BaseException, values: list[bytes]) -> None:
        """A bulk raised: what is known to have been accepted is its own."""
        self.raised[type(error).__name__] += 1
        bulk = getattr(error, "sent", None)
        if isinstance(bulk, BulkFuture):
            self.mine.append((values, bulk))

    def arrow_arguments(self) -> dict[str, str]:
        return {"key": "key", "headers": "h"} if self.rng.random() < 0.5 else {"key": "key"}


def chooser(story: Story, again: Callable[[], object]) -> Callable[..., int | None]:
    """A partitioner that mostly chooses, and now and then raises, chooses nonsense, or comes back into the producer."""

    def choose(key: bytes | None, partitions: list[int], available: list[int]) -> Any:
        luck = story.rng.random()
        if luck < 0.0005:
            raise Poison("a partitioner")
        if luck < 0.001:
            return 99
        if luck < 0.002:
            again()
        return None if luck < 0.3 else story.rng.choice(partitions)

    return choose


EXPECTED = (Poison, Struck, TypeError, ValueError, BufferFull, Misuse)


def play(producer: Producer, story: Story) -> None:
    """One caller's calls."""
    for _ in range(BULKS):
        kind = story.rng.random()
        values, rows = story.table() if kind < 0.3 else story.bulk()
        try:
            if kind < 0.3:
                story.mine.append((values, producer.send_arrow("t", rows, **story.arrow_arguments())))
            else:
                story.mine.append((values, producer.send_many("t", rows, partition=story.rng.choice((None, 1)))))
        except EXPECTED as error:
            story.hear(error, values)
        one(producer, story)


def one(producer: Producer, story: Story) -> None:
    """A record by itself, which others' rows lie beside."""
    value = story.value()
    try:
        story.singles.append((value, producer.send("t", value, headers=story.rng.choice((None, [("h", b"1")], [("\ud800", b"")])))))
    except EXPECTED as error:
        story.raised[type(error).__name__] += 1


async def play_on_loop(producer: AsyncProducer, story: Story) -> None:
    """One caller's calls, as a task."""
    for _ in range(BULKS):
        kind = story.rng.random()
        values, rows = story.table() if kind < 0.3 else story.bulk()
        try:
            if kind < 0.3:
                story.mine.append((values, await producer.send_arrow("t", rows, **story.arrow_arguments())))
            else:
                sending = asyncio.create_task(producer.send_many("t", rows, partition=story.rng.choice((None, 1))))
                if story.rng.random() < 0.2:
                    for _ in range(story.rng.randrange(10)):
                        await asyncio.sleep(0)
                    sending.cancel()
                story.mine.append((values, await sending))
        except (*EXPECTED, asyncio.CancelledError) as error:
            story.hear(error, values)
        value = story.value()
        try:
            story.singles.append((value, await producer.send("t", value)))
        except EXPECTED as error:
            story.raised[type(error).__name__] += 1


def trouble(stub: BrokerStub, rng: random.Random) -> None:
    """Batches that are refused, and too large, so that rows fail and move."""
    for _ in range(3):
        code = rng.choice((ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS))
        stub.faults.on(Api.PRODUCE).where(partition=rng.randrange(PARTITIONS)).before().times(2).error(code)


def check(stub: BrokerStub, stories: list[Story]) -> None:
    """Every claim against the logs, and every record of the logs against the claims."""
    for story in stories:
        for _, bulk in story.mine:
            bulk.result(30)
    logs = [[bytes(record.value or b"") for record in stub.records("t", partition)] for partition in range(PARTITIONS)]
    claimed: dict[int, list[int]] = defaultdict(list)
    for story in stories:
        for values, bulk in story.mine:
            deliveries = bulk.result(30)
            assert deliveries.acknowledged + len(deliveries.failures) == bulk.accepted
            found = Counter(logs[partition][offset] for partition, spans in deliveries.offsets.items() for span in spans for offset in span)
            assert sum(found.values()) == deliveries.acknowledged
            # The rows of one partition are in order and of these bulks. Failed rows are in no log.
            assert set(found) <= set(values)
            assert not set(found) & {values[row] for row in deliveries.failures}
            place = {value: row for row, value in enumerate(values)}
            for partition, spans in deliveries.offsets.items():
                offsets = [offset for span in spans for offset in span]
                claimed[partition] += offsets
                rows = [place[logs[partition][offset]] for offset in offsets]
                assert rows == sorted(set(rows))
        for value, future in story.singles:
            if future.exception(30) is None:
                there = future.result(0)
                assert logs[there.partition][there.offset] == value
                claimed[there.partition].append(there.offset)
    untold = {value for story in stories for value in story.untold}
    for partition, log in enumerate(logs):
        assert len(set(log)) == len(log)
        assert len(set(claimed[partition])) == len(claimed[partition])
        unclaimed = set(range(len(log))) - set(claimed[partition])
        assert {log[offset] for offset in unclaimed} <= untold


@pytest.mark.parametrize("seed", range(RUNS))
def test_failing_rows_of_several_threads(seed: int) -> None:
    """Several threads, a partitioner with a mind of its own, and a broker that refuses now and then."""
    rng = random.Random(seed)
    stories = [Story(name, seed) for name in ("a", "b", "c")]
    inner = Story("inner", seed)
    with BrokerStub(default_partitions=PARTITIONS) as stub:
        stub.create_topic("t", partitions=PARTITIONS)
        choose = chooser(inner, lambda: one(producer, inner))
        with Producer({"partitioner": choose} if seed % 2 else {}, bootstrap_servers=stub.bootstrap, **SETTINGS) as producer:
            producer.partitions_for("t")
            trouble(stub, rng)
            threads = [threading.Thread(target=play, args=(producer, story)) for story in stories]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(100)
            check_alive(producer, stories[0])
            for story in (*stories, inner):
                for _, future in story.singles:
                    future.exception(30)
            check(stub, [*stories, inner])
            assert producer._accumulator.used == 0


def check_alive(producer: Producer, story: Story) -> None:
    """One more record, of which the books are kept with the others."""
    value = story.value()
    story.singles.append((value, producer.send("t", value, partition=0)))


@pytest.mark.parametrize("seed", range(RUNS))
def test_failing_rows_of_several_tasks(seed: int) -> None:
    """Several tasks, some of them cancelled in the middle, a partitioner with a mind of its own, and a broker that refuses now and then."""
    rng = random.Random(seed)
    stories = [Story(name, seed) for name in ("a", "b", "c")]
    inner = Story("inner", seed)

    def again() -> None:
        value = inner.value()
        try:
            inner.singles.append((value, producer.try_send("t", value, partition=2)))
        except BufferFull:
            inner.raised["BufferFull"] += 1

    async def work() -> None:
        async with producer:
            await producer.partitions_for("t")
            trouble(stub, rng)
            await asyncio.gather(*(play_on_loop(producer, story) for story in stories))
            value = inner.value()
            inner.singles.append((value, await producer.send("t", value, partition=0)))
            for story in (*stories, inner):
                for _, bulk in story.mine:
                    await bulk
            for story in (*stories, inner):
                for _, future in story.singles:
                    try:
                        await future
                    except Exception as error:  # noqa: BLE001 - the outcome is checked below
                        story.raised[type(error).__name__] += 1
            check(stub, [*stories, inner])
            assert producer._accumulator.used == 0

    with BrokerStub(default_partitions=PARTITIONS) as stub:
        choose = chooser(inner, again)
        producer = AsyncProducer({"partitioner": choose} if seed % 2 else {}, bootstrap_servers=stub.bootstrap, **SETTINGS)
        asyncio.run(asyncio.wait_for(work(), 100))


# A signal may strike in a callback of a weak reference, where Python drops what is raised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(RUNS))
def test_ctrl_c_anywhere(seed: int) -> None:
    """A signal's handler that raises, at any point of any call: what is claimed is so, nothing is claimed twice, the budget comes back, and
    lingering is as it was."""
    rng = random.Random(seed)
    story = Story("a", seed)

    def strike(_: int, __: FrameType | None) -> None:
        raise Struck

    before = signal.signal(signal.SIGALRM, strike)
    try:
        with BrokerStub(default_partitions=PARTITIONS) as stub, Producer(bootstrap_servers=stub.bootstrap, **SETTINGS) as producer:
            producer.partitions_for("t")
            for _ in range(5 * BULKS):
                values = story.rows()
                table = pa.table({"value": pa.array(values, pa.binary())})
                rows = [story.row(value) for value in values]
                calls: list[Callable[[], object]] = [
                    lambda values=values, table=table: story.mine.append((values, producer.send_arrow("t", table))),  # type: ignore[misc]
                    lambda values=values, rows=rows: story.mine.append((values, producer.send_many("t", rows))),  # type: ignore[misc]
                    lambda values=values: [producer.send("t", value) for value in values[:200]],  # type: ignore[misc]
                    producer.flush,
                ]
                struck(rng.choices(calls, (4, 4, 2, 1))[0], rng.uniform(0.0001, 0.02), story, values)
            producer.flush(30)
            assert not producer._accumulator.hurried()
            assert producer._accumulator.used == 0
            check_claims(stub, story)
            assert producer.send("t", b"alive").result(30).offset >= 0
    finally:
        signal.signal(signal.SIGALRM, before)
    assert story.raised["Struck"]


def struck(call: Callable[[], object], after_s: float, story: Story, values: list[bytes]) -> None:
    """Make the call, with a signal underway."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, after_s)
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Struck as error:
        story.hear(error, values)


def check_claims(stub: BrokerStub, story: Story) -> None:
    """Each offset that a bulk claims holds a row of that bulk, in its place, and no other bulk claims it. Rows that an interrupted call had
    accepted may be in the log without a claim."""
    claimed: set[tuple[int, int]] = set()
    logs = [[bytes(record.value or b"") for record in stub.records("t", partition)] for partition in range(PARTITIONS)]
    written = Counter(value for log in logs for value in log)
    assert set(written.values()) <= {1}
    for values, bulk in {id(bulk): (values, bulk) for values, bulk in story.mine}.values():
        deliveries = bulk.result(30)
        assert (deliveries.acknowledged, deliveries.failures) == (bulk.accepted, {})
        place = {value: row for row, value in enumerate(values)}
        found = 0
        for partition, spans in deliveries.offsets.items():
            offsets = [offset for span in spans for offset in span]
            rows = [place[logs[partition][offset]] for offset in offsets]
            assert rows == sorted(set(rows))
            assert not claimed & {(partition, offset) for offset in offsets}
            claimed |= {(partition, offset) for offset in offsets}
            found += len(offsets)
        assert found == bulk.accepted == sum(value in written for value in values)
