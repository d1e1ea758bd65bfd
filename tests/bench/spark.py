"""`python -P tests/bench/spark.py` (`make bench-spark`): micro-batches through foreachBatch, compared with Spark's own Kafka sink.

One Apache Kafka and two Spark applications run for the whole bench, and the applications work alternately. One is fencepost's, on the
installed pyspark. The other has Spark's sink, which promises at least once, on the newest pyspark that has such a sink (`spark_home`). Both
get the same rows, acks, compression, batch size and linger. Each round measures every contender, in an order that changes. Ratios compare
measurements of one round. A query's first batches are thrown away. A consumer with `read_committed` must read exactly the rows that were
written.

`make bench-spark BASE=REVISION` also measures fencepost's contenders with another build, each right beside this build's. A third
application has that build's Python and worker. `compare` says what a worse row is; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from rich.console import Console
from rich.progress import Progress

import fencepost
from tests.bench.compare import Build, Compared, judged
from tests.bench.hosts import KafkaHost
from tests.bench.participants import committed
from tests.bench.plot import add_plots, show
from tests.bench.run import OUTPUT_WIDTH, names, numbers
from tests.bench.spark_home import sink_jars, spark_home
from tests.bench.spark_report import BASE, Measured, phases, ratios, speeds
from tests.bench.spark_worker import SINKS, Application, Contender, Errand, Told
from tests.conformance.kafka_home import find_java

HERE = Build("fencepost", Path(__file__).resolve().parents[2])
PARTITIONS = 6
CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.python.unix.domain.socket.enabled": "true",
}
DRIVER_ROWS_MAX = 1_000_000
"""The driver does not collect batches with more rows than this."""
SMALL_ROWS = 10_000
"""Batches of at most this many rows are measured more often, because each measurement says little."""
CONTENDERS = {
    "bare": (Contender.BARE, True),
    "bare-keyless": (Contender.BARE, False),
    "turns": (Contender.TURNS, True),
    "turns-keyless": (Contender.TURNS, False),
    "driver": (Contender.DRIVER, True),
    "sink": (Contender.SINK, True),
    "sink-keyless": (Contender.SINK, False),
    "arrow": (Contender.ARROW, True),
    "arrow-keyless": (Contender.ARROW, False),
    "kafka-claims": (Contender.KAFKA_CLAIMS, True),
    "kafka-claims-keyless": (Contender.KAFKA_CLAIMS, False),
    "driver-keyless": (Contender.DRIVER, False),
}
"""What writes each batch, and whether rows have keys."""
USUAL = [*CONTENDERS][:7]


def main() -> int:
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH)
    console.print(f"{fencepost.build_info()}; load {os.getloadavg()[0]:.1f}")
    measured: list[Measured] = []
    with ExitStack() as stack:
        host = stack.enter_context(KafkaHost())
        sparks = Sparks(stack, options, console)
        plan = list(planned(options))
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("", total=len(plan))
            for turn, (number, rows, name) in enumerate(plan):
                progress.update(task, description=f"round {number}: {name}, {rows} rows")
                told = measure(sparks, host, f"spark-{turn}", name, rows, options)
                measured.append(Measured(round=number, rows=rows, name=name, ms=told.ms, cpu_ms=told.cpu_ms, phases=told.phases))
                progress.advance(task)
    show(console, speeds(measured, options.contenders), options.plots)
    show(console, phases(measured, options.contenders), options.plots)
    compared = [
        Compared(broker=f"{size:,} rows", row=name, figure=figure, more_is_better=False, ratios=found)
        for (size, name, figure), found in ratios(measured).items()
    ]
    if options.json:
        told_all = {"build": str(fencepost.build_info()), "spark": sparks.versions, "load": os.getloadavg(), "measured": measured}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(told_all)))
    return judged(console, compared) if options.base else 0


def planned(options: argparse.Namespace) -> Iterator[tuple[int, int, str]]:
    """The rounds, the sizes in each, and the contenders for each size. Ratios compare neighbours in time."""
    for number in range(1, options.rounds + 1):
        turn = number % len(options.contenders)
        for rows in options.rows:
            for name in options.contenders[turn:] + options.contenders[:turn]:
                contender = CONTENDERS[name][0]
                if contender is Contender.DRIVER and rows > DRIVER_ROWS_MAX:
                    continue
                builds = (name, name + BASE) if options.base and contender not in SINKS else (name,)
                for built in builds if number % 2 else builds[::-1]:
                    yield number, rows, built


def measure(sparks: Sparks, host: KafkaHost, topic: str, name: str, rows: int, options: argparse.Namespace) -> Told:
    """Run one query. Raises RuntimeError if consumers do not read what it wrote."""
    host.renew(topic, options.partitions)
    contender, keyed = CONTENDERS[name.removesuffix(BASE)]
    told = sparks.run(
        "base" if name.endswith(BASE) else "Spark's sink" if options.same_spark or contender is Contender.SINK else "fencepost",
        Errand(
            contender=contender,
            keyed=keyed,
            bootstrap=host.bootstrap,
            topic=topic,
            rows=rows,
            slices=options.slices,
            warm_up=options.warm_up,
            batches=options.batches * (4 if rows <= SMALL_ROWS else 1),
            settings={
                "acks": "all",
                "compression.type": options.codec,
                "batch.size": str(options.batch_bytes),
                "linger.ms": str(options.linger_ms),
            },
        ),
    )
    found = committed(host.bootstrap, topic, options.partitions)
    if found != told.written:
        raise RuntimeError(f"{name}: a consumer with read_committed reads {found} of {told.written} rows")
    return told


class Sparks:
    """The applications. Each one starts when it is first needed. `versions`: their pyspark versions."""

    def __init__(self, stack: ExitStack, options: argparse.Namespace, console: Console) -> None:
        self.versions: dict[str, str] = {}
        self._stack = stack
        self._conf = {**CONF, "spark.master": f"local[{options.cores}]", "spark.driver.memory": options.memory}
        self._base = Build("base", options.base.resolve()) if options.base else HERE
        self._console = console
        self._running: dict[str, subprocess.Popen[str]] = {}

    def run(self, whose: str, errand: Errand) -> Told:
        """Send the errand to that application."""
        if whose not in self._running:
            self._running[whose] = self._start(whose)
        return msgspec.json.decode(ask(self._running[whose], errand), type=Told)

    def _start(self, whose: str) -> subprocess.Popen[str]:
        conf = dict(self._conf)
        build = self._base if whose == "base" else HERE
        python = str(build.python) if whose == "base" else sys.executable
        # -P, also for Spark's Python workers: otherwise they find the checkout before the installed package.
        environment = {**os.environ, "PYSPARK_PYTHON": python, "PYTHONSAFEPATH": "1", "JAVA_HOME": str(java_home())}
        environment.pop("SPARK_HOME", None)
        if whose == "Spark's sink":
            home = spark_home()
            environment["PYTHONPATH"] = str(home / "python")
            conf["spark.jars"] = ",".join(map(str, sink_jars(home)))
        process = self._stack.enter_context(application(python, build.home / "tests" / "bench" / "spark_worker.py", environment))
        self.versions[whose] = msgspec.json.decode(ask(process, Application(conf)), type=str)
        self._console.print(f"{whose}: pyspark {self.versions[whose]}")
        return process


@contextmanager
def application(python: str, worker: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process of a build's `spark_worker`. If it ends with an error, its error output is printed."""
    with tempfile.TemporaryFile("w+") as said:
        command = [python, "-P", str(worker)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=environment, start_new_session=True
        )
        try:
            yield process
        except BaseException:
            process.kill()
            process.wait()
            print(tail(said), file=sys.stderr)
            raise
        process.communicate()


def ask(process: subprocess.Popen[str], errand: Application | Errand) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode(errand).decode() + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError("a Spark application ended; its error output is above")
    return answer


def tail(said: IO[str]) -> str:
    said.seek(0)
    return said.read()[-4000:]


def java_home() -> Path:
    return find_java().resolve().parent.parent


def parsed() -> Any:
    parser = argparse.ArgumentParser(prog="tests/bench/spark.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, up to 10^6 rows; ignore the figures")
    parser.add_argument("--base", type=Path, metavar="DIR", help="a checkout of another revision, after `make`, to compare this build with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to this file")
    parser.add_argument(
        "--rows", type=numbers, default=[1_000, 10_000, 100_000, 1_000_000, 5_000_000], metavar="NUMBERS", help="rows of a batch"
    )
    parser.add_argument("--contenders", type=names(CONTENDERS), default=USUAL, metavar="NAMES", help=f"of {','.join(CONTENDERS)}")
    parser.add_argument("--rounds", type=int, default=3)
    add_plots(parser)
    parser.add_argument("--warm-up", type=int, default=2, help="batches of each query that are thrown away")
    parser.add_argument(
        "--batches", type=int, default=3, help=f"measured batches of each query; four times as many with {SMALL_ROWS} rows or fewer"
    )
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2, help="tasks that Spark runs at once")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="partitions of the topic")
    parser.add_argument("--slices", type=int, default=PARTITIONS, help="partitions of the source")
    parser.add_argument("--memory", default="2g", help="spark.driver.memory")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--batch-bytes", type=int, default=256 * 1024)
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument(
        "--same-spark", action="store_true", help="run fencepost on the pyspark of Spark's sink, too, which lacks some features"
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.rows = 1, [rows for rows in options.rows if rows <= 1_000_000]
    return options


if __name__ == "__main__":
    sys.exit(main())
