"""Drivers that are killed between two steps of the protocol, and started again: each row is there once, and nothing stays open."""

from __future__ import annotations

import pytest

from tests.txn.spark.chaos.plan import END_TXN, LEDGER
from tests.txn.spark.chaos.scenarios import driver_kills
from tests.txn.spark.chaos.site import stub_site

pytestmark = pytest.mark.timeout(600)


def test_driver_killed_on_the_stub() -> None:
    """Once its ledger record is acknowledged, a killed driver has written nothing that anybody sees, and is replayed; once EndTxn is
    answered, it has written all of it, and its replay is skipped."""
    points = [LEDGER, END_TXN]
    with stub_site(2) as site:
        report = driver_kills(site, points, guard="barrier")
    assert list(report.deaths) == points
    assert report.skipped == 1
    assert report.account.exact, report.line()
