"""What goes wrong in the demo, and when: tied to the rows sent, not to time, so that it happens on every machine.

A plan is a list; carrying it out is the stage's business.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class Trouble(enum.Enum):
    """What can be done to a cluster under load."""

    DROP_REPLY = "the next Produce is appended, and its reply never arrives"
    CUT_REPLY = "the next Produce is appended, and its connection dies in the middle of the reply"
    CUT_LINKS = "every connection dies"
    MOVE_LEADERS = "every partition gets another leader"
    STOP_BROKER = "a broker shuts down, its leaderships move"
    KILL_BROKER = "a broker dies without a word"
    START_BROKER = "it comes back, remembering only the newest batch of each producer"


class Step(NamedTuple):
    """A trouble and the row before which it strikes."""

    row: int
    trouble: Trouble


_ROUNDS: Final = (
    (Trouble.DROP_REPLY, Trouble.CUT_REPLY, Trouble.CUT_REPLY, Trouble.MOVE_LEADERS),
    (Trouble.DROP_REPLY, Trouble.STOP_BROKER, Trouble.CUT_REPLY, Trouble.START_BROKER),
    (Trouble.DROP_REPLY, Trouble.CUT_LINKS, Trouble.CUT_REPLY, Trouble.MOVE_LEADERS),
    (Trouble.DROP_REPLY, Trouble.KILL_BROKER, Trouble.CUT_REPLY, Trouble.START_BROKER),
)
"""Played twice. Each round begins with a lost reply, whose batch is sent again while the rest of the round goes on."""
_REPEATS: Final = 2
_LAST_AT: Final = 0.9  # enough must follow the last trouble for it to hit something


def plan(rows: int) -> list[Step]:
    """Every trouble of the demo, evenly spread over so many rows."""
    troubles = [trouble for _ in range(_REPEATS) for each in _ROUNDS for trouble in each]
    return [Step(int(rows * _LAST_AT * (place + 1) / len(troubles)), trouble) for place, trouble in enumerate(troubles)]
