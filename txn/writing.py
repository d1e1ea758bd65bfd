"""Which transaction is open, and who is in the middle of a send, so that nobody comes out of it in the next one. A hot module.

Records are refused from the moment a transaction's end is asked for, and accepted again with the next one's beginning; a `send_many` that
was at it all the time would go on then. It keeps nobody from sending, and has no lock: each thread or task writes one entry of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import Final

PAUSE_S: Final = 0.001


class Writing:
    """Entered for the time of a send, as often as sends are nested. `who`: the thread or task that runs. `current`: the number of the
    transaction that is open, 0 where none is."""

    def __init__(self, who: Callable[[], object] = get_ident) -> None:
        self.current = 0
        self._who = who
        self._depths: dict[object, int] = {}

    def __enter__(self) -> None:
        who = self._who()
        self._depths[who] = self._depths.get(who, 0) + 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        who = self._who()
        depth = self._depths[who] - 1
        if depth:
            self._depths[who] = depth
        else:
            del self._depths[who]

    def wait_for_others(self, timeout_s: float) -> bool:
        """Wait until everybody else who is in now is out; False when the time passed first. Nearly always nobody is."""
        deadline = time.monotonic() + timeout_s
        others = self._others()
        while others:
            if time.monotonic() >= deadline:
                return False
            time.sleep(PAUSE_S)
            others &= self._others()
        return True

    async def let_others_out(self, timeout_s: float) -> bool:
        """The same for tasks, which run meanwhile."""
        deadline = time.monotonic() + timeout_s
        others = self._others()
        while others:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(PAUSE_S)
            others &= self._others()
        return True

    def _others(self) -> set[object]:
        return set(self._depths.copy()) - {self._who()}
