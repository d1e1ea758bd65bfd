"""`python -P tests/bench/confluent_compat.py` (`make bench-confluent`): what fencepost.compat.confluent costs over our own producer, and
beside confluent-kafka's.

All three run in one process. In each round their bursts alternate, so that what disturbs the machine disturbs all. A call is measured while
the buffer has room; a whole run lasts until the last callback was called, with a `poll(0)` after each call. The partitioner is the same in
all (CRC-32 of the key). The figures are medians, and ratios of the same round.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import confluent_kafka
from rich.console import Console
from rich.table import Table

import fencepost
from fencepost.compat import confluent
from tests.bench.hosts import BROKERS, opened
from tests.bench.run import names

TOPIC: Final = "compat"
PARTITIONS: Final = 6
VALUE: Final = b"x" * 100
KEYS: Final = [b"key-%08d" % number for number in range(1000)]
LINGER_MS: Final = 5
MEMORY: Final = 256 * 1024 * 1024


class Own:
    """Our producer, in the same shape."""

    name = "ours"

    def __init__(self, bootstrap: str) -> None:
        self._producer = fencepost.Producer(
            bootstrap_servers=bootstrap, linger_ms=LINGER_MS, buffer_memory=MEMORY, partitioner="crc32", batch_size=1_000_000
        )
        self.told = 0

    def _hear(self, future: object) -> None:
        self.told += 1

    def burst(self, count: int) -> None:
        send = self._producer.send
        for number in range(count):
            send(TOPIC, VALUE, key=KEYS[number % 1000])

    def burst_with_callback(self, count: int) -> None:
        send, hear = self._producer.send, self._hear
        for number in range(count):
            send(TOPIC, VALUE, key=KEYS[number % 1000], on_delivery=hear)

    whole = burst_with_callback

    def finish(self) -> None:
        self._producer.flush(60)

    def close(self) -> None:
        self._producer.close(60)


class Theirs:
    """A producer with confluent-kafka's calls."""

    def __init__(self, bootstrap: str, name: str, make: Callable[[dict[str, Any]], Any]) -> None:
        self.name = name
        self._producer = make(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": LINGER_MS,
                "queue.buffering.max.messages": 10_000_000,
                "queue.buffering.max.kbytes": MEMORY // 1024,
                "enable.idempotence": True,
                "batch.size": 1_000_000,
            }
        )
        self.told = 0

    def _hear(self, error: object, message: object) -> None:
        self.told += 1

    def burst(self, count: int) -> None:
        produce = self._producer.produce
        for number in range(count):
            produce(TOPIC, VALUE, KEYS[number % 1000])

    def burst_with_callback(self, count: int) -> None:
        produce, hear = self._producer.produce, self._hear
        for number in range(count):
            produce(TOPIC, VALUE, KEYS[number % 1000], on_delivery=hear)

    def whole(self, count: int) -> None:
        produce, poll, hear = self._producer.produce, self._producer.poll, self._hear
        for number in range(count):
            produce(TOPIC, VALUE, KEYS[number % 1000], on_delivery=hear)
            poll(0)

    def finish(self) -> None:
        left = self._producer.flush(60)
        assert left == 0, f"{left} messages are left"

    def close(self) -> None:
        self._producer.close()


def spent_us(work: Callable[[int], None], count: int, finish: Callable[[], None], clock: Callable[[], int], *, whole: bool) -> float:
    """Microseconds of one call; `whole`: with the wait for the last outcome."""
    gc.collect()
    began = clock()
    work(count)
    if whole:
        finish()
    spent = clock() - began
    finish()
    return spent / count / 1e3


WORKS: Final = {
    "call": time.thread_time_ns,
    "call, callback": time.thread_time_ns,
    "whole run": time.perf_counter_ns,
    "whole run, CPU": time.process_time_ns,
}
"""What is measured, and the clock: a call by the CPU time of its thread, which other programs disturb least; the last row by that of all
threads."""


def one_round(ways: list[Any], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Each work with each way, in turn."""
    found: dict[str, dict[str, float]] = {}
    for work, clock in WORKS.items():
        whole = work.startswith("whole run")
        count = options.records if whole else options.burst
        found[work] = {}
        for way in ways:
            call = way.whole if whole else way.burst if work == "call" else way.burst_with_callback
            before = way.told
            found[work][way.name] = spent_us(call, count, way.finish, clock, whole=whole)
            expected = 0 if work == "call" else count
            assert way.told - before == expected, f"{way.name}: {way.told - before} of {expected} callbacks"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=names(BROKERS), default=list(BROKERS), metavar="NAMES", help="of stub,kafka")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--burst", type=int, default=10_000, help="calls of a burst")
    parser.add_argument("--records", type=int, default=50_000, help="records until the last callback")
    options = parser.parse_args()
    console = Console()
    console.print(str(fencepost.build_info()))
    with ExitStack() as stack:
        for host in opened(options.brokers, stack, console.print):
            host.renew(TOPIC, PARTITIONS)
            ways: list[Any] = [
                Own(host.bootstrap),
                Theirs(host.bootstrap, "compat", confluent.Producer),
                Theirs(host.bootstrap, "confluent-kafka", confluent_kafka.Producer),
            ]
            try:
                one_round(ways, argparse.Namespace(records=1000, burst=1000))
                rounds = [one_round(ways, options) for _ in range(options.rounds)]
            finally:
                for way in ways:
                    way.close()
            console.print(table_of(rounds, [way.name for way in ways], f"{host.name}: µs of a record, medians of {options.rounds} rounds"))
    return 0


def table_of(rounds: list[dict[str, dict[str, float]]], ways: list[str], title: str) -> Table:
    """Each way's figures, and its ratios to confluent-kafka's and differences from ours in the same round."""
    table = Table("", "", "µs", "over ours", "of theirs", title=title)
    own, _, theirs = ways
    for work in WORKS:
        for way in ways:
            more = [each[work][way] - each[work][own] for each in rounds]
            ratios = [each[work][way] / each[work][theirs] for each in rounds]
            spread = f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
            table.add_row(work, way, f"{median(each[work][way] for each in rounds):.2f}", f"{median(more):+.2f}", spread)
    return table


if __name__ == "__main__":
    sys.exit(main())
