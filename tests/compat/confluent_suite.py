"""Runs other projects' tests twice, on their producer and on ours, and prints the scores side by side.

    python -P tests/compat/confluent_suite.py --confluent CHECKOUT --faststream CHECKOUT

Nothing in a checkout is changed: `confluent_patch` replaces the names that their tests import. The stub is their broker; with `--kafka`
it is Apache Kafka. FastStream's tests expect it at localhost:9092.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from fencepost import BrokerStub
from tests.compat.side_by_side import OUTCOMES, SIDES, run_pytest
from tests.conformance.kafka import KafkaCluster


class Suite(NamedTuple):
    """Tests of a checkout. `port`: where they expect a broker; 0 for none, -1 for the address in BROKERS. `timeout`: seconds for each."""

    title: str
    project: str
    arguments: tuple[str, ...]
    port: int = 0
    timeout: int = 60


SUITES: Final = (
    Suite("confluent-kafka: Producer", "confluent", ("tests/test_Producer.py",)),
    Suite("confluent-kafka: logging", "confluent", ("tests/test_log.py", "-k", "producer or constructor")),
    Suite("confluent-kafka: callbacks, credentials", "confluent", ("tests/test_misc.py",)),
    Suite("confluent-kafka: threads", "confluent", ("tests/test_threads.py",)),
    Suite("confluent-kafka: Ctrl-C", "confluent", ("tests/test_Wakeable.py", "-k", "producer"), timeout=400),
    Suite("confluent-kafka: integration", "confluent", ("tests/integration/producer",), port=-1),
    Suite("confluent-kafka: serializers", "confluent", ("tests/integration/serialization",), port=-1),
    Suite("FastStream: confluent broker", "faststream", ("tests/brokers/confluent",), port=9092),
    Suite("FastStream: telemetry, metrics", "faststream", ("tests/opentelemetry/confluent", "tests/prometheus/confluent"), port=9092),
    Suite("FastStream: documentation", "faststream", ("tests/docs/confluent",), port=9092),
)


class Score(NamedTuple):
    """What became of a suite's tests. `ended`: pytest came to the end."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: int
    ended: bool

    def __str__(self) -> str:
        early = "" if self.ended else ", ended early"
        return f"{len(self.passed)} of {len(self.passed) + len(self.failed)}{early}"


def run(suite: Suite, checkout: Path, side: str, broker: str, options: argparse.Namespace) -> Score:
    """Run a suite with one side's producer."""
    with tempfile.TemporaryDirectory() as directory:
        count = Path(directory, "count")
        arguments = ["-p", "confluent_patch", f"--timeout={suite.timeout}", *suite.arguments, *options.pytest.split()]
        variables = {"BROKERS": broker, "FENCEPOST_COMPAT_COUNT": str(count)}
        cases, code = run_pytest(checkout, side, arguments, python=options.python, path=[str(checkout), options.ours], **variables)
        made = int(count.read_text())
    if (made > 0) is not (side == "ours"):
        sys.exit(f"{suite.title}, {side}: {made} producers of ours were made")
    passed, failed, skipped = (frozenset(name for name, case in cases.items() if case.outcome == each) for each in OUTCOMES)
    return Score(passed, failed, len(skipped), code in (0, 1))


@contextmanager
def broker_for(suite: Suite, *, kafka: bool) -> Iterator[str]:
    """The address of a new broker for the suite."""
    if suite.port == 0:
        yield ""
    elif kafka:
        cluster = KafkaCluster()
        try:
            yield cluster.start().bootstrap
        finally:
            cluster.close()
    else:
        with BrokerStub(port=max(suite.port, 0)) as stub:
            yield stub.bootstrap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--confluent", type=Path, help="a checkout of confluent-kafka-python")
    parser.add_argument("--faststream", type=Path, help="a checkout of FastStream")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with what their tests need, and confluent-kafka")
    parser.add_argument("--ours", default="", help="where it finds fencepost, if that is not installed there")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka instead of the stub, where the tests take an address")
    parser.add_argument("--only", default="", help="suites with this in their title")
    parser.add_argument("--pytest", default="", help="more arguments for pytest")
    options = parser.parse_args()
    print(f"{'suite':42} {'theirs':>24} {'ours':>24}   skipped")
    worse = False
    for suite in SUITES:
        checkout: Path | None = getattr(options, suite.project)
        if checkout is None or options.only not in suite.title:
            continue
        scores: dict[str, Score] = {}
        for side in SIDES:
            with broker_for(suite, kafka=options.kafka and suite.port < 0) as address:
                scores[side] = run(suite, checkout.resolve(), side, address, options)
        theirs, ours = scores["theirs"], scores["ours"]
        print(f"{suite.title:42} {theirs!s:>24} {ours!s:>24}   {theirs.skipped}, {ours.skipped}")
        for name in sorted(ours.failed):
            print(f"    {'fails on both' if name in theirs.failed else 'fails on ours'}: {name}")
        worse |= bool(ours.failed - theirs.failed)
        sys.stdout.flush()
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
