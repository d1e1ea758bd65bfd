"""`python -P tests/bench/participants.py` (`make bench-participants`): many participants write one transaction to one broker.

The broker is one Apache Kafka, with each transaction version in turn. The producer shares a transaction with all participants. They run in
a few processes, begin at once, and have one partition each. The leader asks the coordinator once about each partition, and sends one such
request at a time per transactional id. So first batches collide (KIP-890). The bench prints how long each partition's first acknowledgement
took, and how many repeats it needed. In the first transaction of a version the participants have no connections yet. At the end the bench
counts what a consumer with `read_committed` reads.
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
from time import monotonic

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # the module exports them, but its type stubs do not say so
from rich.console import Console
from rich.table import Table

import fencepost
from fencepost import TransactionalProducer
from tests.bench.participant_worker import WAIT_S, Done, Errand
from tests.bench.plot import add_plots, show
from tests.conformance.kafka import JVM_BENCH, KafkaCluster

READ_TIMEOUT_S = 600.0
WORKER = Path(__file__).with_name("participant_worker.py")


class Turn(msgspec.Struct, frozen=True):
    """One transaction of a version. `share_ms`, `end_ms`: how long the calls took that shared and committed it."""

    version: int
    number: int
    share_ms: float
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
    show(console, table(turns, options.participants), options.plots)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(turns)))
    return 0


def play(bootstrap: str, version: int, options: argparse.Namespace) -> list[Turn]:
    """Run all transactions of a version, and count what a consumer with `read_committed` reads."""
    topic = "participants"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, options.participants, 1)])[topic].result(WAIT_S)
    partitions = [(topic, partition) for partition in range(options.participants)]
    with ExitStack() as stack:
        each = options.participants // options.processes
        workers = [stack.enter_context(worker(bootstrap, each)) for _ in range(options.processes)]
        producer = stack.enter_context(TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="participants"))
        turns = []
        for number in range(options.transactions):
            tx = producer.begin(WAIT_S)
            begun = time.monotonic()
            participation = tx.share(partitions, WAIT_S)
            shared = time.monotonic()
            for place, process in enumerate(workers):
                mine = partitions[place * each : (place + 1) * each]
                say(process, Errand(participation.dumps(), mine, options.records, 1 if options.unaware else options.participants))
            done = [one for process in workers for one in msgspec.json.decode(line(process), type=list[Done])]
            tx.returned(one.written for one in done)
            ending = time.monotonic()
            tx.commit(WAIT_S)
            turns.append(Turn(version, number, (shared - begun) * 1000.0, (time.monotonic() - ending) * 1000.0, done))
    found, wanted = committed(bootstrap, topic, options.participants), options.transactions * options.participants * (options.records + 1)
    if found != wanted:
        raise RuntimeError(f"a consumer with read_committed reads {found} of {wanted} records")
    return turns


@contextmanager
def worker(bootstrap: str, participants: int) -> Iterator[subprocess.Popen[str]]:
    """A process of participants that is ready."""
    command = [sys.executable, "-P", str(WORKER), bootstrap, str(participants)]
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
        raise RuntimeError("a process of participants ended; its error output is above")
    return said


def committed(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records a consumer with `read_committed` reads up to the current ends."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    count, left = 0, partitions
    deadline = monotonic() + READ_TIMEOUT_S
    while left:
        if monotonic() > deadline:
            raise TimeoutError(f"{topic}: {left} of {partitions} partitions were not read to their ends within {READ_TIMEOUT_S:g} s")
        for message in consumer.consume(10_000, 1.0):
            count, left = (count, left - 1) if message.error() is not None else (count + 1, left)
    consumer.close()
    return count


def table(turns: list[Turn], participants: int) -> Table:
    """One row for each transaction."""
    shown = Table(title=f"{participants} participants, one broker: the first acknowledgement of each partition")
    for heading in ("version", "transaction", "share ms", "first p50 ms", "p90", "max", "retries p50", "max", "in all", "commit ms"):
        shown.add_column(heading, justify="right")
    for turn in turns:
        times, retries = sorted(one.first_ms for one in turn.done), [one.retries for one in turn.done]
        shown.add_row(
            f"TV{turn.version}",
            f"{turn.number + 1}",
            f"{turn.share_ms:.1f}",
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
    parser.add_argument("--participants", type=int, default=64)
    add_plots(parser)
    parser.add_argument("--processes", type=int, default=4, help="number of processes; each has the same number of participants")
    parser.add_argument("--transactions", type=int, default=8, help="number of transactions of each version")
    parser.add_argument("--records", type=int, default=200, help="records of each participant after its first one")
    parser.add_argument("--versions", type=int, nargs="+", choices=[1, 2], default=[1, 2], help="transaction versions")
    parser.add_argument("--unaware", action="store_true", help="do not pass the number of participants to begin()")
    parser.add_argument("--json", type=Path, help="write every measurement to this file")
    options = parser.parse_args()
    if options.participants % options.processes:
        parser.error(f"--participants={options.participants} cannot be divided evenly among --processes={options.processes}")
    return options


if __name__ == "__main__":
    sys.exit(main())
