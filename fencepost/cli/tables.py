"""Rows on standard output: a table, or one JSON object on each line."""

from __future__ import annotations

from typing import Any

from fencepost.cli.output import say_json


def show(rows: list[dict[str, Any]], *, json: bool, columns: tuple[str, ...]) -> None:
    """Print a table, or one JSON object on each line."""
    if json:
        for row in rows:
            say_json(row)
        return
    if not rows:
        return
    from rich import box
    from rich.table import Table

    from fencepost.cli.console import Screen, cell

    table = Table(*(column.replace("_", " ") for column in columns), box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(cell(row[column]) for column in columns))
    Screen().print(table)
