"""The open transaction, and the threads or tasks that are sending into it, so that no send continues into the next transaction. A hot
module.

From the moment a transaction's end is requested until the next begins, no record is accepted. A `send_many` that takes all that time would
continue in the next transaction, so the beginning waits for it. Sends do not block each other: each thread or task holds a lock of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, MutableMapping
from threading import get_ident
from typing import Final, cast
from weakref import WeakKeyDictionary

from fencepost.producer.accumulator.batch import COMPILED
from fencepost.producer.foundations.rlock import IS_NEEDED, RLock
from fencepost.producer.foundations.runtime import Lock

PAUSE_S: Final = 0.001


class Begun:
    """A transaction that began. `number`: 0 before that, and once the transaction is over."""

    def __init__(self) -> None:
        self.number = 0


class SendGate:
    """See the module. `running`: returns the running thread or task. `held`: their locks. `newest`: the transaction that began last."""

    def __init__(self, running: Callable[[], object] = get_ident, held: MutableMapping[object, Lock] | None = None) -> None:
        self.newest = Begun()
        self._running = running
        self._held: MutableMapping[object, Lock] = {} if held is None else held

    @classmethod
    def of_tasks(cls) -> SendGate:
        """For an event loop. A task is forgotten when it is done."""
        return cls(this_task, WeakKeyDictionary())

    @property
    def current(self) -> int:
        """The number of the open transaction, 0 without one."""
        return self.newest.number

    def over(self, number: int) -> bool:
        """That transaction is over. Returns whether it was the open one. Another thread may begin the next one meanwhile: the number of
        that one is in another object."""
        newest = self.newest
        if newest.number != number:
            return False
        newest.number = 0
        return True

    def note(self) -> Lock:
        """The context for one send; an inner send of the same thread changes nothing. It is a lock, because Ctrl-C cannot interrupt between
        a `with` and a lock's acquire. Python code could be interrupted there, and would leave a finished send registered."""
        sender = self._running()
        held = self._held.get(sender)
        if held is None:
            held = self._held[sender] = new_lock()
        return new_lock() if held.locked() else held

    def wait_for_others(self, timeout_s: float) -> bool:
        """Wait until all other sends have ended; False if the time passes first. Usually there are none."""
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
        me = self._running()
        return {sender for sender, held in dict(self._held).items() if sender != me and held.locked()}


def new_lock() -> Lock:
    """A lock that Ctrl-C cannot leave taken."""
    return cast(Lock, RLock()) if IS_NEEDED and not COMPILED else Lock()


def this_task() -> object:
    """The loop, if no task runs."""
    return asyncio.current_task() or asyncio.get_running_loop()
