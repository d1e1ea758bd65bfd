"""One measurement of transactions in its own process: reads `Work` from standard input, writes `Found` to standard output.

It does not look at single deliveries, because a commit that returns has confirmed all of them.
"""

from __future__ import annotations

import enum
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Protocol

import msgspec

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Producer as ConfluentProducer

from fencepost import TransactionalProducer
from tests.bench.java import REPORT, TIMEOUT_S

PARTITIONS = 6
VALUE = b"v" * 100
KEYS = [b"%012d" % number for number in range(100_000)]
ROWS = [(key, VALUE) for key in KEYS]
SINGLES = 1_000
"""Records between two reads of the clock, and between two calls of confluent-kafka's `poll`."""

BULK = 5_000
TEN = 10
WARM_UP = 50
JAVA_RECORDS_PER_S = 400_000
"""How many records Java sends for each second of the other contenders."""

SETTINGS = {"linger.ms": 5, "batch.size": 256 * 1024}
BUFFER_BYTES = 64 * 1024 * 1024


class Contender(enum.Enum):
    """The producer that commits."""

    SEND = "fencepost, send"
    MANY = "fencepost, send_many"
    CONFLUENT = "confluent-kafka, produce"
    JAVA = "Java, ProducerPerformance"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: a commit every `interval_ms` for `seconds`; or, if `interval_ms` is 0, so many `commits` of ten records each."""

    contender: Contender
    bootstrap: str
    topic: str
    interval_ms: int
    seconds: float
    commits: int
    java: list[str] = []


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was committed, with the warm-up; records per second and CPU per record without it. Latencies are of whole transactions."""

    records: int
    transactions: int
    records_per_s: float
    cpu_ns: float
    p50_ms: float
    p99_ms: float


class Committer(Protocol):
    """The interface that the worker drives: transactions that last for a time, and transactions of ten records."""

    def lasting(self, interval_s: float) -> int:
        """Run one transaction, and send records for so many seconds. Return their number."""

    def ten(self) -> None: ...
    def close(self) -> None: ...


class Ours:
    """`tx.send`, one record per call."""

    def __init__(self, work: Work) -> None:
        self._topic = work.topic
        self._keys = cycle(KEYS)
        self._producer = TransactionalProducer(
            {**SETTINGS, "buffer.memory": BUFFER_BYTES}, bootstrap_servers=work.bootstrap, transactional_id="bench"
        )

    def lasting(self, interval_s: float) -> int:
        topic, keys, sent, ends = self._topic, self._keys, 0, time.perf_counter() + interval_s
        with self._producer.transaction() as tx:
            send = tx.send
            while time.perf_counter() < ends:
                for key in islice(keys, SINGLES):
                    send(topic, VALUE, key=key)
                sent += SINGLES
        return sent

    def ten(self) -> None:
        with self._producer.transaction() as tx:
            for number in range(TEN):
                tx.send(self._topic, VALUE, partition=number % PARTITIONS)

    def close(self) -> None:
        self._producer.close()


class OursInBulk(Ours):
    """`tx.send_many` with lists of pairs."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._pieces = cycle([ROWS[start : start + BULK] for start in range(0, len(ROWS), BULK)])

    def lasting(self, interval_s: float) -> int:
        sent, ends = 0, time.perf_counter() + interval_s
        with self._producer.transaction() as tx:
            while time.perf_counter() < ends:
                tx.send_many(self._topic, next(self._pieces))
                sent += BULK
        return sent


class Confluents:
    """librdkafka through confluent-kafka: `produce` without a callback, and `poll` from time to time."""

    def __init__(self, work: Work) -> None:
        self._topic = work.topic
        self._keys = cycle(KEYS)
        self._producer = ConfluentProducer(
            {
                **SETTINGS,
                "bootstrap.servers": work.bootstrap,
                "transactional.id": "bench",
                "batch.num.messages": 1_000_000,
                "queue.buffering.max.messages": 10_000_000,
                "queue.buffering.max.kbytes": BUFFER_BYTES // 1024,
                "partitioner": "murmur2_random",
            }
        )
        self._producer.init_transactions()

    def lasting(self, interval_s: float) -> int:
        topic, produce, poll, sent, ends = self._topic, self._producer.produce, self._producer.poll, 0, time.perf_counter() + interval_s
        self._producer.begin_transaction()
        while time.perf_counter() < ends:
            for key in islice(self._keys, SINGLES):
                while True:
                    try:
                        produce(topic, value=VALUE, key=key)
                        break
                    except BufferError:
                        poll(0.01)
            poll(0)
            sent += SINGLES
        self._producer.commit_transaction()
        return sent

    def ten(self) -> None:
        self._producer.begin_transaction()
        for number in range(TEN):
            self._producer.produce(self._topic, value=VALUE, partition=number % PARTITIONS)
        self._producer.commit_transaction()

    def close(self) -> None:
        self._producer.flush()


COMMITTERS: dict[Contender, Callable[[Work], Committer]] = {
    Contender.SEND: Ours,
    Contender.MANY: OursInBulk,
    Contender.CONFLUENT: Confluents,
}


def measure(work: Work) -> Found:
    """Warm up, then commit."""
    if work.contender is Contender.JAVA:
        return run_java(work)
    with closing(COMMITTERS[work.contender](work)) as committer:
        if not work.interval_ms:
            return ten_by_ten(committer, work)
        interval_s = work.interval_ms / 1000.0
        return summed(work, lambda: committer.lasting(interval_s), warm_up=2, more=for_seconds(work.seconds))


def ten_by_ten(committer: Committer, work: Work) -> Found:
    def ten() -> int:
        committer.ten()
        return TEN

    return summed(work, ten, warm_up=WARM_UP, more=iter(range(work.commits)))


def summed(work: Work, transaction: Callable[[], int], *, warm_up: int, more: Iterator[int]) -> Found:
    """Commit as many transactions as `more` has, after some warm-up transactions."""
    warmed = sum(transaction() for _ in range(warm_up))
    taken: list[float] = []
    records = 0
    cpu_ns, began = time.process_time_ns(), time.perf_counter()
    for _ in more:
        called = time.perf_counter()
        records += transaction()
        taken.append((time.perf_counter() - called) * 1e3)
    spent_s, cpu_ns = time.perf_counter() - began, time.process_time_ns() - cpu_ns
    taken.sort()
    return Found(
        records=warmed + records,
        transactions=warm_up + len(taken),
        records_per_s=records / spent_s,
        cpu_ns=cpu_ns / records,
        p50_ms=taken[len(taken) // 2],
        p99_ms=taken[len(taken) * 99 // 100],
    )


def for_seconds(seconds: float) -> Iterator[int]:
    ends = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < ends:
        yield number
        number += 1


def run_java(work: Work) -> Found:
    """ProducerPerformance. The CPU time is the JVM's, from its start to its end.

    It does not report how many transactions it made: at most one for each interval of its run.
    """
    records = int(work.seconds * JAVA_RECORDS_PER_S)
    settings = {"bootstrap.servers": work.bootstrap, **SETTINGS, "buffer.memory": BUFFER_BYTES, "acks": "all"}
    command = [
        *work.java,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", work.topic, "--num-records", str(records), "--record-size", str(len(VALUE)), "--throughput", "-1"),
        *("--transactional-id", "bench", "--transaction-duration-ms", str(work.interval_ms)),
        *("--producer-props", *(f"{name}={value}" for name, value in settings.items())),
    ]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    after, spent_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    reports = REPORT.findall(done.stdout)
    if done.returncode or not reports or int(reports[-1][0]) != records:
        raise RuntimeError(f"ProducerPerformance failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Found(
        records=records,
        transactions=int(spent_s * 1000 / work.interval_ms) + 1,
        records_per_s=float(reports[-1][1].replace(",", "")),
        cpu_ns=cpu_s * 1e9 / records,
        p50_ms=0.0,
        p99_ms=0.0,
    )


def main() -> None:
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=Work)
    sys.stdout.buffer.write(msgspec.json.encode(measure(work)))


if __name__ == "__main__":
    main()
