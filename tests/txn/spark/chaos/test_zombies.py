"""Tasks and drivers that come back: what they still send reaches the brokers, is refused, and is seen by nobody."""

from __future__ import annotations

import pytest

from tests.txn.spark.chaos.plan import LEDGER
from tests.txn.spark.chaos.site import stub_site
from tests.txn.spark.chaos.zombies import frozen_driver, frozen_task

FENCED = {47, 90}
"""INVALID_PRODUCER_EPOCH and PRODUCER_FENCED."""

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("transactions", [2, 1])
def test_a_task_that_wakes_after_the_rerun_is_refused(transactions: int) -> None:
    """A worker that slept while its batch was aborted and written again sends the rest of its rows, and the broker refuses them."""
    with stub_site(transactions) as site:
        report, ended = frozen_task(site, guard="status")
        refused = [each for each in site.journal("PRODUCE") if "INVALID_PRODUCER_EPOCH" in str(each["errors"])]
        print(ended, refused)
    assert report.account.exact, report.line()
    assert report.reruns > 0
    assert (ended["kind"], ended["code"] in FENCED) == ("failed", True), ended
    assert refused


def test_a_driver_that_wakes_after_its_successor_fails() -> None:
    """Of two drivers with one batch, the one that slept through the other's commit fails, and names why."""
    with stub_site(2) as site:
        report, failed = frozen_driver(site, guard="barrier", point=LEDGER)
    print(failed)
    assert report.account.exact, report.line()
    assert failed["error"] == "SinkTakenOver"
