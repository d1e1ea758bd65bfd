"""`make bench-compare BASE=REVISION`: is this build slower than another one?

Both builds run alternately on the same brokers. Each round measures every row with both builds, one right after the other, in an order that
changes from round to round. A ratio compares two measurements of one round. The table has the median of the ratios and their 95 % interval
(Student's t on the logarithms). A row is worse if its whole interval is beyond 5 %. Then the exit code is 1. The Python of a build's
environment names the build, and the workers of that checkout drive it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Final, TypeVar

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench.hosts import Host, KafkaHost, StubHost
from tests.bench.load import Contender, Figures, Load, Scenario
from tests.bench.run import CONTENDERS, OUTPUT_WIDTH, ask, names
from tests.bench.transaction_worker import PARTITIONS, Found, Work
from tests.bench.transaction_worker import Contender as Committer

HERE: Final = Path(__file__).resolve().parents[2]
TOLERATED: Final = 0.05
T_95: Final = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t for a two-sided 95 % interval, by degrees of freedom from 1. After the last one it hardly changes."""

ROWS: Final = tuple(
    (contender, scenario)
    for contender, scenarios in {
        "futures": (Scenario.ONE, Scenario.FOUR, Scenario.LONE),
        "callbacks": (Scenario.ONE,),
        "many": (Scenario.ONE, Scenario.MEMORY),
        "arrow": (Scenario.ONE, Scenario.MEMORY),
    }.items()
    for scenario in scenarios
)
FIGURES: Final[dict[str, tuple[Callable[[Figures], float | None], bool]]] = {
    "call, room left": (lambda figures: figures.burst_us, False),
    "acked records/s": (lambda figures: figures.acked_per_s, True),
    "CPU per record": (lambda figures: figures.cpu_ns, False),
    "p50": (lambda figures: figures.p50_us, False),
    "memory": (lambda figures: figures.grown_bytes, False),
}
FOUND: Final[dict[str, tuple[Callable[[Found], float], bool]]] = {
    "committed records/s": (lambda found: found.records_per_s, True),
    "CPU per record": (lambda found: found.cpu_ns, False),
}
"""The compared figures, and whether more is better."""
FOUND_OF_TEN: Final[dict[str, tuple[Callable[[Found], float], bool]]] = {
    **FOUND,
    "p50 of a transaction": (lambda found: found.p50_ms, False),
}
"""If a transaction lasts for so many milliseconds, the faster build has more records to commit, so its commit takes longer."""


T = TypeVar("T")


class Build(msgspec.Struct, frozen=True):
    """An installed build, and the checkout from which it was made."""

    name: str
    home: Path

    @property
    def python(self) -> Path:
        return self.home / ".venv" / "bin" / "python"

    def ask(self, worker: str, work: msgspec.Struct) -> bytes:
        """Run one of the build's workers. Raises RuntimeError if it fails."""
        return ask(self.home / "tests" / "bench" / worker, work, f"{self.name}: {worker}", python=str(self.python))


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one row: this build's value as a multiple of the other's, in each round."""

    broker: str
    row: str
    figure: str
    more_is_better: bool
    ratios: list[float]

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the ratio."""
        logarithms = [math.log(ratio) for ratio in self.ratios]
        if len(logarithms) < 2:
            return 0.0, math.inf
        reach = T_95[min(len(logarithms) - 2, len(T_95) - 1)] * stdev(logarithms) / math.sqrt(len(logarithms))
        return math.exp(fmean(logarithms) - reach), math.exp(fmean(logarithms) + reach)

    @property
    def worse(self) -> bool:
        """Whether the whole interval is worse than the tolerance."""
        low, high = self.interval
        return high < 1 / (1 + TOLERATED) if self.more_is_better else low > 1 + TOLERATED


def main() -> int:
    """Measure and print. Return 1 if a row is worse."""
    options = parsed()
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH)
    builds = (Build("this build", HERE), Build("base", options.base.resolve()))
    ratios: dict[tuple[str, str, str, bool], list[float]] = {}
    for name in options.brokers:
        host: Host = {"stub": StubHost, "kafka": KafkaHost}[name]()
        with host:
            for number, row, figures in measured(host, builds, options):
                console.print(f"{host.name}, round {number}: {row}", highlight=False)
                for figure, (more_is_better, ours, theirs) in figures.items():
                    if number:
                        ratios.setdefault((host.name, row, figure, more_is_better), []).append(ours / theirs)
    if options.stub:
        for number, ours, theirs in stubs(builds, options):
            console.print(f"the stub under confluent-kafka, round {number}", highlight=False)
            if number:
                ratios.setdefault(("stub of either build", Contender.CONFLUENT.value, "acked records/s", True), []).append(ours / theirs)
    rows = [
        Compared(broker=broker, row=row, figure=figure, more_is_better=more, ratios=found)
        for (broker, row, figure, more), found in ratios.items()
    ]
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))
    return judged(console, rows)


def judged(console: Console, rows: list[Compared]) -> int:
    """Print the rows. Return 1 if one of them is worse."""
    console.print(table(rows))
    worse = [row for row in rows if row.worse]
    console.print(f"{len(worse)} of {len(rows)} rows are worse by more than {TOLERATED:.0%}")
    return int(bool(worse))


def measured(
    host: Host, builds: tuple[Build, Build], options: argparse.Namespace
) -> Iterator[tuple[int, str, dict[str, tuple[bool, float, float]]]]:
    """Measure every row in every round. Each result has the round, the row's name and, for each figure, whether more is better, this
    build's value and the other's.

    Round 0 is a warm-up.
    """
    for number in range(options.rounds + 1):
        turn = builds if number % 2 else builds[::-1]
        for contender, scenario in ROWS:
            if contender in options.contenders:
                figures = {build.name: send(host, build, CONTENDERS[contender], scenario, options) for build in turn}
                yield number, f"{CONTENDERS[contender].value}; {scenario.value}", in_pairs(figures, FIGURES)
        for committer in (Committer.SEND, Committer.MANY) if options.transactions else ():
            for interval_ms in (10, 100, 0):
                found = {build.name: commit(host, build, committer, interval_ms, options) for build in turn}
                every = f"a commit every {interval_ms} ms" if interval_ms else "ten records"
                yield number, f"{committer.value}; {every}", in_pairs(found, FOUND if interval_ms else FOUND_OF_TEN)


def in_pairs(
    measured: Mapping[str, T], figures: Mapping[str, tuple[Callable[[T], float | None], bool]]
) -> dict[str, tuple[bool, float, float]]:
    pairs = {}
    for figure, (read, more_is_better) in figures.items():
        ours, theirs = read(measured["this build"]), read(measured["base"])
        if ours is not None and theirs is not None and ours > 0 and theirs > 0:
            pairs[figure] = (more_is_better, ours, theirs)
    return pairs


def send(host: Host, build: Build, contender: Contender, scenario: Scenario, options: argparse.Namespace) -> Figures:
    """One build's figures of one sending row."""
    host.renew(topic := fresh(), PARTITIONS)
    return msgspec.json.decode(build.ask("worker.py", load(host, topic, contender, scenario, options)), type=Figures)


def load(host: Host, topic: str, contender: Contender, scenario: Scenario, options: argparse.Namespace) -> Load:
    lone, memory = scenario is Scenario.LONE, scenario is Scenario.MEMORY
    return Load(
        contender=contender,
        scenario=scenario,
        bootstrap=host.bootstrap,
        topic=topic,
        records=options.records,
        burst=100_000,
        bursts=7,
        partitions=PARTITIONS,
        key_bytes=12,
        value_bytes=100,
        linger_ms=0.0 if lone else 5.0,
        batch_bytes=256 * 1024,
        buffer_bytes=(32 if memory else 64) * 1024 * 1024,
    )


def commit(host: Host, build: Build, contender: Committer, interval_ms: int, options: argparse.Namespace) -> Found:
    """One build's figures of one row of transactions."""
    host.renew(topic := fresh(), PARTITIONS)
    work = Work(
        contender=contender,
        bootstrap=host.bootstrap,
        topic=topic,
        interval_ms=interval_ms,
        seconds=options.seconds,
        commits=options.commits,
    )
    return msgspec.json.decode(build.ask("transaction_worker.py", work), type=Found)


def stubs(builds: tuple[Build, Build], options: argparse.Namespace) -> Iterator[tuple[int, float, float]]:
    """Both builds' stubs under confluent-kafka: acknowledged records/s on this build's stub and on the other's."""
    for number in range(options.rounds + 1):
        speeds = {}
        for build in builds if number % 2 else builds[::-1]:
            with StubHost(build.python) as host:
                speeds[build.name] = send(host, builds[0], Contender.CONFLUENT, Scenario.ONE, options).acked_per_s
        yield number, speeds["this build"], speeds["base"]


_topics = iter(range(10**9))


def fresh() -> str:
    """A topic name that no measurement has used yet."""
    return f"compare-{next(_topics)}"


def table(rows: list[Compared]) -> Table:
    shown = Table(title="this build as a multiple of the base: median of the ratios, and 95 % interval", title_justify="left")
    for heading in ("broker", "row", "figure", "ratio", "interval", ""):
        shown.add_column(heading)
    for row in rows:
        low, high = row.interval
        shown.add_row(
            row.broker, row.row, row.figure, f"×{median(row.ratios):.2f}", f"{low:.2f} to {high:.2f}", "WORSE" if row.worse else ""
        )
    return shown


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/compare.py", description=__doc__)
    parser.add_argument("--base", type=Path, required=True, metavar="DIR", help="a checkout of the other revision, after `make`")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="for how many seconds each contender commits transactions")
    parser.add_argument("--commits", type=int, default=300, help="how many transactions of ten records")
    parser.add_argument("--brokers", type=names({"stub": 0, "kafka": 0}), default=["stub", "kafka"], metavar="NAMES", help="of stub,kafka")
    ours = {contender: CONTENDERS[contender] for contender, _ in ROWS}
    parser.add_argument("--contenders", type=names(ours), default=list(ours), metavar="NAMES", help=f"of {','.join(ours)}")
    parser.add_argument("--no-transactions", dest="transactions", action="store_false")
    parser.add_argument("--no-stub", dest="stub", action="store_false", help="leave out the stubs of both builds under confluent-kafka")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every ratio to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
