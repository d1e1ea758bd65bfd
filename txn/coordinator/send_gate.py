"""Which transaction is open, and who is in the middle of a send, so that nobody comes out of it in the next one. A hot module.

Records are refused from the moment a transaction's end is asked for, and accepted again with the next one's beginning; a `send_many` that
was at it all the time would go on then. It keeps nobody from sending: each thread or task holds a lock of its own, for which nobody waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, MutableMapping
from threading import get_ident
from typing import Final
from weakref import WeakKeyDictionary

from librt.threading import Lock

PAUSE_S: Final = 0.001


class SendGate:
    """See the module. `who`: the thread or task that runs. `held`: their locks. `current`: the number of the transaction that is open, 0
    where none is."""

    def __init__(self, who: Callable[[], object] = get_ident, held: MutableMapping[object, Lock] | None = None) -> None:
        self.current = 0
        self._who = who
        self._held: MutableMapping[object, Lock] = {} if held is None else held

    @classmethod
    def of_tasks(cls) -> SendGate:
        """For an event loop. Its tasks are forgotten when they are over."""
        return cls(this_task, WeakKeyDictionary())

    def note(self) -> Lock:
        """What to hold for the time of a send; another one inside of it notes nothing more. A lock, as Ctrl-C cannot strike between a
        `with` and a lock, and so leaves nobody in who is out: what is written in Python can be struck before it does anything."""
        who = self._who()
        held = self._held.get(who)
        if held is None:
            held = self._held[who] = Lock()
        return Lock() if held.locked() else held

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
        me = self._who()
        return {who for who, held in dict(self._held).items() if who != me and held.locked()}


def this_task() -> object:
    """Where no task runs, the loop."""
    return asyncio.current_task() or asyncio.get_running_loop()
