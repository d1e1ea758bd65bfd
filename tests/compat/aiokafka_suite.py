"""Runs the tests of aiokafka and of FastStream twice, with aiokafka's producer and with `fencepost.compat.aiokafka`, and compares.

    make compat-aiokafka AIOKAFKA=CHECKOUT FASTSTREAM=CHECKOUT
    python -P tests/compat/aiokafka_suite.py --aiokafka CHECKOUT --faststream CHECKOUT

Only the import of AIOKafkaProducer is exchanged, and what starts Kafka in a container. It needs aiokafka, and what the tests of a checkout
need, in the environment. For aiokafka's tests `--kafka HOST:PORT HOST:PORT` uses two Kafkas instead of the stub: one for each side, because
both make the same topics. FastStream's expect port 9092.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from fencepost import BrokerStub
from tests.compat.side_by_side import HERE, SIDES, Case, Run, run_pytest

AIOKAFKA_FILES: Final = (
    "test_producer.py",
    "test_transactional_producer.py",
    "test_transactional_consumer.py",
    "test_sasl.py",
    "test_consumer.py",
    "test_admin.py",
)
"""The files whose tests make producers."""
FASTSTREAM_PLACES: Final = (
    "tests/brokers/kafka",
    "tests/prometheus/kafka",
    "tests/opentelemetry/kafka",
    "tests/docs/kafka",
    "tests/asgi/kafka",
)
FASTSTREAM_PORT: Final = 9092


@contextmanager
def aiokafka_tests(checkout: Path) -> Iterator[Path]:
    """A copy of aiokafka's tests, with our fixtures."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(checkout / "tests", Path(place, "tests"))
        shutil.copy(HERE / "aiokafka_conftest.py", Path(place, "tests", "conftest.py"))
        Path(place, "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nmarkers = ssl\n")
        yield Path(place)


def run_aiokafka(checkout: Path, side: str, kafka: str | None, more: list[str]) -> Run:
    with aiokafka_tests(checkout) as place:
        files = [f"tests/{name}" for name in AIOKAFKA_FILES if (kafka is None or name != "test_sasl.py")]
        return run_pytest(place, side, [*files, *more], **({"FENCEPOST_KAFKA_BOOTSTRAP": kafka} if kafka else {}))[0]


def run_faststream(checkout: Path, side: str, more: list[str]) -> Run:
    with BrokerStub(port=FASTSTREAM_PORT):
        places = [name for name in FASTSTREAM_PLACES if (checkout / name).exists()]
        arguments = ["-p", "aiokafka_patch", "-p", "no:fencepost", "-m", "kafka and not slow", *places, *more]
        return run_pytest(checkout, side, arguments, path=[str(checkout)])[0]


def table(name: str, runs: Mapping[str, Run]) -> Iterator[str]:
    """The scores side by side, and each test that passes on one side only."""
    files = sorted({case.file for run in runs.values() for case in run.values()} - {""})
    yield f"\n{name:<52}" + "".join(f"{side + ': passed failed skipped':>34}" for side in SIDES)
    for file in (*files, ""):
        scores = (Counter(case.outcome for case in runs[side].values() if file in ("", case.file)) for side in SIDES)
        row = "".join(f"{score['passed']:>18}{score['failed']:>8}{score['skipped']:>8}" for score in scores)
        yield f"{file or 'all':<52}{row}"
    for one, other in (SIDES, SIDES[::-1]):
        passed = {test for test, case in runs[one].items() if case.outcome == "passed"}
        only = sorted(test for test in passed if runs[other].get(test, Case("", "missing", "")).outcome != "passed")
        yield f"\n{len(only)} pass only with {one}:"
        for test in only:
            words = runs[other][test].words if test in runs[other] else "missing"
            yield f"  {test}: {words.strip().splitlines()[0][:150] if words.strip() else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aiokafka", type=Path, help="a checkout of aiokafka")
    parser.add_argument("--faststream", type=Path, help="a checkout of FastStream")
    parser.add_argument("--kafka", nargs=2, default=[None] * 2, metavar=SIDES, help="host:port of Kafkas to use instead of the stub")
    parser.add_argument("more", nargs="*", help="more arguments for pytest, after --")
    given = parser.parse_args()
    if given.aiokafka is None and given.faststream is None:
        parser.error("give --aiokafka, --faststream or both")
    if given.aiokafka is not None:
        runs = {side: run_aiokafka(given.aiokafka, side, kafka, given.more) for side, kafka in zip(SIDES, given.kafka, strict=True)}
        print("\n".join(table("aiokafka", runs)), flush=True)
    if given.faststream is not None:
        runs = {side: run_faststream(given.faststream, side, given.more) for side in SIDES}
        print("\n".join(table("FastStream", runs)), flush=True)


if __name__ == "__main__":
    main()
