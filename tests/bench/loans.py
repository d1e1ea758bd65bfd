"""`python -P tests/bench/loans.py`, which is `make bench-loans`: many borrowers that write one transaction to one broker.

One Apache Kafka broker, each transaction version in turn: a transaction is lent to all borrowers, which begin at once, each with a
partition of its own, in a few processes. The leader asks the coordinator about each partition once, and keeps one question at a time for a
transactional id, so first batches collide (KIP-890): what is printed is how long each partition's first acknowledgement took, and after
how many repeats. The first transaction of a version finds the borrowers without connections. What readers find is counted at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it exports them, and its types do not say so
from rich.console import Console
from rich.table import Table

import fencepost
from fencepost import TransactionalProducer
from tests.bench.loan_worker import WAIT_S, Done, Errand
from tests.conformance.kafka import JVM_BENCH, KafkaCluster

WORKER = Path(__file__).with_name("loan_worker.py")


class Turn(msgspec.Struct, frozen=True):
    """One transaction of a version. `lend_ms`, `end_ms`: of the calls that lent and committed it."""

    version: int
    number: int
    lend_ms: float
    end_ms: float
    done: list[Done]


def main() -> int:
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(str(fencepost.build_info()))
    turns: list[Turn] = []
    for version in options.versions:
        with KafkaCluster(features={"transaction.version": version}, jvm=JVM_BENCH) as cluster:
            turns += play(cluster.bootstrap, version, options)
    console.print(table(turns, options.borrowers))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(turns)))
    return 0


def play(bootstrap: str, version: int, options: argparse.Namespace) -> list[Turn]:
    """All transactions of a version, and the count of what a reader of committed records finds."""
    topic = "loans"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, options.borrowers, 1)])[topic].result(WAIT_S)
    partitions = [(topic, partition) for partition in range(options.borrowers)]
    with ExitStack() as stack:
        each = options.borrowers // options.processes
        workers = [stack.enter_context(worker(bootstrap, each)) for _ in range(options.processes)]
        producer = stack.enter_context(TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="loans"))
        turns = []
        for number in range(options.transactions):
            tx = producer.begin(WAIT_S)
            begun = time.monotonic()
            loan = tx.lend(partitions, WAIT_S)
            lent = time.monotonic()
            for place, process in enumerate(workers):
                mine = partitions[place * each : (place + 1) * each]
                say(process, Errand(loan.dumps(), mine, options.records, 1 if options.unaware else options.borrowers))
            done = [one for process in workers for one in msgspec.json.decode(line(process), type=list[Done])]
            tx.returned(one.written for one in done)
            ending = time.monotonic()
            tx.commit(WAIT_S)
            turns.append(Turn(version, number, (lent - begun) * 1000.0, (time.monotonic() - ending) * 1000.0, done))
    found, wanted = committed(bootstrap, topic, options.borrowers), options.transactions * options.borrowers * (options.records + 1)
    if found != wanted:
        raise RuntimeError(f"a reader of committed records finds {found} of {wanted}")
    return turns


@contextmanager
def worker(bootstrap: str, borrowers: int) -> Iterator[subprocess.Popen[str]]:
    """A process of borrowers, from the moment that they are there."""
    command = [sys.executable, "-P", str(WORKER), bootstrap, str(borrowers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert line(process) == "ready"
            yield process
        except BaseException:
            process.kill()
            raise


def say(process: subprocess.Popen[str], errand: Errand) -> None:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(errand).decode() + "\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = process.stdout.readline().rstrip("\n")
    if not said:
        raise RuntimeError("a process of borrowers ended; its words are above")
    return said


def committed(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records a reader of committed ones finds up to the ends as they are now."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    count, left = 0, partitions
    while left:
        for message in consumer.consume(10_000, 1.0):
            count, left = (count, left - 1) if message.error() is not None else (count + 1, left)
    consumer.close()
    return count


def table(turns: list[Turn], borrowers: int) -> Table:
    """One row a transaction."""
    shown = Table(title=f"{borrowers} borrowers, one broker: the first acknowledgement of each partition")
    for heading in ("version", "transaction", "lend ms", "first p50 ms", "p90", "max", "retries p50", "max", "in all", "commit ms"):
        shown.add_column(heading, justify="right")
    for turn in turns:
        times, retries = sorted(one.first_ms for one in turn.done), [one.retries for one in turn.done]
        shown.add_row(
            f"TV{turn.version}",
            f"{turn.number + 1}",
            f"{turn.lend_ms:.1f}",
            f"{median(times):.0f}",
            f"{times[int(len(times) * 0.9)]:.0f}",
            f"{times[-1]:.0f}",
            f"{median(retries):g}",
            f"{max(retries)}",
            f"{sum(retries)}",
            f"{turn.end_ms:.1f}",
        )
    return shown


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--borrowers", type=int, default=64)
    parser.add_argument("--processes", type=int, default=4, help="among which the borrowers are divided evenly")
    parser.add_argument("--transactions", type=int, default=8, help="of each version")
    parser.add_argument("--records", type=int, default=200, help="of each borrower after its first one")
    parser.add_argument("--versions", type=int, nargs="+", choices=[1, 2], default=[1, 2], help="of transactions")
    parser.add_argument("--unaware", action="store_true", help="do not tell the borrowers how many they are")
    parser.add_argument("--json", type=Path, help="where to write all that was measured")
    options = parser.parse_args()
    if options.borrowers % options.processes:
        parser.error(f"--borrowers={options.borrowers} cannot be divided evenly among --processes={options.processes}")
    return options


if __name__ == "__main__":
    sys.exit(main())
