"""`python -P tests/bench/run.py` (`make bench`): compares fencepost, confluent-kafka and the ceiling, on the stub and on Apache Kafka.

Every measurement and every broker runs in its own process. In each round the contenders follow one another, in an order that changes from
round to round, so that a change of the machine's speed affects all of them. It measures the installed package, prints which build that is,
and judges nothing. docs/performance.md explains the table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from rich.console import Console
from rich.progress import Progress

import fencepost
from tests.bench.hosts import BROKERS, Host, records_in_log
from tests.bench.load import REPLAYED, Contender, Figures, Load, Measurement, Scenario, fewer, takes_part
from tests.bench.lone import LONE_WARM_UP
from tests.bench.plot import add_plots, write_charts
from tests.bench.report import Row, summarize, tables
from tests.conformance.kafka_home import KafkaUnavailable, find_java, kafka_home

WORKER = Path(__file__).with_name("worker.py")
WORKER_TIMEOUT_S = 600.0
SHARES = 40
MEMORY_SHARE = 2
"""Where memory is looked at the buffer is so much smaller, as large as `buffer_memory` is by default, so that it is full for most of the
run."""

JVM_TOOL = ("-Xmx512m", "-Dlog4j2.level=ERROR")
"""The JVM flags of Kafka's own script for tools."""

OUTPUT_WIDTH = 130
SCENARIOS = {"one": Scenario.ONE, "four": Scenario.FOUR, "burner": Scenario.BESIDE_BURNER}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONTENDERS = {
    "futures": Contender.FUTURES,
    "callbacks": Contender.CALLBACKS,
    "many": Contender.MANY,
    "arrow": Contender.ARROW,
    "confluent": Contender.CONFLUENT,
    "confluent-batch": Contender.CONFLUENT_BATCH,
    "aiokafka": Contender.AIOKAFKA,
    "kafka-python": Contender.KAFKA_PYTHON,
    "java": Contender.JAVA,
    "ceiling": Contender.CEILING,
}


WHOLE = {
    "records": 5_000_000,
    "scenarios": ["one", "four"],
    "partitions": [6, 1, 50],
    "codecs": ["none", "lz4"],
    "latency": True,
    "memory": True,
}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes. `load_average`: the machine's, before the first measurement."""

    build: str
    versions: dict[str, str]
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
        console.print("Other work is running on this machine. The figures are not reliable; the ratios are a little better.")
    measured: list[Measurement] = []
    skipped: list[str] = []

    def save() -> None:
        """Write the results after every measurement, so that an interrupted run keeps what it has measured."""
        if options.json:
            result = Result(
                build=build,
                versions={name: version(name) for name in ("confluent-kafka", "aiokafka", "kafka-python", "pyarrow")},
                cores=os.cpu_count() or 0,
                load_average=load_average,
                settings={name: value for name, value in vars(options).items() if isinstance(value, (int, float))},
                skipped=skipped,
                rows=summarize(measured),
                measured=measured,
            )
            options.json.write_bytes(msgspec.json.format(msgspec.json.encode(result)))

    for name in options.brokers:
        try:
            host = BROKERS[name]()
        except KafkaUnavailable as missing:
            console.print(f"no real Kafka: {missing}")
            skipped.append(f"{name}: {missing}")
            continue
        with host:
            for each in measure_on(host, options, console):
                measured.append(each)
                save()
    save()
    for table in tables(summarize(measured)):
        console.print(table)
    if options.plots:
        write_charts(summarize(measured), options.plots)
    return 0 if measured else 1


def measure_on(host: Host, options: argparse.Namespace, console: Console) -> Iterator[Measurement]:
    """Run all rounds on one broker."""
    plan = [*(warm_up(options) if options.warm_up else ()), *planned(options)]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(host.name, total=len(plan))
        for number, turn in enumerate(plan):
            progress.update(task, description=f"{host.name}, {turn}")
            figures = measure(host, load_of(options, host, f"bench-{number}", turn))
            if turn.round:
                yield Measurement(
                    broker=host.name,
                    round=turn.round,
                    scenario=turn.scenario,
                    contender=turn.contender,
                    partitions=turn.partitions,
                    codec=turn.codec,
                    figures=figures,
                )
            progress.advance(task)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. The results of round 0 are thrown away."""

    round: int
    scenario: Scenario
    contender: Contender
    partitions: int
    codec: str

    def __str__(self) -> str:
        where = f"{self.partitions} partitions, {self.codec}"
        return f"round {self.round}: {self.contender.value}, {self.scenario.value}, {where}"


def warm_up(options: argparse.Namespace) -> Iterator[Turn]:
    """One measurement for each contender."""
    for name in options.contenders:
        yield Turn(round=0, scenario=Scenario.ONE, contender=CONTENDERS[name], partitions=options.partitions[0], codec=options.codecs[0])


def planned(options: argparse.Namespace) -> Iterator[Turn]:
    """The rounds, the tables in each, and the contenders in each table. Ratios compare neighbours in time."""
    contenders = [CONTENDERS[name] for name in options.contenders]
    for number in range(1, options.rounds + 1):
        for scenario, partitions, codec in asked_for(options):
            turn = number % len(contenders)
            for contender in contenders[turn:] + contenders[:turn]:
                if takes_part(contender, scenario):
                    yield Turn(round=number, scenario=scenario, contender=contender, partitions=partitions, codec=codec)


def asked_for(options: argparse.Namespace) -> list[tuple[Scenario, int, str]]:
    """The tables. Latency and memory are measured only with the first number of partitions and the first codec."""
    found = [
        (SCENARIOS[name], partitions, codec) for partitions in options.partitions for codec in options.codecs for name in options.scenarios
    ]
    apart = [scenario for scenario, wanted in ((Scenario.LONE, options.latency), (Scenario.MEMORY, options.memory)) if wanted]
    return found + [(scenario, options.partitions[0], options.codecs[0]) for scenario in apart]


def load_of(options: argparse.Namespace, host: Host, topic: str, turn: Turn) -> Load:
    host.renew(topic, turn.partitions)
    divisor = fewer(turn.contender, turn.scenario)
    lone = turn.scenario is Scenario.LONE
    return Load(
        contender=turn.contender,
        scenario=turn.scenario,
        bootstrap=host.bootstrap,
        topic=topic,
        records=options.records // divisor,
        burst=options.burst // divisor,
        bursts=options.bursts,
        partitions=turn.partitions,
        key_bytes=options.key_bytes,
        value_bytes=options.value_bytes,
        linger_ms=0.0 if lone else options.linger_ms,
        batch_bytes=options.batch_bytes,
        buffer_bytes=options.buffer_bytes // (MEMORY_SHARE if turn.scenario is Scenario.MEMORY else 1),
        codec=turn.codec,
        java=[str(find_java()), *JVM_TOOL, "-cp", f"{kafka_home()}/libs/*"] if turn.contender is Contender.JAVA else [],
    )


def measure(host: Host, load: Load) -> Figures:
    """Run one worker. Raises RuntimeError if it fails, or if the log does not hold exactly the acknowledged records."""
    figures = figures_of(load, host.name)
    sent = figures.acked + warmed_up(load)
    logged = records_in_log(host.bootstrap, load.topic, load.partitions)
    if logged != sent:
        raise RuntimeError(f"{load.contender.value} on {host.name}: {sent} records were sent and the log holds {logged}")
    return figures


def figures_of(load: Load, broker: str) -> Figures:
    """Run one worker. Raises RuntimeError if it fails, or if a record was not acknowledged."""
    return msgspec.json.decode(ask(WORKER, load, f"{load.contender.value} on {broker}"), type=Figures)


def ask(worker: Path, work: msgspec.Struct, what: str, *, python: str = sys.executable) -> bytes:
    """The answer of a worker process. Raises RuntimeError, which names `what`, if the process fails."""
    command = [python, "-P", str(worker)]
    done = subprocess.run(command, input=msgspec.json.encode(work), capture_output=True, timeout=WORKER_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} failed: {done.stderr.decode(errors='replace').strip()[-3000:]}")
    return done.stdout


def warmed_up(load: Load) -> int:
    """The number of records besides those of the long run."""
    if load.contender in REPLAYED:
        return 0
    match load.scenario:
        case Scenario.LONE:
            return LONE_WARM_UP
        case Scenario.MEMORY:
            return load.burst
        case _:
            return load.burst * (load.bursts + 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/run.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some seconds on the stub, to check that the bench works; ignore the figures")
    parser.add_argument("--whole", action="store_true", help="every table of docs/performance.md except the burner's: 50 minutes a broker")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to this file")
    add_plots(parser)
    parser.add_argument("--brokers", type=names(BROKERS), default=list(BROKERS), metavar="NAMES", help="of stub,kafka")
    parser.add_argument("--scenarios", type=names(SCENARIOS), default=list(SCENARIOS), metavar="NAMES", help="of one,four,burner")
    parser.add_argument(
        "--contenders", type=names(CONTENDERS), default=list(CONTENDERS), metavar="NAMES", help=f"of {','.join(CONTENDERS)}"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=2_000_000, help="records of each measurement's long run")
    parser.add_argument("--burst", type=int, default=100_000, help="records sent into an empty buffer, to measure the call alone")
    parser.add_argument("--bursts", type=int, default=7)
    parser.add_argument("--partitions", type=numbers, default=[6], metavar="NUMBERS", help="such as 1,6,50: one table for each")
    parser.add_argument("--codecs", type=names(dict.fromkeys(CODECS)), default=["none"], metavar="NAMES", help=f"of {','.join(CODECS)}")
    parser.add_argument("--latency", action="store_true", help="also measure how long a lone record takes")
    parser.add_argument("--memory", action="store_true", help="also measure how much memory a long run takes besides its buffer")
    parser.add_argument("--key-bytes", type=int, default=12)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--linger-ms", type=float, default=5.0)
    parser.add_argument("--batch-bytes", type=int, default=256 * 1024)
    parser.add_argument("--buffer-bytes", type=int, default=64 * 1024 * 1024)
    parser.add_argument("--no-warm-up", dest="warm_up", action="store_false", help="leave out the warm-up round")
    if parser.parse_known_args()[0].whole:
        parser.set_defaults(**WHOLE)
    options = parser.parse_args()
    if options.quick:
        options.brokers, options.rounds, options.warm_up = ["stub"], 1, False
        options.records, options.burst, options.bursts = 20_000, 4_000, 2
        options.contenders = [name for name in options.contenders if name != "java" or java_is_there()]
    if options.records % SHARES or options.burst % SHARES:
        parser.error(f"--records and --burst are shared by four threads, and a tenth of them, too: give multiples of {SHARES}")
    return options


def java_is_there() -> bool:
    """Whether ProducerPerformance can run here."""
    try:
        find_java()
        kafka_home()
    except KafkaUnavailable:
        return False
    return True


def numbers(text: str) -> list[int]:
    """Read numbers that are separated by commas."""
    return [int(each) for each in text.split(",")]


def names(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """Read names that are separated by commas, each from the known ones."""

    def read(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return chosen

    return read


if __name__ == "__main__":
    sys.exit(main())
