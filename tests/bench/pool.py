"""`python -P tests/bench/pool.py` (`make bench-pool`): requests per second, each a transaction of its own with two records.

Four ways to serve 32 callers, all in one process, one after the other in each round: one producer with a lock around it, a pool of eight in
threads, a pool of eight on an event loop, and eight producers of confluent-kafka in threads, which callers share through a queue. The
figures are medians of the rounds; rates also as multiples of the first way in the same round. Afterwards a reader counts what is committed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import NamedTuple

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import confluent_kafka
from rich.console import Console
from rich.table import Table

import fencepost
from fencepost import AsyncTransactionalPool, TransactionalPool, TransactionalProducer
from tests.bench.hosts import BROKERS, opened
from tests.bench.plot import add_plots, show
from tests.bench.run import names
from tests.reading import read_values

CALLERS = 32
SIZE = 8
TOPIC = "requests"
PARTITIONS = 6
VALUE = b"x" * 200


class Found(NamedTuple):
    """Of one way in one round: requests per second, and the milliseconds of CPU that a request took in this process."""

    rate: float
    cpu_ms: float


class Watch:
    """Measures so many requests from now on."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began, self._cpu = time.monotonic(), time.process_time()

    def found(self) -> Found:
        passed_s, cpu_s = time.monotonic() - self._began, time.process_time() - self._cpu
        return Found(self._count / passed_s, 1000.0 * cpu_s / self._count)


def in_threads(count: int, one: Callable[[], None]) -> Found:
    """So many calls, by all callers."""
    with ThreadPoolExecutor(CALLERS) as threads:
        watch = Watch(count)
        for done in [threads.submit(one) for _ in range(count)]:
            done.result()
        return watch.found()


def one_producer(bootstrap: str, count: int) -> Found:
    lock = threading.Lock()
    with TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="bench-one", linger_ms=0) as producer:
        producer.init()

        def one() -> None:
            with lock, producer.transaction() as tx:
                tx.send(TOPIC, VALUE)
                tx.send(TOPIC, VALUE)

        in_threads(SIZE, one)
        return in_threads(count, one)


def pool_in_threads(bootstrap: str, count: int) -> Found:
    with TransactionalPool(
        bootstrap_servers=bootstrap, transactional_id_prefix="bench-threads", size=SIZE, warm=SIZE, linger_ms=0, acquire_timeout_ms=60_000
    ) as pool:
        pool.init()

        def one() -> None:
            with pool.transaction() as tx:
                tx.send(TOPIC, VALUE)
                tx.send(TOPIC, VALUE)

        in_threads(SIZE, one)
        return in_threads(count, one)


def pool_on_a_loop(bootstrap: str, count: int) -> Found:
    async def story() -> Found:
        async with AsyncTransactionalPool(
            bootstrap_servers=bootstrap, transactional_id_prefix="bench-loop", size=SIZE, warm=SIZE, linger_ms=0, acquire_timeout_ms=60_000
        ) as pool:
            await pool.init()

            async def caller(requests: int) -> None:
                for _ in range(requests):
                    async with pool.transaction() as tx:
                        await tx.send(TOPIC, VALUE)
                        await tx.send(TOPIC, VALUE)

            await asyncio.gather(*[caller(1) for _ in range(SIZE)])
            watch = Watch(count)
            await asyncio.gather(*[caller(count // CALLERS) for _ in range(CALLERS)])
            return watch.found()

    return asyncio.run(story())


def confluent_in_threads(bootstrap: str, count: int) -> Found:
    free: SimpleQueue[confluent_kafka.Producer] = SimpleQueue()
    for number in range(SIZE):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"bench-confluent-{number}", "linger.ms": 0, "log_level": 0}
        )
        producer.init_transactions()
        free.put(producer)

    def one() -> None:
        producer = free.get()
        producer.begin_transaction()
        producer.produce(TOPIC, VALUE)
        producer.produce(TOPIC, VALUE)
        producer.commit_transaction()
        free.put(producer)

    in_threads(SIZE, one)
    return in_threads(count, one)


WAYS: dict[str, Callable[[str, int], Found]] = {
    "one producer": one_producer,
    f"TransactionalPool of {SIZE}": pool_in_threads,
    f"AsyncTransactionalPool of {SIZE}": pool_on_a_loop,
    f"{SIZE} producers of confluent-kafka": confluent_in_threads,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=names(BROKERS), default=list(BROKERS), metavar="NAMES", help="of stub,kafka")
    parser.add_argument("--rounds", type=int, default=5)
    add_plots(parser)
    parser.add_argument("--requests", type=int, default=1_600, help="in each round; a multiple of 32")
    options = parser.parse_args()
    console = Console()
    console.print(str(fencepost.build_info()))
    with ExitStack() as stack:
        for host in opened(options.brokers, stack, console.print):
            rounds: list[dict[str, Found]] = []
            for _ in range(options.rounds):
                host.renew(TOPIC, PARTITIONS)
                rounds.append({name: way(host.bootstrap, options.requests) for name, way in WAYS.items()})
                found = len(read_values(host.bootstrap, TOPIC, range(PARTITIONS)))
                assert found == 2 * len(WAYS) * (options.requests + SIZE), f"{found} records are committed"
            title = f"{host.name}: {CALLERS} callers, median of {options.rounds} rounds"
            table = Table("", "requests/s", "of one producer's", "CPU of a request, ms", title=title)
            for name in WAYS:
                multiples = [each[name].rate / each["one producer"].rate for each in rounds]
                table.add_row(
                    name,
                    f"{median(each[name].rate for each in rounds):,.0f}",
                    f"{median(multiples):.1f} ({min(multiples):.1f}–{max(multiples):.1f})",
                    f"{median(each[name].cpu_ms for each in rounds):.2f}",
                )
            show(console, table, options.plots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
