"""An executor that is killed while its tasks write, with several produce batches of one size for each partition: each row is there once."""

from __future__ import annotations

import pytest

from tests.txn.spark.chaos.campaign import STORY
from tests.txn.spark.chaos.plan import Strike
from tests.txn.spark.chaos.scenarios import executor_kills
from tests.txn.spark.chaos.site import stub_site

pytestmark = [pytest.mark.timeout(600), STORY]


@pytest.mark.parametrize("guard", ["turns", "kafka-claims"])
def test_an_executor_killed_in_the_middle_of_what_it_writes(guard: str) -> None:
    """Spark starts its tasks again, some of them under the number 0; the guard notices, and the batch is aborted and written again."""
    with stub_site(2) as site:
        report = executor_kills(site, guard=guard, seed=0, batches=2, rows=24_000, strikes=[Strike(what="kill", batch=1, task=2)])
    assert report.guards == (guard,)
    assert (report.kills, report.mid_produce) == (1, 1)
    assert report.reattempts + report.retries > 0
    assert report.reruns > 0
    assert report.account.exact, report.line()
