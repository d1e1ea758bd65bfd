"""The memory that an object holds. Unlike tracemalloc, this counts nothing that other threads allocate meanwhile."""

from __future__ import annotations

import gc
from sys import getsizeof
from types import FunctionType, ModuleType


def bytes_held(root: object) -> int:
    """The memory of an object and of all that it refers to, classes, functions and modules aside."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if id(value) not in seen and not isinstance(value, type | ModuleType | FunctionType):
            seen[id(value)] = value
            waiting += gc.get_referents(value)
            waiting += [getattr(value, name) for name in getattr(value, "__struct_fields__", ())]
    return sum(getsizeof(value) for value in seen.values())
