"""The tables of the Spark bench: medians over rounds, and ratios inside each round. It judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec
from rich.table import Table

BARE = "bare"
RIVALS = {"barrier": "sink", "driver": "sink", "claims": "sink", "status": "sink-keyless", "claims-keyless": "sink-keyless"} | {
    "driver-keyless": "sink-keyless"
}
"""Beside whom each is put."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A contender's batches of one size in one round: `ms` of each, and of each phase where there are phases."""

    round: int
    rows: int
    name: str
    ms: list[float]
    phases: list[dict[str, float]]

    @property
    def batch_ms(self) -> float:
        return median(self.ms)


def speeds(measured: Sequence[Measured], names: Sequence[str]) -> Table:
    """The time of a batch, its rows per second, the multiple of Spark's sink, and what comes on top of a batch that is not written."""
    sizes = sorted({each.rows for each in measured})
    table = Table(title=f"ms of a batch, rows/s, × Spark's sink, + over bare; medians of {_rounds(measured)}", title_justify="left")
    table.add_column("rows")
    for name in names:
        table.add_column(name, justify="right")
    for rows in sizes:
        table.add_row(f"{rows:,}", *[_cell(measured, rows, name) for name in names])
    return table


def phases(measured: Sequence[Measured], names: Sequence[str]) -> Table:
    """Where fencepost's milliseconds go."""
    of = [each for each in measured if each.phases]
    found = sorted({phase for each in of for batch in each.phases for phase in batch})
    table = Table(title=f"fencepost, ms by phase; medians of {_rounds(measured)}", title_justify="left")
    table.add_column("rows")
    table.add_column("")
    for phase in found:
        table.add_column(phase, justify="right")
    for rows in sorted({each.rows for each in of}):
        for name in names:
            batches = [batch for each in of if (each.rows, each.name) == (rows, name) for batch in each.phases]
            if batches:
                table.add_row(f"{rows:,}", name, *[f"{median(batch.get(phase, 0.0) for batch in batches):.1f}" for phase in found])
    return table


def _cell(measured: Sequence[Measured], rows: int, name: str) -> str:
    ours = _by_round(measured, rows, name)
    if not ours:
        return ""
    ms = median(ours.values())
    parts = [f"{ms:.0f} ms", f"{rows / ms / 1e3:.2f} M/s"]
    theirs = _by_round(measured, rows, RIVALS.get(name, ""))
    if both := ours.keys() & theirs.keys():
        parts.append(f"×{median(theirs[each] / ours[each] for each in both):.2f}")
    bare = _by_round(measured, rows, BARE)
    if name != BARE and (both := ours.keys() & bare.keys()):
        parts.append(f"{median(ours[each] - bare[each] for each in both):+.0f} ms")
    return "\n".join(parts)


def _by_round(measured: Sequence[Measured], rows: int, name: str) -> dict[int, float]:
    return {each.round: each.batch_ms for each in measured if (each.rows, each.name) == (rows, name)}


def _rounds(measured: Sequence[Measured]) -> str:
    count = len({each.round for each in measured})
    return f"{count} round{'' if count == 1 else 's'}"
