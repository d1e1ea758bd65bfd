"""The keys, values and headers that aiokafka accepts, as fencepost accepts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def bytes_or_none(field: str, given: object) -> bytes | None:
    """bytes, bytearray and memoryview as bytes. Raises TypeError for other types. `field`: "key" or "value"."""
    if given is None:
        return None
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"{field} must be bytes, bytearray, memoryview or None, not {type(given).__name__}: encode it first")


def listed(headers: object) -> list[tuple[str, bytes | None]]:
    """Headers of any iterable type as a list of pairs. Raises TypeError for what is no pair of a str and bytes or None."""
    if headers is None:
        return []
    if not isinstance(headers, Iterable) or isinstance(headers, str | bytes):
        raise TypeError(f"headers must be (str, bytes or None) pairs, not {type(headers).__name__}")
    return [_pair(given) for given in headers]


def _pair(given: Any) -> tuple[str, bytes | None]:
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str):
        return given[0], bytes_or_none("the value of a header", given[1])
    raise TypeError(f"headers must be (str, bytes or None) pairs, not {given!r}")
