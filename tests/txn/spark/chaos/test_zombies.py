"""Tasks and drivers that come back: brokers refuse their late requests, and readers see nothing of them."""

from __future__ import annotations

import pytest

from tests.txn.spark.chaos.campaign import STORY
from tests.txn.spark.chaos.plan import END_TXN, LEDGER
from tests.txn.spark.chaos.site import kafka_site, stub_site
from tests.txn.spark.chaos.zombies import frozen_driver, frozen_task, is_refused

pytestmark = [pytest.mark.timeout(600), STORY]


def test_a_task_that_wakes_after_the_rerun_is_refused() -> None:
    """A worker that slept while its batch was aborted and written again sends the rest of its rows, and the broker refuses them."""
    with stub_site(2) as site:
        report, ended = frozen_task(site, guard="kafka-claims")
        refused = [each for each in site.journal("PRODUCE") if "INVALID_PRODUCER_EPOCH" in str(each["errors"])]
    assert report.reruns > 0
    assert is_refused(ended), ended
    assert refused
    assert report.account.exact, report.line()


def test_a_driver_that_wakes_after_its_successors_fails_on_kafka() -> None:
    """A driver slept before its EndTxn; its successor commits the batch and is killed right after that; the next one skips it. Woken, the
    first one is refused, and says that another driver has the sink."""
    with kafka_site(2) as site:
        report, failed = frozen_driver(site, guard="turns", point=LEDGER, successor=END_TXN)
    assert failed["error"] == "SinkTakenOver"
    assert report.skipped == 1
    assert report.account.exact, report.line()
