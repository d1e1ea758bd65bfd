"""Callers on threads of their own that are slow, are interrupted and forked at any point, and send bulks with failing rows.

FENCEPOST_SEED replays one seed: the calls and the points at which they are interrupted, not the order of the threads. FENCEPOST_RUNS says
how many to run; `make simulate` runs many.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import fencepost.producer.bulk.arrow_columns  # noqa: F401 - an import that is struck fails, in CPython, for the threads that wait for it, too
from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer, UndeliveredRecords
from tests.producer.bulk.test_failing_rows import EXPECTED, PARTITIONS, SETTINGS, Poison, Story, check, trouble
from tests.strike import MARKS, Struck, draw_point, fork, interrupt, struck

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "2"))
CALLERS = ("a", "b", "c")
CALLS = 30
POINTS_MAX = 10_000
PATIENCE_S = 60

pytestmark = MARKS


def send_rows(producer: Producer, story: Story) -> None:
    values, rows = story.bulk()
    tell(story, values, lambda: producer.send_many("t", rows, partition=story.rng.choice((None, 1))))


def send_table(producer: Producer, story: Story) -> None:
    values, table = story.table()
    tell(story, values, lambda: producer.send_arrow("t", table, **story.arrow_arguments()))


def tell(story: Story, values: list[bytes], call: Callable[[], Any]) -> None:
    """Make a bulk's call, and remember what is known of it however it ends."""
    try:
        story.mine.append((values, call()))
    except (*EXPECTED, Struck) as error:
        if all(known is not values for known, _ in story.mine):
            story.hear(error, values)
        if isinstance(error, Struck):
            raise


def send_some(producer: Producer, story: Story) -> None:
    """Send one record after the other. After an interrupted call it is not known whether its record was accepted."""
    for _ in range(story.rng.randrange(60)):
        value = story.value()
        story.untold.add(value)
        with suppress(*EXPECTED):
            story.singles.append((value, producer.send("t", value, key=story.rng.choice((None, b"k")))))
        story.untold.discard(value)


def flush(producer: Producer, story: Story) -> None:
    with suppress(UndeliveredRecords):
        producer.flush(PATIENCE_S)


def wait(producer: Producer, story: Story) -> None:
    """For the newest outcomes."""
    for _, bulk in story.mine[-1:]:
        bulk.result(PATIENCE_S)
    for _, future in story.singles[-1:]:
        future.exception(PATIENCE_S)


def ask(producer: Producer, story: Story) -> None:
    """Ask for a topic that the producer does not know yet."""
    producer.partitions_for(f"t-{story.name}-{story.count}")
    producer.stats()


ACTIONS = {send_rows: 4, send_some: 3, flush: 1, wait: 2, ask: 1}
"""How often each is drawn. Tables come in runs without forks: Arrow has threads and locks of its own, which a fork may wait for."""


def play(producer: Producer, story: Story, *, forks: bool) -> None:
    """One caller's calls. Every other one is struck."""
    actions = ACTIONS if forks else {**ACTIONS, send_table: 4}
    for _ in range(CALLS):
        [action] = story.rng.choices(list(actions), list(actions.values()))
        luck, point = story.rng.random(), draw_point(story.rng, POINTS_MAX)
        strike = interrupt if luck < 0.45 else partial(fork, refused(producer, story)) if luck < 0.5 and forks else None
        try:
            if strike is None:
                action(producer, story)
            else:
                struck(partial(action, producer, story), point, strike)
        except Struck:
            story.raised["Struck"] += 1
        story.calls += 1


def refused(producer: Producer, story: Story) -> Iterable[Callable[[], object]]:
    """What a child has to be refused."""
    yield producer.stats
    yield lambda: producer.send("t", b"child", partition=0)
    yield lambda: producer.send_many("t", [b"child"], partition=0)
    yield lambda: producer.send_many("unheard-of", [b"child"])
    yield lambda: producer.partitions_for("t")
    yield producer.flush
    yield producer.close
    for _, bulk in story.mine[-1:]:
        if not bulk.done():
            yield bulk.result


def slow_chooser(seed: int) -> Callable[..., int | None]:
    """A partitioner that takes its time now and then, and now and then raises."""
    rng = random.Random(seed)

    def choose(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
        luck = rng.random()
        if luck < 0.0003:
            raise Poison("a partitioner")
        if luck < 0.003:
            time.sleep(rng.choice((0, 0.001, 0.02)))
        return None if luck < 0.3 else rng.choice(partitions)

    return choose


def run(seed: int) -> None:
    """One seed, and what has to hold after it."""
    stories = [Story(name, seed) for name in CALLERS]
    settings: dict[str, Any] = {"partitioner": slow_chooser(seed)} if seed % 4 < 2 else {}
    forks = seed % 2 == 0 and hasattr(os, "fork")
    with BrokerStub(default_partitions=PARTITIONS) as stub:
        with Producer(bootstrap_servers=stub.bootstrap, **SETTINGS, **settings) as producer:
            producer.partitions_for("t")
            trouble(stub, random.Random(seed))
            threads = [threading.Thread(target=play, args=(producer, story), kwargs={"forks": forks}, daemon=True) for story in stories]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
                assert not thread.is_alive(), "a caller is stuck"
            assert [story.calls for story in stories] == [CALLS] * len(stories), "a caller ended early"
            with suppress(UndeliveredRecords):
                producer.flush(PATIENCE_S)
            accumulator = producer._accumulator
            assert (accumulator.used, accumulator.waiting, accumulator.hurried()) == (0, 0, False)
            stub.faults.clear()  # A partition to which little was sent may have met no trouble yet.
            alive = stories[0].value()
            stories[0].singles.append((alive, producer.send("t", alive, partition=0)))
            producer.flush(PATIENCE_S)
            check(stub, stories)
        assert not producer._sender.running


@pytest.mark.timeout(600 if RUNS <= 20 else 36_000)
def test_callers_in_any_state() -> None:
    """However callers are interrupted, forked, slow or wrong: each claim is so, nothing else is in the logs, the budget comes back, every
    call ends, children are refused, and the producer works."""
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        try:
            run(seed)
        except (AssertionError, TimeoutError) as error:
            pytest.fail(f"FENCEPOST_SEED={seed} replays it: {error}")
    print(f"seeds {FIRST_SEED} to {FIRST_SEED + RUNS - 1}")
