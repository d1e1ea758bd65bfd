"""The faults of the demo, and when they happen: after a number of sent rows, not after a time, so they happen on every machine.

A plan is a list. The stage executes it.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class Trouble(enum.Enum):
    """A fault of a cluster under load."""

    DROP_REPLY = "the next Produce is appended, and its reply never arrives"
    CUT_REPLY = "the next Produce is appended, and its connection dies in the middle of the reply"
    CUT_CONNECTIONS = "every connection dies"
    MOVE_LEADERS = "every partition gets another leader"
    STOP_BROKER = "a broker shuts down, and its leaderships move"
    KILL_BROKER = "a broker ends without a shutdown"
    START_BROKER = "the broker starts again, and remembers only the newest batch of each producer"


class Step(NamedTuple):
    """A fault, and the row before which it happens."""

    row: int
    trouble: Trouble


_ROUNDS: Final = (
    (Trouble.DROP_REPLY, Trouble.CUT_REPLY, Trouble.CUT_REPLY, Trouble.MOVE_LEADERS),
    (Trouble.DROP_REPLY, Trouble.STOP_BROKER, Trouble.CUT_REPLY, Trouble.START_BROKER),
    (Trouble.DROP_REPLY, Trouble.CUT_CONNECTIONS, Trouble.CUT_REPLY, Trouble.MOVE_LEADERS),
    (Trouble.DROP_REPLY, Trouble.KILL_BROKER, Trouble.CUT_REPLY, Trouble.START_BROKER),
)
"""One round of faults; a plan has two. Each round begins with a lost reply, and the producer sends that batch again during the round."""
_REPEATS: Final = 2
_LAST_AT: Final = 0.9  # the last fault needs enough rows after it


def plan(rows: int) -> list[Step]:
    """Every fault of the demo, spread evenly over the rows."""
    troubles = [trouble for _ in range(_REPEATS) for each in _ROUNDS for trouble in each]
    return [Step(int(rows * _LAST_AT * (place + 1) / len(troubles)), trouble) for place, trouble in enumerate(troubles)]
