"""`python -P tests/bench/pipeline.py` (`make bench-pipeline`): read-process-write over the flights, beside a loop on confluent-kafka.

Each contender reads the same messages, with the same batch size and commit interval, and writes one record for each of them to a new topic.
Each runs in its own process, in an order that changes from round to round. Afterwards the bench counts what a reader with read_committed
finds.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import fencepost
from fencepost import Producer
from fencepost.demo.flights import FLIGHTS_TOTAL, Flight, load_flights
from tests.bench.hosts import BROKERS, Host, create_topic, opened
from tests.bench.pipeline_worker import LIMIT_S, Contender, Found, Work
from tests.bench.plot import add_plots, show
from tests.bench.run import OUTPUT_WIDTH, ask, names, numbers
from tests.reading import read_values

WORKER = Path(__file__).with_name("pipeline_worker.py")
PARTITIONS = 6
SOURCE = "flights"
CONTENDERS = {"one": Contender.ONE, "many": Contender.MANY, "confluent": Contender.CONFLUENT}
Rounds = dict[tuple[int, Contender], list[Found]]
"""The results of the rounds, by the batch size."""


def main() -> int:
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH)
    console.print(str(fencepost.build_info()))
    flights = load_flights(options.rows)
    found: dict[str, Rounds] = {}
    with ExitStack() as stack:
        for host in opened(options.brokers, stack, console.print):
            found[host.name] = measure_on(host, flights, options, console)
    for name, rounds in found.items():
        show(console, table(name, rounds, options), options.plots)
    if options.json:
        flat = [
            {"broker": name, "batch_size": size, "contender": contender.value, "rounds": each}
            for name, rounds in found.items()
            for (size, contender), each in rounds.items()
        ]
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"build": str(fencepost.build_info()), "measured": flat})))
    return 0 if found else 1


def measure_on(host: Host, flights: list[Flight], options: argparse.Namespace, console: Console) -> Rounds:
    """Run all rounds on one broker."""
    found: Rounds = {}
    contenders = [CONTENDERS[name] for name in options.contenders]
    plan = [
        (number, size, contender)
        for number in range(options.rounds)
        for size in options.sizes
        for contender in contenders[number % len(contenders) :] + contenders[: number % len(contenders)]
    ]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(host.name, total=len(plan))
        for turn, (number, size, contender) in enumerate(plan):
            progress.update(task, description=f"{host.name}, round {number + 1}: {contender.value}, batches of {size}")
            found.setdefault((size, contender), []).append(measure(host, turn, flights, contender, size, options))
            progress.advance(task)
    return found


def measure(host: Host, turn: int, flights: list[Flight], contender: Contender, size: int, options: argparse.Namespace) -> Found:
    """Run one worker. Raises RuntimeError if it fails, or if a reader does not find what it must have written."""
    source, sink = f"{SOURCE}-{turn}", f"results-{turn}"
    host.renew(source, PARTITIONS)
    create_topic(host.bootstrap, sink, PARTITIONS)
    with Producer(bootstrap_servers=host.bootstrap) as producer:
        producer.send_many(source, [(flight.key, flight.value) for flight in flights]).result(LIMIT_S)
    work = Work(
        contender=contender,
        bootstrap=host.bootstrap,
        source=source,
        sink=sink,
        rows=len(flights),
        batch_size=size,
        batch_ms=options.interval,
    )
    found = msgspec.json.decode(ask(WORKER, work, f"{contender.value} on {host.name}"), type=Found)
    written = len(read_values(host.bootstrap, sink, range(PARTITIONS)))
    if written != len(flights):
        raise RuntimeError(f"{contender.value}: {len(flights)} messages, and a reader finds {written} results")
    return found


def table(broker: str, rounds: Rounds, options: argparse.Namespace) -> Table:
    """Messages per second, by the batch size; × is the median of the multiples of confluent-kafka's figure in the same round."""
    title = f"{broker}: messages/s, CPU per message; a commit every {options.interval} ms or batch; medians of {options.rounds}"
    made = Table(title=title, title_justify="left")
    made.add_column("")
    for size in options.sizes:
        made.add_column(f"batches of {size:,}", justify="right")
    for name in options.contenders:
        cells = []
        for size in options.sizes:
            ours, theirs = rounds[size, CONTENDERS[name]], rounds.get((size, Contender.CONFLUENT))
            speed, cpu_ns = median(each.records_per_s for each in ours), median(each.cpu_ns for each in ours)
            ratio = ""
            if theirs is not None and theirs is not ours:
                ratio = f" ×{median(mine.records_per_s / other.records_per_s for mine, other in zip(ours, theirs, strict=True)):.2f}"
            cells.append(f"{speed / 1e3:.0f} k{ratio}, {cpu_ns:.0f} ns")
        made.add_row(CONTENDERS[name].value, *cells)
    return made


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/pipeline.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some seconds on the stub, to check that the bench works; ignore the figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to this file")
    parser.add_argument("--brokers", type=names(BROKERS), default=list(BROKERS), metavar="NAMES", help="of stub,kafka")
    parser.add_argument(
        "--contenders", type=names(CONTENDERS), default=list(CONTENDERS), metavar="NAMES", help=f"of {','.join(CONTENDERS)}"
    )
    parser.add_argument("--sizes", type=numbers, default=[1_000, 10_000], metavar="NUMBERS", help="messages in a transaction")
    parser.add_argument("--interval", type=int, default=1_000, help="milliseconds after which a transaction is committed anyway")
    parser.add_argument("--rounds", type=int, default=3)
    add_plots(parser)
    parser.add_argument("--rows", type=int, default=FLIGHTS_TOTAL, help="how many flights are processed")
    options = parser.parse_args()
    if options.quick:
        options.brokers, options.rounds, options.sizes, options.rows = ["stub"], 1, [1_000], 5_000
    return options


if __name__ == "__main__":
    sys.exit(main())
