"""`python -P tests/bench/aiokafka_compat.py` (`make bench-aiokafka`): what a record costs the caller of `fencepost.compat.aiokafka`.

It compares `await send(...)` of the compat class, of the producer underneath and of aiokafka, in one process against one stub in another.
In each round the ways follow one another in a random order. A burst fits into one batch of each producer, so no call waits. "floor" is a
coroutine with the same signature that does nothing: less than that no `async def send` can cost. With "outcomes" the time ends when
every record is acknowledged and `asyncio.wait` has returned. The figures are medians of CPU time, which other programs on the machine
change little. It judges nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import aiokafka

import fencepost
from fencepost import AsyncProducer, AsyncTransactionalProducer
from fencepost.compat.aiokafka import AIOKafkaProducer
from tests.bench.hosts import StubHost

TOPIC = "burst"
BATCH = 1_000_000
VALUE = b"x" * 100
PLAIN = "AsyncProducer.send"
COMPAT = "compat send"
THEIRS = "aiokafka send"
OUTCOMES = ", outcomes"
WITHIN = ", in a transaction"

Burst = Callable[[int], Awaitable[None]]
Ways = dict[str, tuple[Burst, Callable[[], Awaitable[None]]]]
"""For each way a burst, and the flush after it."""


class Floor:
    """The signature of `send`, and nothing else."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> None: ...


def sends(send: Callable[..., Awaitable[Any]]) -> Burst:
    """A burst whose futures are not used."""

    async def burst(records: int) -> None:
        for _ in range(records):
            await send(TOPIC, VALUE)

    return burst


def outcomes(send: Callable[..., Awaitable[Any]], wait: Callable[[list[Any]], Awaitable[Any]]) -> Burst:
    """A burst whose outcomes are awaited."""

    async def burst(records: int) -> None:
        await wait([await send(TOPIC, VALUE) for _ in range(records)])

    return burst


async def all_of(futures: list[Any]) -> None:
    """Await each: an AsyncProducer's futures are no asyncio.Futures."""
    for future in futures:
        await future


async def measure(bootstrap: str, records: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds a record, for each way and round."""
    async with (
        AsyncProducer(bootstrap_servers=bootstrap, linger_ms=0, batch_size=BATCH) as own,
        AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=BATCH) as compat,
        aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=BATCH, enable_idempotence=True) as theirs,
    ):
        ways: Ways = {
            "floor": (sends(Floor().send), own.flush),
            PLAIN: (sends(own.send), own.flush),
            COMPAT: (sends(compat.send), compat.flush),
            THEIRS: (sends(theirs.send), theirs.flush),
            PLAIN + OUTCOMES: (outcomes(own.send, all_of), own.flush),
            COMPAT + OUTCOMES: (outcomes(compat.send, asyncio.wait), compat.flush),
            THEIRS + OUTCOMES: (outcomes(theirs.send, asyncio.wait), theirs.flush),
        }
        return await alternate(ways, records, rounds)


async def measure_transactions(bootstrap: str, records: int, rounds: int) -> dict[str, list[float]]:
    """The same for sends into an open transaction."""
    async with (
        AsyncTransactionalProducer(bootstrap_servers=bootstrap, transactional_id="own", linger_ms=0, batch_size=BATCH) as own,
        AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="compat", max_batch_size=BATCH) as compat,
        aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="theirs", max_batch_size=BATCH) as theirs,
    ):
        await own.begin()
        async with compat.transaction(), theirs.transaction():
            ways: Ways = {
                PLAIN + WITHIN: (sends(own.send), own.flush),
                COMPAT + WITHIN: (sends(compat.send), compat.flush),
                THEIRS + WITHIN: (sends(theirs.send), theirs.flush),
            }
            taken = await alternate(ways, records, rounds)
        await own.commit()
        return taken


async def alternate(ways: Ways, records: int, rounds: int) -> dict[str, list[float]]:
    """The figures of each way, in rounds that take all of them in a random order."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, (burst, flush) in random.sample(list(ways.items()), len(ways)):
            gc.collect()
            began = time.process_time()
            await burst(records)
            spent = time.process_time() - began
            await flush()
            if number:  # The first round warms up.
                taken[name].append(spent * 1e6 / records)
    return taken


def report(taken: dict[str, list[float]]) -> list[str]:
    """Each way, and beside which other it stands."""
    lines = [f"{'way':<42}{'µs a record':>12}{'beside ours':>16}{'beside aiokafka':>18}"]
    for name, spent in taken.items():
        kind = next((kind for kind in (OUTCOMES, WITHIN) if name.endswith(kind)), "")
        own, theirs = taken[PLAIN + kind], taken[THEIRS + kind]
        more = statistics.median(one - other for one, other in zip(spent, own, strict=True))
        ratio = statistics.median(one / other for one, other in zip(spent, theirs, strict=True))
        lines.append(f"{name:<42}{statistics.median(spent):>12.3f}{f'{more:+.3f} µs':>16}{f'x {ratio:.2f}':>18}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000, help="records in a burst; at most 8000, so that it fits into one batch")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="two rounds of a hundred records")
    given = parser.parse_args()
    records, rounds = (100, 2) if given.quick else (min(given.records, 8_000), given.rounds)
    print(f"{fencepost.build_info()}; aiokafka {aiokafka.__version__}; {rounds} rounds of {records} records of {len(VALUE)} bytes")
    with StubHost() as host:
        host.renew(TOPIC, 1)
        for story in (measure, measure_transactions):
            print("\n".join(report(asyncio.run(story(host.bootstrap, records, rounds)))))


if __name__ == "__main__":
    main()
