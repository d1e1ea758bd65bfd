"""A number with its noun, for messages."""

from __future__ import annotations


def counted(number: int, one: str, many: str) -> str:
    """`1 record`, `2 records`. `one` and `many`: the words after the number."""
    return f"{number} {one if number == 1 else many}"
