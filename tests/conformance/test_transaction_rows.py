"""A raw-request case reaches every row of Kafka's tables about transactions that one broker can reach. The run ends with the table.

Each decision of the stub names its row, so the stub tells which rows a case reaches. `test_conformance` and `test_transaction_levels` check
the answers of Kafka and of the stub.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from fencepost.broker_stub.transactions import end_table, init_and_add_table, states
from tests.conformance.answers import load_cases
from tests.conformance.cases import transaction_ends
from tests.conformance.targets import stub_for
from tests.conformance.transaction_levels import cases
from tests.conformance.world import Case, play
from tests.marker_rows import markers_counted
from tests.once import once_is_enough

TABLES: Final = {"I": 9, "A": 6, "E": 7, "F": 8, "M": 8}
"""InitProducerId, AddPartitionsToTxn, EndTxn before transaction version 2 and from it on, markers: by the number of their rows."""

ROWS: Final = [f"{letter}{number}" for letter, count in TABLES.items() for number in range(1, count + 1)]

_PENDING: Final = "only while a record of the coordinator is on its way to its followers"
_ENDING: Final = "only while markers are on their way to their partitions"
NOT_ON_ONE_BROKER: Final = {**dict.fromkeys(("I1", "A1", "E3", "F1"), _PENDING), **dict.fromkeys(("I3", "A4", "E6", "F5"), _ENDING)}
"""tests/broker_stub/transactions/test_coordinators.py reaches these rows, on clusters with severed connections."""


def rows_of(case: Case, *, level: int | None) -> set[str]:
    """Run the case on the stub, and return the rows that decide something in it."""
    hit: Counter[str] = Counter()
    with markers_counted(hit), stub_for(case, transaction_version=level) as target:
        target.stub.services.transactions.decided = lambda decision: hit.update((decision.row,))
        play(case, target)
    return set(hit).intersection(ROWS)


def reached(asked: list[Case], *, level: int | None = None) -> dict[str, set[str]]:
    """By row, the cases that reach it."""
    found: dict[str, set[str]] = {row: set() for row in ROWS}
    for case in asked:
        hit = rows_of(case, level=level)
        claimed = hit.union(case.rows).intersection(ROWS) - hit
        assert level is not None or not claimed, f"{case.name} does not reach the rows {sorted(claimed)}"
        for row in hit:
            found[row].add(case.name)
    return found


@pytest.fixture
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs end after a hundred, which changes no row. On Kafka the other tests wear out all of them."""
    monkeypatch.setattr(transaction_ends, "LAST_EPOCH", 100)
    for module in (states, init_and_add_table, end_table):
        monkeypatch.setattr(module, "EPOCH_EXHAUSTED", 100)


@once_is_enough("says which questions there are")
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("few_epochs")
def test_every_row_has_a_case(record_property: Callable[[str, object], None]) -> None:
    """At transaction.version 2 and 0, a row without a case has a reason, and each case reaches the rows that it names."""
    now = reached([case for case in load_cases().values() if case.area.startswith("transaction") and not case.older])
    before = reached([case for case in cases(0) if case.area.startswith("transaction")], level=0)
    record_property("transaction_rows", [(row, len(now[row]), len(before[row]), NOT_ON_ONE_BROKER.get(row, "")) for row in ROWS])
    assert {row for row in ROWS if not now[row]} == set(NOT_ON_ONE_BROKER)
