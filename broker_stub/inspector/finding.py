"""One finding: a sentence about what went wrong or nearly did, and where the page shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Data = dict[str, Any]

BAD, WARNING, NOTE = "bad", "warning", "note"
"""Records are lost or readers wait; a client was refused or waits; Kafka did what it is for."""


def finding(
    kind: str,
    level: str,
    title: str,
    text: str,
    *,
    rows: Iterable[int] = (),
    topic: str | None = None,
    partition: int | None = None,
    tab: str = "",
) -> Data:
    """`rows`: numbers of exchanges, the one to open first. `tab`: the view that answers, by default the exchange or the partition."""
    numbers = list(rows)
    view = tab or ("exchanges" if numbers else "topics")
    return {
        "kind": kind,
        "level": level,
        "title": title,
        "text": text,
        "rows": numbers[:20],
        "topic": topic,
        "partition": partition,
        "tab": view,
    }
