"""A message as a small JSON tree: without empty fields, with names for error codes and topic ids, and with sizes in place of bytes.

Everything is bounded: the depth, the number of values, the length of lists and of texts. Values of configs that hold secrets are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec

from fencepost.producer.wire import ZERO_UUID, error_name

DEPTH_MAX: Final = 8
ENTRIES_MAX: Final = 20
TEXT_MAX: Final = 200
VALUES_MAX: Final = 1000
SECRET: Final = re.compile(r"password|secret|token|jaas|credential|private|keystore\.key", re.IGNORECASE)
HIDDEN: Final = "(hidden)"

NameOf = Callable[[UUID], str | None]


def tree(value: object, name_of: NameOf) -> Any:
    """The value as JSON has it. `name_of`: the name of a topic id, None if it is unknown."""
    return _Tree(name_of).of(value)


class _Tree:
    """Makes one tree, of at most so many values."""

    def __init__(self, name_of: NameOf) -> None:
        self._name_of = name_of
        self._left = VALUES_MAX

    def of(self, value: object, *, depth: int = 0) -> Any:
        self._left -= 1
        if isinstance(value, msgspec.Struct):
            return self._fields(value, depth)
        if isinstance(value, list | tuple):
            shown = [self.of(each, depth=depth + 1) for each in value[:ENTRIES_MAX] if self._left > 0]
            return shown if len(value) <= len(shown) else [*shown, f"and {len(value) - len(shown)} more"]
        if isinstance(value, bytes | bytearray | memoryview):
            return f"({len(value)} bytes)"
        if isinstance(value, UUID):
            return self._name_of(value) or str(value)
        if isinstance(value, str):
            return cut(value)
        return value if value is None or isinstance(value, bool | int | float) else str(value)

    def _fields(self, value: msgspec.Struct, depth: int) -> Any:
        if depth >= DEPTH_MAX or self._left <= 0:
            return "..."
        is_secret = isinstance(name := getattr(value, "name", None), str) and SECRET.search(name) is not None
        found = {}
        for field in value.__struct_fields__:
            inner = getattr(value, field)
            if inner in (None, "", -1, ZERO_UUID) or inner == []:
                continue
            if field.endswith("error_code") and isinstance(inner, int):
                found[field] = error_name(inner)
            elif field == "value" and is_secret:
                found[field] = HIDDEN
            else:
                found[field] = self.of(inner, depth=depth + 1)
        return found


def cut(text: str, longest: int = TEXT_MAX) -> str:
    """The start of a long text, and how long it is."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"
