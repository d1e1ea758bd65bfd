"""A run ends while it waits before a message's next attempt: the message is left to the next run, with all its attempts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from confluent_kafka import Message

from fencepost.broker_stub import BrokerStub
from fencepost.txn import AsyncPipeline
from tests.producer.stub_helpers import run_story
from tests.txn.pauses import LONG, LONG_S, longest_pauses
from tests.txn.pipeline.helpers import DEAD, LIMIT_S, bill, group_at, invoices, order, quick, results, settings_for, stub

__all__ = ["longest_pauses", "stub"]

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("longest_pauses")]

N: Final = 40
BAD: Final = 17


class Failing:
    """A transform that fails for one message. `then`: called at its first failure."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.failures = 0
        self.then = then

    def one(self, message: Message) -> bytes:
        if message.value() == b"order %d" % BAD:
            self.failures += 1
            if self.failures == 1:
                self.then()
            raise KeyError("not yet")
        return bill(message)

    async def later(self, message: Message) -> bytes:
        return self.one(message)

    def many(self, messages: list[Message]) -> list[bytes]:
        return [self.one(message) for message in messages]


def nothing() -> None:
    pass


@pytest.mark.parametrize("form", ["transform", "transform_many"])
def test_a_stopped_pipeline(stub: BrokerStub, form: str) -> None:
    """What came before the message is committed, and nothing after it is. The next run makes all attempts, then it writes a dead letter."""
    order(stub.bootstrap, range(N), partitions=1)
    failing = Failing(nothing)
    chosen: dict[str, Any] = {form: failing.one if form == "transform" else failing.many, "dead_letters": DEAD}
    with quick(stub, **chosen, **LONG) as pipeline:
        failing.then = pipeline.stop
        began = time.monotonic()
        stats = pipeline.run(timeout=LIMIT_S)
        assert time.monotonic() - began < LONG_S
        assert (stats.records_in, stats.dead_letters, stats.aborts) == (BAD, 0, 0)
    assert results(stub.bootstrap) == invoices(range(BAD))
    assert group_at(stub.bootstrap)[0] == BAD

    failing.failures = 1  # `stop` is not called again.
    with quick(stub, **chosen) as again:
        stats = again.run_until_idle(timeout=LIMIT_S)
    singly = 1 if form == "transform_many" else 0  # Before single attempts, all messages are tried together.
    assert (failing.failures - 1 - singly, stats.dead_letters) == (3, 1)
    assert results(stub.bootstrap) == sorted(set(invoices(range(N))) - {b"invoice for order %d" % BAD})


@pytest.mark.parametrize("ends", ["stop", "deadline"])
def test_an_async_pipeline(stub: BrokerStub, ends: str) -> None:
    """The same where many messages are transformed side by side: those after the one that failed are processed by the next run, too."""
    order(stub.bootstrap, range(N), partitions=1)
    failing = Failing(nothing)

    async def story(pauses: dict[str, Any], timeout: float, *, until_idle: bool, expected: tuple[int, int, int]) -> None:
        chosen = settings_for(stub.bootstrap, transform=failing.later, concurrency=5, dead_letters=DEAD, **pauses)
        async with AsyncPipeline(**chosen) as pipeline:
            if ends == "stop":
                failing.then = pipeline.stop
            stats = await (pipeline.run_until_idle(timeout=timeout) if until_idle else pipeline.run(timeout=timeout))
            assert (stats.records_in, stats.dead_letters, stats.aborts) == expected

    began = time.monotonic()
    run_story(story(LONG, LIMIT_S if ends == "stop" else 8.0, until_idle=False, expected=(BAD, 0, 0)))
    assert time.monotonic() - began < LONG_S
    assert results(stub.bootstrap) == invoices(range(BAD))
    failing.failures = 1
    run_story(story({}, LIMIT_S, until_idle=True, expected=(N - BAD, 1, 0)))
    assert failing.failures - 1 == 3
    assert results(stub.bootstrap) == sorted(set(invoices(range(N))) - {b"invoice for order %d" % BAD})


def test_two_runs_of_one_pipeline(stub: BrokerStub) -> None:
    """The message stays at hand for the next run of the same pipeline, which begins with it."""
    order(stub.bootstrap, range(N), partitions=1)
    failing = Failing(nothing)
    with quick(stub, failing.one, attempts=2, **LONG) as pipeline:
        pipeline.run(timeout=6.0)
        assert (failing.failures, pipeline.stats().records_in) == (1, BAD)
        pipeline.run(timeout=2.0)
        assert (failing.failures, pipeline.stats().records_in) == (2, BAD)
    assert group_at(stub.bootstrap)[0] == BAD


def test_the_deadline_in_the_midst_of_messages(stub: BrokerStub) -> None:
    """The message is not tried once more after the deadline, also where it was taken together with messages before it."""
    order(stub.bootstrap, range(5 * N), partitions=1)
    failing = Failing(nothing)

    async def story() -> None:
        chosen = settings_for(stub.bootstrap, transform=failing.later, concurrency=N, batch_ms=20_000, **LONG)
        async with AsyncPipeline(**chosen) as pipeline:
            await pipeline.run(timeout=6.0)
            assert (failing.failures, pipeline.stats().records_in) == (1, BAD)

    run_story(story())
    assert results(stub.bootstrap) == invoices(range(BAD))
