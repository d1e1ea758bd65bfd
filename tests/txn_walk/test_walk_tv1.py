"""Random runs of producers before transaction version 2 against a reference model, on clusters of versions 0, 1 and 2."""

from __future__ import annotations

import pytest

from tests.txn_walk.runs import check
from tests.txn_walk.summary import WALKED


@pytest.mark.timeout(7200)
def test_committed_records_are_read_and_no_others(record_property: WALKED) -> None:
    """Every run keeps the promises in the docstring of `check`."""
    check("TV1", record_property)
