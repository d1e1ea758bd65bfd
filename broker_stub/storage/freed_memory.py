"""Gives memory back to the system after logs have lost much of it.

glibc keeps most of what a program has freed for its next allocations. A broker whose logs once had gigabytes would keep these for ever.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

GIVE_BACK_BYTES: Final = 256 << 20
"""Less is not worth it, because memory that is given back has to be asked for again."""

_freed = 0


def note_freed(size: int) -> None:
    """So many bytes are no longer needed. Garbage collection may free them a little later."""
    global _freed
    _freed += size


def give_back() -> None:
    """If much was freed, give back all that is free."""
    global _freed
    if _freed >= GIVE_BACK_BYTES and (trim := _trim()) is not None:
        trim(0)
        _freed = 0


@cache
def _trim() -> Any:
    """glibc's `malloc_trim`. None: another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
