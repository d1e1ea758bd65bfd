"""AsyncProducer on a loop that an exception leaves: plain Ctrl-C beneath `run_until_complete`, or what another signal's handler raises.

FENCEPOST_SEED replays one point; FENCEPOST_RUNS says how many to try.
"""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, Fatal, FencepostError, RecordFuture, UndeliveredRecords
from fencepost.producer.accumulator import batch
from tests.producer.stub_helpers import QUICK, values
from tests.strike import MARKS, SPARED, Struck, draw_point, struck

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "20"))
LIMIT_S = 20.0
POINTS_MAX = 3_000
SETTINGS: dict[str, Any] = {**QUICK, "socket_connection_setup_timeout_ms": 1_000}
SPARE = (*SPARED, os.path.dirname(asyncio.__file__), socket.__file__, selectors.__file__, batch.__file__)
"""The loop's own functions lose what they were about to run or had opened, which only they could mend; `batch` is compiled in packages."""

pytestmark = MARKS


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def raiser(error: type[BaseException]) -> Callable[[], None]:
    def strike() -> None:
        raise error("struck")

    return strike


async def send_all(made: AsyncProducer, futures: list[RecordFuture]) -> None:
    for number in range(10):
        futures.append(await made.send("t", b"%d" % number, partition=0))
    for future in futures:
        with suppress(FencepostError):
            await future


async def leave(made: AsyncProducer, attempt: int = 0) -> bool:
    """Send, wait, flush and close. Whether it worked as if nothing had been."""
    works = True
    try:
        await (await made.send("t", b"alive %d" % attempt, partition=0))
    except Fatal as error:
        assert "struck" in str(error)  # noqa: PT017 - one of two good ends
        works = False
    for end in (made.flush, made.close):
        with suppress(UndeliveredRecords):
            await end()
    return works


def run(seed: int, loop: asyncio.AbstractEventLoop) -> None:
    rng = random.Random(seed)
    error = rng.choice((KeyboardInterrupt, SystemExit, Struck))
    futures: list[RecordFuture] = []
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=1)
        made = AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS)
        with suppress(KeyboardInterrupt, SystemExit, Struck, Fatal):
            limited = asyncio.wait_for(send_all(made, futures), LIMIT_S)
            struck(lambda: loop.run_until_complete(limited), draw_point(rng, POINTS_MAX), raiser(error), SPARE)
        works = None
        for attempt in range(3):  # What was struck inside a task comes out where that is waited for.
            with suppress(KeyboardInterrupt, SystemExit, Struck):
                works = loop.run_until_complete(asyncio.wait_for(leave(made, attempt), LIMIT_S))
                break
        assert works is not None
        told = {future.result(0).offset: b"%d" % number for number, future in enumerate(futures) if future.exception(0) is None}
        log = values(stub, "t")
        assert all(log[offset] == value for offset, value in told.items())
        assert len(set(log)) == len(log)
        assert not works or len(told) == len(futures)


def test_a_loop_that_is_left_and_runs_again(loop: asyncio.AbstractEventLoop) -> None:
    """Wherever the handler of a signal raises while the loop runs the library: when the loop runs again, every record has its outcome, what
    is acknowledged is in the log once, and `send`, `flush` and `close` end. Either they work, or they say what cut the sender short."""
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        try:
            run(seed, loop)
        except (AssertionError, TimeoutError, FencepostError) as error:
            pytest.fail(f"FENCEPOST_SEED={seed} replays it: {error!r}")


@pytest.mark.parametrize("error", [KeyboardInterrupt, Struck])
def test_a_step_of_the_sender_is_cut_short(loop: asyncio.AbstractEventLoop, error: type[BaseException]) -> None:
    """A step of the core that does not come to its end is the last one: the caller sees the exception where the loop lets it through, and
    records, calls, flush and close are told of it."""
    with BrokerStub() as stub:
        made = AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS)
        loop.run_until_complete(made.partitions_for("t"))
        side = made._side
        assert side is not None
        step, side.engine.step = side.engine.step, lambda event, now: raiser(error)()  # type: ignore[assignment,return-value]
        futures: list[RecordFuture] = []
        with suppress(error):
            loop.run_until_complete(asyncio.wait_for(send_all(made, futures), LIMIT_S))
        side.engine.step = step
        assert not loop.run_until_complete(asyncio.wait_for(leave(made), LIMIT_S))
        for future in futures:
            failure = future.exception(0)
            assert failure is not None
            assert "struck" in str(failure)


def test_ctrl_c_in_a_delivery_callback(loop: asyncio.AbstractEventLoop) -> None:
    """Ctrl-C that strikes in a delivery callback ends `run_until_complete` as anywhere else on the loop; the other callbacks have run, and
    the producer works when the loop runs again."""
    heard: list[RecordFuture] = []

    def struck_one(future: RecordFuture) -> None:
        raise KeyboardInterrupt

    async def begin(made: AsyncProducer) -> None:
        await made.send("t", b"0", on_delivery=struck_one)
        await made.send("t", b"1", on_delivery=heard.append)
        await made.flush(LIMIT_S)
        await asyncio.sleep(LIMIT_S)

    with BrokerStub() as stub:
        made = AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(begin(made))
        assert loop.run_until_complete(leave(made))
        assert [future.result(0).offset for future in heard] == [1]
        assert values(stub, "t") == [b"0", b"1", b"alive 0"]
