"""Callers of a simulated producer: the real `Producer` code, on the world's clock.

They are slow, send failing rows, and are interrupted or forked at any point. Only the sender thread is replaced: while a caller waits, or
its own code runs, the world's events happen.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from unittest.mock import patch

import pyarrow as pa

from fencepost.producer.base_producer import BaseProducer
from fencepost.producer.bulk import arrow_append as columns
from fencepost.producer.bulk import chunks
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.chunks import Chunk
from fencepost.producer.errors import BufferFull
from fencepost.producer.network.exit_and_fork import ExitGuard
from fencepost.producer.producer import Producer
from tests.simulation.world import START_MS, World
from tests.strike import Struck, draw_point, fork, interrupt, spared, struck

T = TypeVar("T")

AT_ONCE_MAX = 3
"""The most callers that are in a call at the same time."""

POINTS_MAX = 2_000
REQUEST_MAX = 3_000
NEVER = b"never"
"""The value of a row that cannot be sent."""


class Poison(Exception):
    """The exception that the caller's own code raises."""


class SimSender:
    """Replaces the sender thread: while a caller waits, the world's events happen."""

    running = False  # so that no exit handler flushes it
    strands_children = False

    def __init__(self, world: World) -> None:
        self._world = world

    def when_room(self, attempt: Callable[[], T | None], timeout_s: float) -> T | None:
        world, accumulator = self._world, self._world.accumulator
        deadline = world.now + timeout_s * 1000.0
        accumulator.waiting += 1
        accumulator.newest_hurry = object()
        try:
            world.shared.wake()
            while (result := attempt()) is None and world.now < deadline:
                world.elapse(5.0)
            return result
        finally:
            accumulator.waiting -= 1


class SimProducer(Producer):
    """A producer around the world's core. Its partitioner takes time, and sometimes raises."""

    def __init__(self, world: World, *, choosing: bool) -> None:
        BaseProducer.__init__(self, None, {"bootstrap_servers": "sim:1", "max_block_ms": 2_000, "max_request_size": REQUEST_MAX})
        self.world = world
        self._shared = world.shared
        self._accumulator = world.accumulator
        self._topics = world.accumulator.topics
        self._chooser = self._choose if choosing else None
        sender: Any = SimSender(world)
        self._sender = sender
        self._exit_guard = ExitGuard(sender, world.accumulator, world.shared, exit_flush_s=0)

    def _choose(self, key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
        self.world.dawdle()
        if self.world.random.random() < 0.005:
            raise Poison("a partitioner")
        return self.world.random.choice((None, *partitions))

    def _fill(self, chunk: Chunk, target: Target) -> None:
        """As `Producer` does it, but other callers may run in between, and the clock is the world's."""
        self.world.dawdle()
        now_ms = int(START_MS + self.world.now)
        if chunk.step(target, now_ms) is None:
            self._when_room(lambda: chunk.step(target, now_ms))


@dataclass
class Called:
    """What the test knows about one bulk: the values of its rows, and its future if it has one.

    `whole`: if one row cannot be sent, the producer must accept none of them.
    """

    values: list[bytes]
    whole: bool
    poisoned: bool
    bulk: BulkFuture | None = None


@dataclass
class Callers:
    """All callers of one run. `raised` counts what their calls raised."""

    world: World
    producer: SimProducer
    called: list[Called] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    _inside: int = 0

    def call(self, topic: str) -> None:
        """Start a bulk's call for one more caller, unless many callers are already in a call."""
        if self._inside >= AT_ONCE_MAX:
            return
        self._inside += 1
        with spared():
            try:
                self._call(topic)
            finally:
                self._inside -= 1

    def _call(self, topic: str) -> None:
        random = self.world.random
        called, call = self._drawn(topic)
        self.called.append(called)
        luck = random.random()
        strike = interrupt if luck < 0.4 else partial(self._fork, topic) if luck < 0.42 and hasattr(os, "fork") else None
        try:
            called.bulk = call() if strike is None else struck(call, draw_point(random, POINTS_MAX), strike)
        except (Struck, Poison, BufferFull, TypeError, ValueError) as error:
            self.count(type(error).__name__)
            called.bulk = getattr(error, "sent", None)
        assert self.world.wakes or not self.world.accumulator._touched, "the sender was not told of an append"

    def _fork(self, topic: str) -> None:
        self.count("forks")
        producer, rows = self.producer, [b"child"]
        fork(
            [
                producer.stats,
                partial(producer.send, topic, b"child", partition=0),
                partial(producer.send_many, topic, rows, partition=0),
                producer.flush,
            ]
        )

    def _drawn(self, topic: str) -> tuple[Called, Callable[[], BulkFuture]]:
        """Draw a bulk: a list, an iterator that is slow and may raise, or a table. One of its rows may be impossible to send."""
        random = self.world.random
        values = [
            b"%04d %03d" % (len(self.called), row) + b"." * random.choice((0, 10, 200)) for row in range(random.choice((1, 5, 20, 60)))
        ]
        partition = random.choice((None, None, 1))
        kind = random.choice(("list", "iterator", "table"))
        if kind == "table":
            keys = [random.choice((None, b"k", b"l")) for _ in values]
            table = pa.table({"v": pa.array(values, pa.binary()), "k": pa.array(keys, pa.binary())})
            return Called(values, False, False), lambda: self.producer.send_arrow(topic, table, value="v", key=random.choice((None, "k")))
        rows = [good_row(random, value) for value in values]
        poisoned = random.random() < 0.4
        if poisoned:
            place = random.randrange(len(rows) + 1)
            rows.insert(place, random.choice(POISON))
            values.insert(place, NEVER)
        whole = kind == "list"
        given = rows if whole else self._slowly(rows)
        return Called(values, whole, poisoned), lambda: self.producer.send_many(topic, given, partition=partition)

    def _slowly(self, rows: list[object]) -> Iterator[object]:
        for row in rows:
            self.world.dawdle()
            if self.world.random.random() < 0.01:
                raise Poison("an iterator")
            yield row

    def count(self, what: str) -> None:
        self.events[what] = self.events.get(what, 0) + 1


@contextmanager
def small_steps() -> Iterator[None]:
    """Make a bulk of a few rows take several steps, and plan columns for any number of rows."""
    with ExitStack() as stack:
        for module, name, rows in SMALL:
            stack.enter_context(patch.object(module, name, rows))
        yield


SMALL = (
    (chunks, "STEP_ROWS", 16),
    (chunks, "SLICE_ROWS", 4),
    (columns, "STEP_ROWS", 16),
    (columns, "PLANNED_ROWS_MIN", 8),
    (columns, "PLANNED_ROWS_PER_PARTITION_MIN", 1),
)

POISON: list[object] = [
    (b"k", b"v", [("\ud800", b"x")]),
    (b"k", b"v", [("h", "text")]),
    (b"k", "text"),
    "text",
    (b"k", b"v", None, -1),
    (b"k", b"v", None, None, 2**31),
    b"x" * (REQUEST_MAX + 1),
    {"valeu": b"v"},
]
"""Rows that cannot be sent."""


def good_row(random: random.Random, value: bytes) -> object:
    """A valid row in one of its forms."""
    key = random.choice((None, b"k", b"key-%d" % random.randrange(9)))
    shapes: list[object] = [value, (key, value), (key, value, [("h", b"1")]), {"value": value, "partition": random.randrange(4)}]
    return random.choice(shapes)
