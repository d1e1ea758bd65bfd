"""Dead letters: records of a source that cannot be written, in a topic of their own, written in the batch's transaction.

The value is the record's own bytes, cut if they are too many. Headers say what was wrong, and where the record is.
"""

from __future__ import annotations

from fencepost.txn.loop.dead_letter_headers import headers, room_for_record


def dead_letter(
    raw: bytes, *, reason: str, place: str, job: str, attempts: int, largest: int
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """The row (key, value, headers) of the dead letter. `largest`: the bytes that a record may take."""
    room = room_for_record(largest)
    told = {"reason": reason, "place": place, "attempts": attempts, "cut": len(raw) > room, "job": job}
    return None, raw[:room], headers(told)
