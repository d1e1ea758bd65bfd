"""The result of the Spark demo, as a table and as a list of problems. It counts nothing itself."""

from __future__ import annotations

from msgspec import Struct
from rich.table import Table

from fencepost.producer.foundations.counted import counted


class Outcome(Struct, frozen=True, kw_only=True):
    """One run. `reruns`: how often a batch was aborted and written again."""

    guard: str
    batches: int
    executors_killed: int
    drivers_killed: int
    reruns: int
    expected: int
    present: int
    lost: int
    doubled: int


class Report(Struct, frozen=True):
    """Both runs."""

    guarded: Outcome
    without: Outcome


LABELS = {
    "guard": "guard",
    "batches": "micro-batches",
    "executors_killed": "executors killed",
    "drivers_killed": "drivers killed",
    "reruns": "batches aborted and written again",
    "expected": "rows expected",
    "present": "present",
    "lost": "lost",
    "doubled": "doubled",
}


def problems(report: Report) -> list[str]:
    """The promises that the demo did not keep."""
    ours = report.guarded
    found = [
        f"{counted(getattr(ours, name), 'row', spec=',')} {name} by the guarded run" for name in ("lost", "doubled") if getattr(ours, name)
    ]
    if ours.executors_killed == 0 or ours.drivers_killed == 0:
        found.append("no process was killed in the guarded run: it shows nothing")
    return found


def as_table(report: Report) -> Table:
    """Both runs side by side."""
    table = Table("", "exactly once", "guard off")
    for name in ("exactly once", "guard off"):
        next(column for column in table.columns if column.header == name).justify = "right"
    for name, label in LABELS.items():
        values = [getattr(outcome, name) for outcome in (report.guarded, report.without)]
        table.add_row(label, *(value if isinstance(value, str) else f"{value:,}" for value in values))
    return table
