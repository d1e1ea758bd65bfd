"""`python -P tests/bench/transactions.py` (`make bench-transactions`): transactions, compared with confluent-kafka and Java.

It measures two things on the stub and on Apache Kafka. First: how many records per second are committed if a transaction ends every so many
milliseconds. Second: how long a transaction of ten records over all partitions takes, from its beginning to the return of the commit. Each
contender runs in its own process, in an order that changes from round to round. Afterwards the bench counts what the log holds; no
transaction may be open. Java is ProducerPerformance. It sends values without keys, cannot do the second measurement, and warms up its JVM
inside the first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import fencepost
from tests.bench.hosts import ADMIN_TIMEOUT_S, BROKERS, LOG_ERRORS, Host, opened
from tests.bench.plot import add_plots, show
from tests.bench.run import JVM_TOOL, OUTPUT_WIDTH, ask, java_is_there, names, numbers
from tests.bench.transaction_worker import PARTITIONS, Contender, Found, Work
from tests.conformance.kafka_home import find_java, kafka_home

WORKER = Path(__file__).with_name("transaction_worker.py")
CONTENDERS = {"send": Contender.SEND, "many": Contender.MANY, "confluent": Contender.CONFLUENT, "java": Contender.JAVA}
Rounds = dict[tuple[int, Contender], list[Found]]
"""The results of the rounds, by the milliseconds between two commits; 0 stands for transactions of ten records."""


def main() -> int:
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH)
    console.print(str(fencepost.build_info()))
    found: dict[str, Rounds] = {}
    with ExitStack() as stack:
        for host in opened(options.brokers, stack, console.print):
            found[host.name] = measure_on(host, options, console)
    for name, rounds in found.items():
        show(console, speeds(name, rounds, options), options.plots)
        show(console, latencies(name, rounds, options), options.plots)
    if options.json:
        flat = [
            {"broker": name, "interval_ms": interval, "contender": contender.value, "rounds": each}
            for name, rounds in found.items()
            for (interval, contender), each in rounds.items()
        ]
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"build": str(fencepost.build_info()), "measured": flat})))
    return 0 if found else 1


def measure_on(host: Host, options: argparse.Namespace, console: Console) -> Rounds:
    """Run all rounds on one broker. The results of the first one are thrown away."""
    found: Rounds = {}
    plan = list(planned(options))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(host.name, total=len(plan))
        for turn, (number, interval_ms, contender) in enumerate(plan):
            progress.update(task, description=f"{host.name}, round {number}: {contender.value}, {interval_ms or 'ten records'}")
            figures = measure(host, f"transactions-{turn}", contender, interval_ms, options)
            if number:
                found.setdefault((interval_ms, contender), []).append(figures)
            progress.advance(task)
    return found


def planned(options: argparse.Namespace) -> Iterator[tuple[int, int, Contender]]:
    """The rounds, the commit intervals in each, and the contenders for each interval. Ratios compare neighbours in time."""
    contenders = [CONTENDERS[name] for name in options.contenders]
    for number in range(0 if options.warm_up else 1, options.rounds + 1):
        turn = number % len(contenders)
        for interval_ms in [*options.intervals, 0]:
            for contender in contenders[turn:] + contenders[:turn]:
                if interval_ms or contender is not Contender.JAVA:
                    yield number, interval_ms, contender


def measure(host: Host, topic: str, contender: Contender, interval_ms: int, options: argparse.Namespace) -> Found:
    """Run one worker. Raises RuntimeError if it fails, or if the log does not hold what was committed."""
    host.renew(topic, PARTITIONS)
    work = Work(
        contender=contender,
        bootstrap=host.bootstrap,
        topic=topic,
        interval_ms=interval_ms,
        seconds=options.seconds,
        commits=options.commits,
        java=[str(find_java()), *JVM_TOOL, "-cp", f"{kafka_home()}/libs/*"] if contender is Contender.JAVA else [],
    )
    found = msgspec.json.decode(ask(WORKER, work, f"{contender.value} on {host.name}"), type=Found)
    check_log(host, topic, found)
    return found


def check_log(host: Host, topic: str, found: Found) -> None:
    """Check that the log holds the records and at most one marker per transaction and partition, and that no transaction is open."""
    ends = [end_offsets(host.bootstrap, topic, isolation) for isolation in ("read_committed", "read_uncommitted")]
    if ends[0] != ends[1]:
        raise RuntimeError(f"{topic}: a transaction is open after the last commit: {ends}")
    markers = sum(ends[1]) - found.records
    if not 0 < markers <= found.transactions * PARTITIONS:
        raise RuntimeError(f"{topic}: {found.records} records in {found.transactions} transactions were committed, the log holds {ends[1]}")


def end_offsets(bootstrap: str, topic: str, isolation: str) -> list[int]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": LOG_ERRORS, "isolation.level": isolation}
    consumer = Consumer(settings)
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, each), ADMIN_TIMEOUT_S)[1] for each in range(PARTITIONS)]
    finally:
        consumer.close()


def speeds(broker: str, rounds: Rounds, options: argparse.Namespace) -> Table:
    """Committed records per second and CPU per record, by the commit interval; × is the multiple of confluent-kafka."""
    table = Table(title=f"{broker}: committed records/s, CPU per record; medians of {options.rounds}", title_justify="left")
    table.add_column("")
    for interval_ms in options.intervals:
        table.add_column(f"a commit every {interval_ms} ms", justify="right")
    for name in options.contenders:
        cells = []
        for interval_ms in options.intervals:
            ours, theirs = rounds[interval_ms, CONTENDERS[name]], rounds.get((interval_ms, Contender.CONFLUENT))
            speed = median(each.records_per_s for each in ours) / 1e6
            text = f"{speed:.2f} M{ratio(ours, theirs, lambda each: each.records_per_s)}"
            cells.append(f"{text}, {median(each.cpu_ns for each in ours):.0f} ns{ratio(ours, theirs, lambda each: each.cpu_ns)}")
        table.add_row(CONTENDERS[name].value, *cells)
    return table


def latencies(broker: str, rounds: Rounds, options: argparse.Namespace) -> Table:
    """The time of a transaction of ten records, from its beginning to the return of its commit."""
    table = Table(title=f"{broker}: ten records over {PARTITIONS} partitions; medians of {options.rounds}", title_justify="left")
    for heading in ("", "p50", "p99", "CPU of a transaction"):
        table.add_column(heading, justify="right" if heading else "left")
    for name in options.contenders:
        ours, theirs = rounds.get((0, CONTENDERS[name])), rounds.get((0, Contender.CONFLUENT))
        if ours is not None:
            table.add_row(
                CONTENDERS[name].value,
                f"{median(each.p50_ms for each in ours):.2f} ms{ratio(ours, theirs, lambda each: each.p50_ms)}",
                f"{median(each.p99_ms for each in ours):.2f} ms{ratio(ours, theirs, lambda each: each.p99_ms)}",
                f"{median(each.cpu_ns * 10 / 1e6 for each in ours):.2f} ms{ratio(ours, theirs, lambda each: each.cpu_ns)}",
            )
    return table


def ratio(ours: list[Found], theirs: list[Found] | None, figure: Callable[[Found], float]) -> str:
    """The median of the ratios of each round."""
    if theirs is None or ours is theirs:
        return ""
    return f" ×{median(figure(mine) / figure(other) for mine, other in zip(ours, theirs, strict=True)):.2f}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/transactions.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some seconds on the stub, to check that the bench works; ignore the figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to this file")
    parser.add_argument("--brokers", type=names(BROKERS), default=list(BROKERS), metavar="NAMES", help="of stub,kafka")
    parser.add_argument(
        "--contenders", type=names(CONTENDERS), default=list(CONTENDERS), metavar="NAMES", help=f"of {','.join(CONTENDERS)}"
    )
    parser.add_argument("--intervals", type=numbers, default=[10, 100, 1000], metavar="NUMBERS", help="milliseconds between two commits")
    parser.add_argument("--rounds", type=int, default=3)
    add_plots(parser)
    parser.add_argument("--seconds", type=float, default=4.0, help="how many seconds each measurement lasts")
    parser.add_argument("--commits", type=int, default=500, help="transactions of ten records")
    parser.add_argument("--no-warm-up", dest="warm_up", action="store_false", help="leave out the warm-up round")
    options = parser.parse_args()
    if options.quick:
        options.brokers, options.rounds, options.warm_up, options.intervals = ["stub"], 1, False, [10]
        options.seconds, options.commits = 0.3, 20
        options.contenders = [name for name in options.contenders if name != "java" or java_is_there()]
    return options


if __name__ == "__main__":
    sys.exit(main())
