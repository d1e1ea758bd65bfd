"""`python -P tests/bench/spark.py`, which is `make bench-spark`: micro-batches through foreachBatch, beside Spark's own Kafka sink.

One Apache Kafka, and two Spark applications that live through the whole run and work in turns: fencepost's on the pyspark that is
installed, and Spark's sink, which promises at least once, on the newest pyspark that it can be had for (`spark_home`). All get the same
rows, acks, compression, batch size and linger. Rounds go from contender to contender, in an order that rotates; ratios are those inside a
round. A query's first batches are thrown away. What a reader of committed records finds afterwards has to be what was written, to the row.
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
from tests.bench.hosts import KafkaHost
from tests.bench.participants import committed
from tests.bench.run import OUTPUT_WIDTH, names, numbers
from tests.bench.spark_home import sink_jars, spark_home
from tests.bench.spark_report import Measured, phases, speeds
from tests.bench.spark_worker import Application, Contender, Errand, Told
from tests.conformance.kafka_home import find_java

WORKER = Path(__file__).with_name("spark_worker.py")
PARTITIONS = 6
CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.python.unix.domain.socket.enabled": "true",
}
DRIVER_ROWS_MAX = 1_000_000
"""More than that in a batch no driver should collect."""
SMALL_ROWS = 10_000
"""Of batches of at most so many rows there are more, as each says little."""
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
"""Who writes, and whether rows have keys."""
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
    console.print(speeds(measured, options.contenders))
    console.print(phases(measured, options.contenders))
    if options.json:
        told_all = {"build": str(fencepost.build_info()), "spark": sparks.versions, "load": os.getloadavg(), "measured": measured}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(told_all)))
    return 0


def planned(options: argparse.Namespace) -> Iterator[tuple[int, int, str]]:
    """Rounds, sizes in each, contenders in each: neighbours in time are what ratios compare."""
    for number in range(1, options.rounds + 1):
        turn = number % len(options.contenders)
        for rows in options.rows:
            for name in options.contenders[turn:] + options.contenders[:turn]:
                if CONTENDERS[name][0] is not Contender.DRIVER or rows <= DRIVER_ROWS_MAX:
                    yield number, rows, name


def measure(sparks: Sparks, host: KafkaHost, topic: str, name: str, rows: int, options: argparse.Namespace) -> Told:
    """One query. RuntimeError where readers do not find what it wrote."""
    host.renew(topic, options.partitions)
    contender, keyed = CONTENDERS[name]
    told = sparks.run(
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
        )
    )
    found = committed(host.bootstrap, topic, options.partitions)
    if found != told.written:
        raise RuntimeError(f"{name}: a reader of committed records finds {found} of {told.written} rows")
    return told


class Sparks:
    """The two applications, each started when it is first needed. `versions`: those of pyspark."""

    def __init__(self, stack: ExitStack, options: argparse.Namespace, console: Console) -> None:
        self.versions: dict[str, str] = {}
        self._stack = stack
        self._conf = {**CONF, "spark.master": f"local[{options.cores}]", "spark.driver.memory": options.memory}
        self._same = options.same_spark
        self._console = console
        self._running: dict[bool, subprocess.Popen[str]] = {}

    def run(self, errand: Errand) -> Told:
        """Have the one do it that can."""
        theirs = self._same or errand.contender is Contender.SINK
        if theirs not in self._running:
            self._running[theirs] = self._start(theirs)
        return msgspec.json.decode(ask(self._running[theirs], errand), type=Told)

    def _start(self, theirs: bool) -> subprocess.Popen[str]:
        conf = dict(self._conf)
        # -P, and so for Spark's Python workers, which would find the checkout before the package that is installed.
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1", "JAVA_HOME": str(java_home())}
        environment.pop("SPARK_HOME", None)
        if theirs:
            home = spark_home()
            environment["PYTHONPATH"] = str(home / "python")
            conf["spark.jars"] = ",".join(map(str, sink_jars(home)))
        process = self._stack.enter_context(application(environment))
        whose = "all" if self._same else "Spark's sink" if theirs else "fencepost"
        self.versions[whose] = msgspec.json.decode(ask(process, Application(conf)), type=str)
        self._console.print(f"{whose}: pyspark {self.versions[whose]}")
        return process


@contextmanager
def application(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process of `spark_worker`. What it has to say of errors is shown where it ends with one."""
    with tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, "-P", str(WORKER)]
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
        raise RuntimeError("a Spark application ended; its last words are above")
    return answer


def tail(said: IO[str]) -> str:
    said.seek(0)
    return said.read()[-4000:]


def java_home() -> Path:
    return find_java().resolve().parent.parent


def parsed() -> Any:
    parser = argparse.ArgumentParser(prog="tests/bench/spark.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, to 10^6 rows; no real figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    parser.add_argument(
        "--rows", type=numbers, default=[1_000, 10_000, 100_000, 1_000_000, 5_000_000], metavar="NUMBERS", help="of a batch"
    )
    parser.add_argument("--contenders", type=names(CONTENDERS), default=USUAL, metavar="NAMES", help=f"of {','.join(CONTENDERS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2, help="batches of each query that do not count")
    parser.add_argument(
        "--batches", type=int, default=3, help=f"of each query that count; of {SMALL_ROWS} rows or fewer four times as many"
    )
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2, help="tasks that Spark runs at once")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of the topic")
    parser.add_argument("--slices", type=int, default=PARTITIONS, help="partitions of the source")
    parser.add_argument("--memory", default="2g", help="spark.driver.memory")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--batch-bytes", type=int, default=256 * 1024)
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument(
        "--same-spark", action="store_true", help="fencepost, too, on the pyspark of Spark's sink, where it lacks a thing or two"
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.rows = 1, [rows for rows in options.rows if rows <= 1_000_000]
    return options


if __name__ == "__main__":
    sys.exit(main())
