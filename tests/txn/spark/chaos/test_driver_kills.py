"""Drivers that are killed between two steps of the protocol, and started again: each row is there once, and nothing stays open."""

from __future__ import annotations

import pytest

from tests.txn.spark.chaos.campaign import STORY
from tests.txn.spark.chaos.plan import END_TXN, LEDGER
from tests.txn.spark.chaos.scenarios import driver_kills
from tests.txn.spark.chaos.site import stub_site

pytestmark = [pytest.mark.timeout(600), STORY]


def test_driver_killed_on_the_stub() -> None:
    """A driver that is killed before EndTxn is answered has written nothing that readers see, and its batch is replayed. After EndTxn is
    answered it has written everything, and the replay is skipped."""
    points = [LEDGER, END_TXN]
    with stub_site(2) as site:
        report = driver_kills(site, points, guard="turns")
    assert list(report.deaths) == points
    assert report.skipped == 1
    assert report.account.exact, report.line()
