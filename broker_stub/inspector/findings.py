"""What went wrong, or nearly did, in a moment of a cluster: every finding, the worst first."""

from __future__ import annotations

from typing import Final

from fencepost.broker_stub.inspector import exchange_findings
from fencepost.broker_stub.inspector.aborted import aborted
from fencepost.broker_stub.inspector.finding import BAD, NOTE, WARNING, Data
from fencepost.broker_stub.inspector.log_findings import LONG_OPEN_MS, gone, held_back, partitions, sent_twice, unanswered, unavailable
from fencepost.broker_stub.inspector.rows import Row

FINDINGS_MAX: Final = 100


def findings(snapshot: Data, rows: list[Row], *, at_end: bool = False) -> list[Data]:
    """Of that snapshot and the exchanges before it. `at_end`: of a test that failed. A transaction that is open then is a finding, however
    short that is: the test may have forgotten its end."""
    replicas = {place: len(part["replicas"]) for place, part in partitions(snapshot).items()}
    found = [
        *unavailable(snapshot),
        *gone(snapshot, rows),
        *held_back(snapshot, 0 if at_end else LONG_OPEN_MS),
        *unanswered(snapshot, rows),
        *sent_twice(snapshot, rows),
        *exchange_findings.every(rows, snapshot["changes"], replicas),
        *aborted(snapshot, rows),
    ]
    by_number = {row["n"]: row for row in rows}
    for each in found:
        if any(by_rule(by_number[number]) for number in each["rows"][:1] if number in by_number):
            each["text"] += " A fault rule gave this answer."
    order = (BAD, WARNING, NOTE)
    return sorted(found, key=lambda each: order.index(each["level"]))[:FINDINGS_MAX]


def by_rule(row: Row) -> bool:
    """Whether a fault rule made the error in the response."""
    return bool(row["codes"]) and any(": error(" in fault for fault in row["faults"])
