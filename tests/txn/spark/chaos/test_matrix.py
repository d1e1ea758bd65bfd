"""The whole matrix, on the stub and on Apache Kafka, with transactions of both versions: `make spark-chaos`.

Each row is a campaign of its own with a seed that is printed; `python -m tests.txn.spark.chaos.run` plays one of them again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.txn.spark.chaos.campaign import FULL, Report
from tests.txn.spark.chaos.plan import LEDGER, POINTS, TASKS
from tests.txn.spark.chaos.scenarios import driver_kills, executor_kills, lost_replies, python_failures, random_kills
from tests.txn.spark.chaos.site import Site, kafka_site, stub_site
from tests.txn.spark.chaos.zombies import frozen_driver, frozen_task, is_refused

pytestmark = [pytest.mark.skipif(not FULL, reason="part of make spark-chaos"), pytest.mark.timeout(3600)]

REPORTS: list[Report] = []
TRIES = 3
"""Runs, each with another seed, of what chance may leave undisturbed."""
GUARDS = pytest.mark.parametrize("guard", ["turns", "kafka-claims"])


@pytest.fixture(scope="module", params=["stub TV1", "stub TV2", "Kafka TV1", "Kafka TV2"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    broker, version = str(request.param).split(" TV")
    with (stub_site if broker == "stub" else kafka_site)(int(version)) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """All reports once more at the end."""
    yield
    print("", *(report.line() for report in REPORTS), sep="\n", flush=True)


@pytest.fixture
def seed() -> int:
    return random.SystemRandom().randrange(10**6)


def noted(report: Report, guard: str) -> Report:
    REPORTS.append(report)
    assert report.guards == (guard,), report.line()
    return report


def exact(report: Report, guard: str) -> Report:
    assert noted(report, guard).account.exact, report.line()
    return report


def telling(play: Callable[[int], Report], seed: int, shows: Callable[[Report], object]) -> Report:
    """The first run in which something happened of what it is about."""
    for attempt in range(TRIES):
        report = play(seed + attempt)
        if shows(report):
            return report
    raise AssertionError(f"{TRIES} runs showed nothing: {report.line()}")


def test_drivers_killed_at_each_point(site: Site, seed: int) -> None:
    """Each of the four ends is one that the next start makes good."""
    report = exact(driver_kills(site, POINTS, guard="turns", seed=seed), "turns")
    assert report.deaths == POINTS
    assert report.skipped == 1


def test_drivers_killed_at_random(site: Site, seed: int) -> None:
    """The driver is killed at any time."""
    report = exact(random_kills(site, 4, guard="turns", seed=seed), "turns")
    assert len(report.deaths) == 4


def test_answers_to_end_txn_lost(site: Site, seed: int) -> None:
    """What is committed is found out, by the driver or by its successor, and never written again."""
    exact(lost_replies(site, guard="turns", seed=seed), "turns")


@GUARDS
def test_tasks_raise(site: Site, guard: str, seed: int) -> None:
    """A task that failed may have written: the batch is written again."""
    telling(
        lambda seed: exact(python_failures(site, guard=guard, seed=seed), guard), seed, lambda report: min(report.raised, report.reruns) > 0
    )


@GUARDS
def test_executors_killed(site: Site, guard: str, seed: int) -> None:
    """3,120,000 rows; where Spark may start a stage again, it does, and the guard sees it."""
    report = telling(
        lambda seed: exact(executor_kills(site, guard=guard, seed=seed, kill_chance=0.03), guard),
        seed,
        lambda report: min(report.mid_produce, report.reattempts) > 0,
    )
    assert report.account.expected >= 3_000_000


def test_without_a_guard_rows_are_lost_and_doubled(site: Site, seed: int) -> None:
    """These tests can see what the guards prevent."""
    telling(
        lambda seed: noted(executor_kills(site, guard="off", seed=seed, kill_chance=0.03), "off"),
        seed,
        lambda report: report.account.lost and report.account.doubled,
    )


@GUARDS
def test_a_frozen_task(site: Site, guard: str) -> None:
    """The task continues after the rerun was committed, and is refused: by the broker, or with `turns` by the driver, which it asks
    first."""
    report, ended = frozen_task(site, guard=guard)
    exact(report, guard)
    assert is_refused(ended) or (guard == "turns" and ended["error"] == "AttemptConflict"), ended


@pytest.mark.parametrize("point", [TASKS, LEDGER])
def test_a_frozen_driver(site: Site, point: str) -> None:
    """Woken after its successor has committed the batch, it fails."""
    report, failed = frozen_driver(site, guard="turns", point=point)
    exact(report, "turns")
    assert failed["error"] == "SinkTakenOver", failed
