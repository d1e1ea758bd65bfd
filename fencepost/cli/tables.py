"""Rows on standard output: a table for people, or one JSON object a line."""

from __future__ import annotations

from typing import Any


def show(rows: list[dict[str, Any]], *, json: bool, columns: tuple[str, ...]) -> None:
    """A table, or one JSON object a line."""
    if json:
        import msgspec

        for row in rows:
            print(msgspec.json.encode(row).decode())
        return
    if not rows:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*(column.replace("_", " ") for column in columns), box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    Console(highlight=False, markup=False).print(table)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "-" if value is None else str(value)
