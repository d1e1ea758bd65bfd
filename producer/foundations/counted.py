"""A number with its noun, for messages."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None, *, spec: str = "") -> str:
    """`1 record`, `2 records`. `one`, `many`: the words after the number, by default with an s. `spec`: its format, such as ","."""
    return f"{number:{spec}} {one if number == 1 else many or f'{one}s'}"
