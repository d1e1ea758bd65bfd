"""Random runs of producers before transaction version 2 against a reference model, on clusters of versions 0, 1 and 2."""

from __future__ import annotations

import pytest

from tests.txn_walk.rows import missing
from tests.txn_walk.runs import ENOUGH, seeds, walk
from tests.txn_walk.summary import WALKED, record


@pytest.mark.timeout(7200)
def test_committed_records_are_read_and_no_others(record_property: WALKED) -> None:
    """Whatever happens to producers, coordinators, leaders, requests and answers: what is read as committed is what was committed, all of
    each transaction or nothing, once and in order; nobody waits forever; no identity is given twice. Every row that says what happens to
    whom is come by."""
    came = walk("TV1", seeds())
    record(record_property, "TV1", came)
    if came.runs >= ENOUGH:
        assert missing("TV1", came.rows) == []
