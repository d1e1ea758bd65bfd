"""The setting `on_open_transaction`."""

from __future__ import annotations

import enum


class OnOpen(enum.Enum):
    """What a registration does to a transaction that is open under the id."""

    ABORT_UNPREPARED = "abort_unprepared"
    ABORT = "abort"
    REFUSE = "refuse"
