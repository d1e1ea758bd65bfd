"""What the demo found: as a table, as JSON, and as the list of what speaks against it.

It only words what was counted. A number that nobody could count is None: n/a in the table, null in JSON.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from rich.table import Table
from rich.text import Text


class Outcome(Struct, frozen=True, kw_only=True):
    """One run: what the producer was given and told, what the log holds, and what was done to the cluster meanwhile."""

    sent: int
    acknowledged: int
    resent: int
    duplicates_refused: int
    in_log: int
    lost: int
    doubled: int
    out_of_order: int
    replies_dropped: int
    links_cut: int
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
    "links_cut": "links cut",
    "leader_moves": "leader moves",
    "restarts": "broker restarts",
}
VERDICTS = ("lost", "doubled", "out_of_order")
TROUBLES = ("replies_dropped", "links_cut", "leader_moves", "restarts")
NEVER_ZERO = {
    "with idempotence": ("resent", "duplicates_refused", *TROUBLES),
    "without idempotence": ("resent", *TROUBLES),  # where no broker can refuse a duplicate
}
"""What each run must have had. A trouble that made nobody send anything again has shown nothing."""


def problems(report: Report) -> list[str]:
    """Why the demo has not shown what it is there to show; empty when it has."""
    found = []
    ours = report.idempotent
    for name in VERDICTS:
        count = getattr(ours, name)
        if count:
            found.append(f"{count:,} records {LABELS[name]} by the idempotent producer")
    if ours.acknowledged != ours.sent:
        found.append(f"{ours.sent - ours.acknowledged:,} records were not acknowledged to the idempotent producer")
    for outcome, (run, names) in zip((ours, report.without_idempotence), NEVER_ZERO.items(), strict=True):
        found += [f"no {LABELS[name]} in the run {run}" for name in names if getattr(outcome, name) == 0]
    if report.without_idempotence.doubled == 0:
        found.append("nothing doubled without idempotence: the troubles were too few to show anything")
    return found


def as_json(report: Report) -> str:
    """The idempotent run's counts, and the other's under `without_idempotence`."""
    return msgspec.json.encode(
        {**msgspec.structs.asdict(report.idempotent), "without_idempotence": msgspec.structs.asdict(report.without_idempotence)}
    ).decode()


def as_table(report: Report) -> Table:
    """Both runs side by side; what was promised is green where it held and red where it did not."""
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
