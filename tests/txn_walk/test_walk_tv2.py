"""Random runs of producers of transaction version 2 (KIP-890) against a reference model."""

from __future__ import annotations

import pytest

from tests.txn_walk.runs import check
from tests.txn_walk.summary import WALKED


@pytest.mark.timeout(7200)
def test_committed_records_are_read_and_no_others(record_property: WALKED) -> None:
    """Every run keeps the promises in the docstring of `check`."""
    check("TV2", record_property)
