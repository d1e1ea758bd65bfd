"""What the dead letters of pipelines and jobs have in common: the room for the record, and the headers that say what was wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HEADERS_BYTES: Final = 8192


def room_for_record(largest: int) -> int:
    """The bytes of the record that a dead letter may keep. `largest`: the bytes that a record of its topic may take."""
    return max(0, largest - HEADERS_BYTES)


def headers(told: Mapping[str, object]) -> list[tuple[str, bytes]]:
    """Headers with these names, after a prefix."""
    return [(f"fencepost.{name}", str(each).encode("utf-8", "backslashreplace")) for name, each in told.items()]
