"""Dead letters: records of a source that cannot be written, in a topic of their own, written in the batch's transaction.

The value is the record's own bytes, cut if they are too many. Headers say what was wrong, and where the record is.
"""

from __future__ import annotations

from fencepost.txn.pipeline.dead_letters import MARGIN


def dead_letter(
    raw: bytes, *, reason: str, place: str, job: str, attempts: int, largest: int
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """The row (key, value, headers) of the dead letter. `largest`: the bytes that a record may take."""
    room = max(0, largest - MARGIN)
    told: dict[str, object] = {
        "fencepost.reason": reason,
        "fencepost.place": place,
        "fencepost.attempts": attempts,
        "fencepost.cut": len(raw) > room,
        "fencepost.job": job,
    }
    return None, raw[:room], [(name, str(each).encode("utf-8", "backslashreplace")) for name, each in told.items()]
