"""The demo's result: as a table, as JSON, and as a list of problems.

It counts nothing itself. A number that the stage cannot count is None: n/a in the table, null in JSON.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from rich.table import Table
from rich.text import Text

from fencepost.producer.foundations.counted import counted


class Outcome(Struct, frozen=True, kw_only=True):
    """One run: the sent and acknowledged records, the content of the log, and the faults of the cluster."""

    sent: int
    acknowledged: int
    resent: int
    duplicates_refused: int
    in_log: int
    lost: int
    doubled: int
    out_of_order: int
    replies_dropped: int
    connections_cut: int
    leader_moves: int | None
    restarts: int | None


class Report(Struct, frozen=True):
    """Both runs."""

    idempotent: Outcome
    without_idempotence: Outcome


LABELS = {
    "sent": "records sent",
    "acknowledged": "acknowledged",
    "resent": "records that reached a broker again",
    "duplicates_refused": "duplicate batches refused by the broker",
    "in_log": "in the log",
    "lost": "lost",
    "doubled": "doubled",
    "out_of_order": "out of order per key",
    "replies_dropped": "replies dropped after the append",
    "connections_cut": "connections cut",
    "leader_moves": "leader moves",
    "restarts": "broker restarts",
}
VERDICTS = ("lost", "doubled", "out_of_order")
TROUBLES = ("replies_dropped", "connections_cut", "leader_moves", "restarts")
NEVER_ZERO = {
    "with idempotence": ("resent", "duplicates_refused", *TROUBLES),
    "without idempotence": ("resent", *TROUBLES),  # brokers refuse no duplicates in this run
}
"""The numbers that must not be 0 in each run. A fault without a resent record shows nothing."""


def problems(report: Report) -> list[str]:
    """The reasons why the demo failed; empty if it succeeded."""
    found = []
    ours = report.idempotent
    for name in VERDICTS:
        count = getattr(ours, name)
        if count:
            found.append(f"{counted(count, 'record', spec=',')} {LABELS[name]} by the idempotent producer")
    if ours.acknowledged != ours.sent:
        found.append(
            f"{counted(ours.sent - ours.acknowledged, 'record was', 'records were', spec=',')} not acknowledged to the idempotent producer"
        )
    for outcome, (run, names) in zip((ours, report.without_idempotence), NEVER_ZERO.items(), strict=True):
        found += [f"no {LABELS[name]} in the run {run}" for name in names if getattr(outcome, name) == 0]
    if report.without_idempotence.doubled == 0:
        found.append("nothing doubled without idempotence: there were too few faults to show anything")
    return found


def as_json(report: Report) -> str:
    """The counts of the idempotent run, and those of the other run under `without_idempotence`."""
    return msgspec.json.encode(
        {**msgspec.structs.asdict(report.idempotent), "without_idempotence": msgspec.structs.asdict(report.without_idempotence)}
    ).decode()


def as_table(report: Report) -> Table:
    """Both runs side by side. A promised number is green if the promise held, and red if not."""
    table = Table("")
    table.add_column("idempotent", justify="right")
    table.add_column("without idempotence", justify="right")
    for name, label in LABELS.items():
        if name in ("in_log", "replies_dropped"):
            table.add_section()
        table.add_row(label, _cell(name, report.idempotent), _cell(name, report.without_idempotence))
    return table


def _cell(name: str, outcome: Outcome) -> Text:
    count: int | None = getattr(outcome, name)
    if count is None:
        return Text("n/a", style="dim")
    style = ("bold red" if count else "bold green") if name in VERDICTS else ""
    return Text(f"{count:,}", style=style)
