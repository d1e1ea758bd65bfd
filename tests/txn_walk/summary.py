"""The closing table of the random runs of transactions: how often each row of Kafka's tables decided, by level.

The topmost conftest registers this module, because with several workers the printing process loads no other conftest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.txn_walk.rows import ROWS, UNREACHED

if TYPE_CHECKING:
    from tests.txn_walk.runs import Came

WALKED = Callable[[str, object], None]
PROPERTY = "transactions walked"
NO_ROW = "-"


def record(record_property: WALKED, level: str, came: Came) -> None:
    """Keep the counts for the table."""
    record_property(PROPERTY, (level, came.first, came.runs, dict(came.rows)))


def report(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per row, with a column for each level."""
    walked = {
        value[0]: value[1:]
        for reports in terminalreporter.stats.values()
        for each in reports
        for name, value in getattr(each, "user_properties", ())
        if name == PROPERTY
    }
    if not walked:
        return
    levels = sorted(walked)
    terminalreporter.section("random runs of transactions: how often each row of the coordinator's tables decided")
    for level in levels:
        first, runs, _ = walked[level]
        terminalreporter.write_line(f"{level}: {runs} runs, seeds {first} to {first + runs - 1}")
    for row in sorted({row for level in levels for row in ROWS[level]}):
        columns = [str(_count(walked[level][2], level, row)) for level in levels]
        why = f"   {UNREACHED[row]}" if row in UNREACHED else ""
        terminalreporter.write_line(f"{row:<4}" + "".join(f"{column:>9}" for column in columns) + why)


def _count(rows: dict[str, int], level: str, row: str) -> int | str:
    """How often the row decided. A row that decides nothing about producers of that level may still decide about other producers, or about
    an abort.
    """
    count = rows.get(row, 0)
    return count if count or row in ROWS[level] else NO_ROW
