"""The closing tables of the conformance tests.

One shows for each area how many cases each broker answers as recorded. The other shows how many cases reach each row of Kafka's tables
about transactions. The topmost conftest registers this module, because with several workers the printing process loads no other conftest.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest


def report(terminalreporter: pytest.TerminalReporter) -> None:
    """Both tables, for the tests that ran."""
    _areas(terminalreporter)
    _transaction_rows(terminalreporter)


def _transaction_rows(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per row: how many cases reach it at transaction.version 2 and 0, or why no case can."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in getattr(report, "user_properties", []):
            if name == "transaction_rows":
                terminalreporter.section("transactions by raw requests, to Kafka and to the stub: cases by the row that decides")
                terminalreporter.write_line(f"{'row':<6}{'transaction.version 2':>24}{'0':>6}")
                for row, now, before, reason in value:
                    terminalreporter.write_line(f"{row:<6}{now:>24}{before:>6}   {reason}".rstrip())


def _areas(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per area: how many cases and answers it has, and how many cases each broker answers as recorded."""
    rows: dict[str, Row] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            for broker, area, answers, gaps in _played(report):
                rows.setdefault(area, Row()).add(broker, outcome, answers, gaps)
    if not rows:
        return
    total = Row()
    for row in rows.values():
        total += row
    terminalreporter.section("conformance with Apache Kafka 4.3.1, case by case")
    terminalreporter.write_line(f"{'area':<16}{'cases':>6}{'answers':>9}   {'Kafka as recorded':<24}stub as Kafka")
    for area, row in [*sorted(rows.items()), ("all", total)]:
        terminalreporter.write_line(f"{area:<16}{row.cases:>6}{row.answers:>9}   {row.say('kafka'):<24}{row.say('stub')}")


class Row:
    """The results of one area."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.counted: Counter[str] = Counter()
        self.gaps = 0

    def add(self, broker: str, outcome: str, answers: int, gaps: int) -> None:
        self.outcomes[broker, outcome] += 1
        self.counted[broker] += answers
        self.gaps += gaps

    def __iadd__(self, other: Row) -> Row:
        self.outcomes += other.outcomes
        self.counted += other.counted
        self.gaps += other.gaps
        return self

    @property
    def cases(self) -> int:
        return max(sum(count for (which, _), count in self.outcomes.items() if which == broker) for broker in ("kafka", "stub"))

    @property
    def answers(self) -> int:
        return max(self.counted.values())

    def say(self, broker: str) -> str:
        words = {"passed": "alike", "failed": "DIFFERENT", "error": "BROKEN", "skipped": "skipped"}
        said = [f"{self.outcomes[broker, outcome]} {word}" for outcome, word in words.items() if self.outcomes[broker, outcome]]
        if broker == "stub" and self.gaps:
            said.append(f"{self.gaps} answers known to differ")
        return ", ".join(said) or "not asked"


def _played(report: Any) -> list[tuple[str, str, int, int]]:
    return [value for name, value in getattr(report, "user_properties", []) if name == "conformance"]
