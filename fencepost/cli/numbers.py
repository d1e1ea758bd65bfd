"""Numbers on the command line."""

from __future__ import annotations

from math import isnan

import typer


def a_number(given: float | None) -> float | None:
    """Refuse NaN, which `min` and `max` of an option let through."""
    if given is not None and isnan(given):
        raise typer.BadParameter("nan is no number.")
    return given
