"""`python -P tests/bench/run.py`, which is `make bench`: fencepost, confluent-kafka and the ceiling, on the stub and on Apache Kafka.

Every measurement runs in its own process; brokers run in theirs. All contenders of a round follow one another in an order that rotates
from round to round, so that a machine that changes its pace changes it for everybody. It measures the installed package, says which
build that is, and passes no judgement. docs/performance.md explains the table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

# At the end of the path, so that what is measured is the installed package and not the checkout.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from rich.console import Console
from rich.progress import Progress

import fencepost
from tests.bench.hosts import Host, KafkaHost, StubHost, records_in_log
from tests.bench.load import Contender, Figures, Load, Measurement, Scenario
from tests.bench.report import Row, summarize, tables
from tests.conformance.kafka import KafkaUnavailable

WORKER = Path(__file__).with_name("worker.py")
WORKER_TIMEOUT_S = 600.0
OUTPUT_WIDTH = 130
BROKERS: dict[str, Callable[[], Host]] = {"stub": StubHost, "kafka": KafkaHost}
SCENARIOS = {"one": Scenario.ONE, "four": Scenario.FOUR, "burner": Scenario.BESIDE_BURNER}
CONTENDERS = {
    "futures": Contender.FUTURES,
    "callbacks": Contender.CALLBACKS,
    "many": Contender.MANY,
    "arrow": Contender.ARROW,
    "confluent": Contender.CONFLUENT,
    "confluent-batch": Contender.CONFLUENT_BATCH,
    "ceiling": Contender.CEILING,
}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes. `load_average`: of the machine, before the first measurement."""

    build: str
    confluent_kafka: str
    cores: int
    load_average: float
    settings: dict[str, float]
    skipped: list[str]
    rows: list[Row]
    measured: list[Measurement]


def main() -> int:
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH)
    load_average = os.getloadavg()[0]
    build = str(fencepost.build_info())
    console.print(f"{build}; confluent-kafka {version('confluent-kafka')}; {os.cpu_count()} cores, load average {load_average:.2f}")
    if load_average > 0.3:
        console.print("Other work is running on this machine: trust the ratios more than the figures, and neither too much.")
    measured: list[Measurement] = []
    skipped: list[str] = []
    for name in options.brokers:
        try:
            host = BROKERS[name]()
        except KafkaUnavailable as missing:
            console.print(f"no real Kafka: {missing}")
            skipped.append(f"{name}: {missing}")
            continue
        with host:
            measured += measure_on(host, options, console)
    rows = summarize(measured)
    for table in tables(rows):
        console.print(table)
    if options.json:
        result = Result(
            build=build,
            confluent_kafka=version("confluent-kafka"),
            cores=os.cpu_count() or 0,
            load_average=load_average,
            settings={name: value for name, value in vars(options).items() if isinstance(value, (int, float))},
            skipped=skipped,
            rows=rows,
            measured=measured,
        )
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    return 0 if measured else 1


def measure_on(host: Host, options: argparse.Namespace, console: Console) -> list[Measurement]:
    """All rounds on one broker."""
    measured: list[Measurement] = []
    warm_up = [(0, SCENARIOS["one"], CONTENDERS[name]) for name in options.contenders] if options.warm_up else []
    plan = [*warm_up, *planned(options)]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(host.name, total=len(plan))
        for number, (round_number, scenario, contender) in enumerate(plan):
            progress.update(task, description=f"{host.name}, round {round_number}: {contender.value}, {scenario.value}")
            figures = measure(host, load_of(options, host, f"bench-{number}", scenario, contender))
            if round_number:
                measured.append(Measurement(broker=host.name, round=round_number, scenario=scenario, contender=contender, figures=figures))
            progress.advance(task)
    return measured


def planned(options: argparse.Namespace) -> Iterator[tuple[int, Scenario, Contender]]:
    """Rounds, scenarios in each, contenders in each: neighbours in time are what ratios compare."""
    contenders = [CONTENDERS[name] for name in options.contenders]
    for round_number in range(1, options.rounds + 1):
        for name in options.scenarios:
            turn = round_number % len(contenders)
            for contender in contenders[turn:] + contenders[:turn]:
                yield round_number, SCENARIOS[name], contender


def load_of(options: argparse.Namespace, host: Host, topic: str, scenario: Scenario, contender: Contender) -> Load:
    host.renew(topic, options.partitions)
    return Load(
        contender=contender,
        scenario=scenario,
        bootstrap=host.bootstrap,
        topic=topic,
        records=options.records,
        burst=options.burst,
        bursts=options.bursts,
        partitions=options.partitions,
        key_bytes=options.key_bytes,
        value_bytes=options.value_bytes,
        linger_ms=options.linger_ms,
        batch_bytes=options.batch_bytes,
        buffer_bytes=options.buffer_bytes,
    )


def measure(host: Host, load: Load) -> Figures:
    """Run one worker; RuntimeError when it fails, or when the log does not hold exactly what was acknowledged."""
    figures = figures_of(load, host.name)
    sent = load.records if load.contender is Contender.CEILING else load.records + load.burst * (load.bursts + 1)
    logged = records_in_log(host.bootstrap, load.topic, load.partitions)
    if logged != sent:
        raise RuntimeError(f"{load.contender.value} on {host.name}: {sent} records were sent and the log holds {logged}")
    return figures


def figures_of(load: Load, broker: str) -> Figures:
    """Run one worker; RuntimeError when it fails, and when not every record was acknowledged."""
    done = subprocess.run(
        [sys.executable, "-P", str(WORKER)], input=msgspec.json.encode(load), capture_output=True, timeout=WORKER_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{load.contender.value} on {broker} failed: {done.stderr.decode(errors='replace').strip()[-3000:]}")
    return msgspec.json.decode(done.stdout, type=Figures)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some seconds on the stub, to see that the bench works; no real figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    parser.add_argument("--brokers", type=names(BROKERS), default=list(BROKERS), metavar="NAMES", help="of stub,kafka")
    parser.add_argument("--scenarios", type=names(SCENARIOS), default=list(SCENARIOS), metavar="NAMES", help="of one,four,burner")
    parser.add_argument(
        "--contenders", type=names(CONTENDERS), default=list(CONTENDERS), metavar="NAMES", help=f"of {','.join(CONTENDERS)}"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=2_000_000, help="sent in the long run of each measurement")
    parser.add_argument("--burst", type=int, default=100_000, help="sent at once into an empty buffer, for the cost of the call alone")
    parser.add_argument("--bursts", type=int, default=7)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--key-bytes", type=int, default=12)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--linger-ms", type=float, default=5.0)
    parser.add_argument("--batch-bytes", type=int, default=256 * 1024)
    parser.add_argument("--buffer-bytes", type=int, default=64 * 1024 * 1024)
    parser.add_argument("--no-warm-up", dest="warm_up", action="store_false", help="leave out the round that is measured and thrown away")
    options = parser.parse_args()
    if options.quick:
        options.brokers, options.rounds, options.warm_up = ["stub"], 1, False
        options.records, options.burst, options.bursts = 20_000, 4_000, 2
    if options.records % 4 or options.burst % 4:
        parser.error("--records and --burst are shared by four threads: give multiples of 4")
    return options


def names(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """Reads a comma-separated choice."""

    def read(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return chosen

    return read


if __name__ == "__main__":
    sys.exit(main())
