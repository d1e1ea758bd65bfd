"""The tables of the Spark bench: medians over rounds, and ratios inside each round. It judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec
from rich.table import Table

BARE = "bare"
BASE = " (base)"
"""The end of the names of what another build measured."""
RIVALS = {
    **dict.fromkeys(("turns", "driver", "kafka-claims", "arrow"), "sink"),
    **dict.fromkeys(("turns-keyless", "kafka-claims-keyless", "driver-keyless", "arrow-keyless"), "sink-keyless"),
}
"""The contender with which each one is compared."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A contender's batches of one size in one round: `ms` of each batch, and of its phases if it has phases; `cpu_ms` of all batches."""

    round: int
    rows: int
    name: str
    ms: list[float]
    cpu_ms: float
    phases: list[dict[str, float]]

    @property
    def batch_ms(self) -> float:
        return median(self.ms)

    @property
    def cpu_us(self) -> float:
        """CPU time per row."""
        return self.cpu_ms * 1000.0 / len(self.ms) / self.rows


def speeds(measured: Sequence[Measured], names: Sequence[str]) -> Table:
    """The table: a batch's time, rows per second, the multiple of Spark's sink, and the time above a batch that is not written."""
    sizes = sorted({each.rows for each in measured})
    table = Table(
        title=f"ms of a batch, rows/s, CPU of a row, × Spark's sink (speed, CPU), + over bare; medians of {_rounds(measured)}",
        title_justify="left",
    )
    table.add_column("rows")
    for name in names:
        table.add_column(name, justify="right")
    for rows in sizes:
        table.add_row(f"{rows:,}", *[_cell(measured, rows, name) for name in names])
    return table


def phases(measured: Sequence[Measured], names: Sequence[str]) -> Table:
    """How fencepost's milliseconds divide into phases."""
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


def ratios(measured: Sequence[Measured]) -> dict[tuple[int, str, str], list[float]]:
    """By rows, contender and figure: this build's figure as a multiple of the base's, round by round."""
    found: dict[tuple[int, str, str], list[float]] = {}
    for name in dict.fromkeys(each.name for each in measured if each.name.endswith(BASE)):
        ours = name.removesuffix(BASE)
        for rows in sorted({each.rows for each in measured if each.name == name}):
            mine, base = _by_round(measured, rows, ours), _by_round(measured, rows, name)
            both = sorted(mine.keys() & base.keys())
            found[rows, ours, "ms of a batch"] = [mine[each].batch_ms / base[each].batch_ms for each in both]
            # The kernel gives the time of a Python worker that ended to another process if its parent has ended.
            told = [each for each in both if min(mine[each].cpu_ms, base[each].cpu_ms) > 0]
            found[rows, ours, "CPU of a row"] = [mine[each].cpu_us / base[each].cpu_us for each in told]
    return found


def _cell(measured: Sequence[Measured], rows: int, name: str) -> str:
    ours = _by_round(measured, rows, name)
    if not ours:
        return ""
    ms = median(each.batch_ms for each in ours.values())
    cpu_us = median(each.cpu_us for each in ours.values())
    parts = [f"{ms:.0f} ms", f"{rows / ms / 1e3:.2f} M/s", f"{cpu_us:.1f} µs"]
    theirs = _by_round(measured, rows, RIVALS.get(name, ""))
    if both := ours.keys() & theirs.keys():
        faster = median(theirs[each].batch_ms / ours[each].batch_ms for each in both)
        parts.append(f"×{faster:.2f}, ×{median(ours[each].cpu_us / theirs[each].cpu_us for each in both):.2f}")
    bare = _by_round(measured, rows, BARE)
    if name != BARE and (both := ours.keys() & bare.keys()):
        parts.append(f"{median(ours[each].batch_ms - bare[each].batch_ms for each in both):+.0f} ms")
    return "\n".join(parts)


def _by_round(measured: Sequence[Measured], rows: int, name: str) -> dict[int, Measured]:
    return {each.round: each for each in measured if (each.rows, each.name) == (rows, name)}


def _rounds(measured: Sequence[Measured]) -> str:
    count = len({each.round for each in measured})
    return f"{count} round{'' if count == 1 else 's'}"
