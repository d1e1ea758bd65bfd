"""Rows on standard output: a table, or one JSON object on each line. A list without rows prints `none` on standard error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fencepost.cli.output import say_json, warn


def show(rows: list[dict[str, Any]], *, json: bool, columns: tuple[str, ...]) -> None:
    """Print a table, or one JSON object on each line."""
    if json:
        for row in rows:
            say_json(row)
        return
    if not rows:
        warn("none")
        return
    from rich import box
    from rich.table import Column, Table

    from fencepost.cli.console import Screen, cell

    table = Table(*(Column(column.replace("_", " "), overflow="fold") for column in columns), box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(cell(row[column]) for column in columns))
    Screen().show(table)


def show_fields(row: dict[str, Any], *, json: bool) -> None:
    """Print one row with a line for each of its fields, or as a JSON object."""
    rows = [row] if json else [{"field": name, "value": value} for name, value in row.items()]
    show(rows, json=json, columns=("field", "value"))


def moment(ms: int) -> str:
    """A time as the tables show it: ISO 8601, in UTC."""
    return datetime.fromtimestamp(ms / 1000.0, UTC).isoformat(timespec="milliseconds")
