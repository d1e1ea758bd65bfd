"""A message as a small JSON tree: without empty fields, with names for error codes and topic ids, and with sizes in place of bytes.

Everything is bounded: the depth, the length of lists and of texts. Values of configs that hold secrets are left out.
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
SECRET: Final = re.compile(r"password|secret|token|jaas|credential|private|keystore\.key", re.IGNORECASE)
HIDDEN: Final = "(hidden)"

NameOf = Callable[[UUID], str | None]


def tree(value: object, name_of: NameOf, *, depth: int = 0) -> Any:
    """The value as JSON has it. `name_of`: the name of a topic id, None if it is unknown."""
    if isinstance(value, msgspec.Struct):
        return _fields(value, name_of, depth)
    if isinstance(value, list | tuple):
        shown = [tree(each, name_of, depth=depth + 1) for each in value[:ENTRIES_MAX]]
        return shown if len(value) <= ENTRIES_MAX else [*shown, f"and {len(value) - ENTRIES_MAX} more"]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(value)} bytes)"
    if isinstance(value, UUID):
        return name_of(value) or str(value)
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}... ({len(value)} characters)"
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _fields(value: msgspec.Struct, name_of: NameOf, depth: int) -> Any:
    if depth >= DEPTH_MAX:
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
            found[field] = tree(inner, name_of, depth=depth + 1)
    return found
