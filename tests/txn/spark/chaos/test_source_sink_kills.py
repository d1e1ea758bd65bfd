"""A query from topic to topic through `format("fencepost")` whose executors and drivers are killed: each row is there once."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.txn.spark.chaos.campaign import FULL, STORY, Report
from tests.txn.spark.chaos.plan import POINTS, TASKS, Strike
from tests.txn.spark.chaos.site import Site, kafka_site, stub_site
from tests.txn.spark.chaos.source_sink import source_sink_kills

pytestmark = pytest.mark.timeout(3600 if FULL else 600)


@STORY
def test_an_executor_and_a_driver_killed_on_the_stub() -> None:
    """An executor in the middle of what it writes: the query fails, and writes the batch when it is started again. A driver between the
    tasks' end and the commit: so does its successor."""
    with stub_site(2) as site:
        report = source_sink_kills(
            site,
            deaths=[(TASKS, 1)],
            strikes=[Strike(what="kill", batch=0, task=0)],
            keyed=False,
            batches=2,
            rows=6_000,
            partitions=2,
            # The smallest number of processes for this test.
            from_topic=False,
            master="local-cluster[1,2,1024]",
            last="local[2]",
            conf={"spark.task.maxFailures": "2"},
        )
    assert report.deaths == (TASKS,)
    assert (report.kills, report.mid_produce) == (1, 1)
    exact(report)


@pytest.fixture(params=["stub TV1", "stub TV2", "Kafka TV1", "Kafka TV2"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    broker, version = str(request.param).split(" TV")
    with (stub_site if broker == "stub" else kafka_site)(int(version)) as made:
        yield made


@pytest.mark.skipif(not FULL, reason="part of make spark-chaos")
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "keyless"])
def test_executors_and_drivers_killed(site: Site, keyed: bool) -> None:
    """A driver at each of the four points, and an executor in every other batch, with and without its workers; where rows are routed, under
    stages that Spark starts again."""
    strikes = [Strike(what=what, batch=2 * number, task=number) for number, what in enumerate(["kill", "lose", "kill", "lose"])]
    report = source_sink_kills(
        site,
        deaths=[(point, 2 * number + 1) for number, point in enumerate(POINTS)],
        strikes=strikes,
        keyed=keyed,
        batches=9,
        rows=60_000,
        partitions=12 if keyed else 4,
        seed=random.SystemRandom().randrange(10**6),
    )
    assert report.deaths == POINTS
    assert report.kills == len(strikes)
    assert report.mid_produce > 0, f"showed nothing: {report.line()}"
    assert report.skipped == 1, f"showed nothing: {report.line()}"
    exact(report)


def exact(report: Report) -> None:
    assert report.guards == ("kafka-claims",), report.line()
    assert report.account.exact, report.line()
