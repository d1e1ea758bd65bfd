"""Which threads are in the middle of a send, so that none of them comes out of it in the next transaction.

Records are refused from the moment a transaction's end is asked for, and accepted again with the next one's beginning; a `send_many` that
was at it all the time would go on then. It keeps nobody from sending, and has no lock: each thread writes one entry of its own.
"""

from __future__ import annotations

import time
from threading import get_ident
from types import TracebackType
from typing import Final

PAUSE_S: Final = 0.001


class Writing:
    """Entered for the time of a send, as often as sends are nested."""

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}

    def __enter__(self) -> None:
        ident = get_ident()
        self._depths[ident] = self._depths.get(ident, 0) + 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        ident = get_ident()
        depth = self._depths[ident] - 1
        if depth:
            self._depths[ident] = depth
        else:
            del self._depths[ident]

    def wait_for_others(self, timeout_s: float) -> bool:
        """Wait until every thread but this one is out; False when the time passed first. Nearly always nobody is in."""
        deadline = time.monotonic() + timeout_s
        mine = get_ident()
        others = set(self._depths.copy()) - {mine}
        while others:
            if time.monotonic() >= deadline:
                return False
            time.sleep(PAUSE_S)
            others &= set(self._depths.copy())
        return True
