"""Numbers on the command line."""

from __future__ import annotations

from math import isnan
from typing import Any

import typer


def a_number(given: float | None) -> float | None:
    """Refuse NaN, which `min` and `max` of an option let through."""
    if given is not None and isnan(given):
        raise typer.BadParameter("nan is no number.")
    return given


def chance(help: str) -> Any:  # typer's own name
    """An option for a probability, from 0 to 1."""
    return typer.Option(min=0, max=1, metavar="CHANCE", callback=a_number, help=help)
