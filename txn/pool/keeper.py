"""The slots of a pool, the callers that wait for one, and its counters. It makes no call of a producer.

The pool's lock is held only where nothing waits. A caller that waits has a ticket, and a slot that becomes free goes to the oldest one.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from typing import Any, Final, SupportsFloat

from msgspec.structs import asdict

from fencepost.producer.errors import FencepostError, ProducerClosed
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.pool.calls import PoolCalls, Ticket
from fencepost.txn.pool.errors import PoolTakenOver, PoolTimeout
from fencepost.txn.pool.instance_registration import InstanceRegistration, PendingRegistration
from fencepost.txn.pool.settings import PoolSettings
from fencepost.txn.pool.slots import Holder, Phase, Slot, Slots, is_gone
from fencepost.txn.pool.stats import Counters, PoolStats
from fencepost.txn.producer_access import is_prepared

LOOK_S: Final = 0.02
"""How often a waiting caller looks at slots that may become free by themselves."""
WAKE_S: Final = 1.0
"""How often it looks anyway."""


class CallTimer(Holder):
    """How long a call may take. `within`: the limit in words. `trouble`: the failure of its last attempt."""

    def __init__(self, limit_s: float, within: str) -> None:
        self.deadline: Final = time.monotonic() + limit_s
        self.within: Final = within
        self.trouble: FencepostError | None = None

    @property
    def left_s(self) -> float:
        return left_s_of(self.deadline)


class SlotKeeper:
    """See the module. `own`: the producers' settings. `opened_on`: the event loop of an asyncio pool."""

    def __init__(self, settings: PoolSettings, own: dict[str, Any], calls: PoolCalls) -> None:
        self.settings: Final = settings
        self.made_in: Final = os.getpid()
        self.closed = False
        self._is_ended = False  # every producer is closed, too
        self.opened_on: object = None
        self._own: Final = own
        self._calls: Final = calls
        self._lock: Final = RLock()
        self._slots: Final = Slots(settings.size)
        self._tickets: Final[deque[Ticket]] = deque()
        self._counters: Final = Counters()
        self._producers: Final[list[Any]] = []  # all that are not closed yet
        self._pending_registration: PendingRegistration | None = None
        self._registration: InstanceRegistration | None = None
        self._ended: PoolTakenOver | None = None
        self._not_opened = ""  # why the newest opening of a slot failed; empty after one that did not

    @property
    def in_use(self) -> int:
        """How many transactions are open."""
        return self._slots.count(Phase.IN_USE)

    @property
    def instance(self) -> str | None:
        """The instance's name, once the pool has opened."""
        registration = self._registration  # Another thread may find that it is lost.
        return registration.instance.name if registration is not None else self.settings.instance

    async def _wait_for_slot(self, holder: Holder, timer: CallTimer) -> Slot:
        with self._lock:
            self._refuse()
            if not self._tickets:
                self._settle()
                slot = self._slots.take(holder, time.monotonic())
                if slot is not None:
                    return slot
            ticket = self._calls.ticket(holder)
            self._tickets.append(ticket)
        try:
            while True:
                left_s = timer.left_s
                await ticket.wait(min(left_s, LOOK_S if self._slots.changes_by_itself else WAKE_S))
                with self._lock:
                    if ticket.slot is None:
                        self._refuse()
                        self._settle()
                        self._serve()
                    if ticket.slot is not None:
                        slot, ticket.slot = ticket.slot, None
                        return slot
                    if left_s <= 0.0:
                        raise self._late(timer) from timer.trouble
        finally:
            with self._lock:
                with suppress(ValueError):
                    self._tickets.remove(ticket)
                slot_left, ticket.slot = ticket.slot, None
                if slot_left is not None:
                    self._return_unused(slot_left)
                    self._serve()

    def _serve(self) -> None:
        """Give slots to the oldest tickets."""
        while self._tickets:
            ticket = self._tickets[0]
            holder = ticket.holder()
            if holder is not None and not is_gone(holder):
                slot = self._slots.take(holder, time.monotonic()) if not self.closed and self._ended is None else None
                if slot is None:
                    break
                ticket.slot = slot
            self._tickets.popleft()
            ticket.wake()

    def _wake_all(self) -> None:
        for ticket in self._tickets:
            ticket.wake()

    def _settle(self) -> None:
        """Look at the slots whose transaction or registration ends without a caller, and take back those that are abandoned."""
        for slot in self._slots.all:
            if slot.phase is Phase.SETTLING or self._slots.was_registered_meanwhile(slot):
                self._put_back(slot)
            elif slot.is_abandoned:
                self._return_unused(slot)

    def _put_back(self, slot: Slot) -> None:
        if self._slots.put_back(slot) is Phase.SETTLING or slot.transaction is None:
            return
        committed = slot.committed()
        if committed is not None:
            self._counters.committed += committed
            self._counters.aborted += not committed
        elif is_prepared(slot.transaction):
            self._counters.prepared += 1
        else:
            self._counters.unknown += slot.in_doubt
            self._counters.aborted += not slot.in_doubt
        slot.transaction = None

    def _return_unused(self, slot: Slot) -> None:
        if slot.phase is Phase.OPENING:
            slot.phase = Phase.VACANT
        if slot.phase is not Phase.VACANT or self._slots.was_registered_meanwhile(slot):
            self._put_back(slot)

    def _stumbled(self, slot: Slot, error: BaseException) -> None:
        """No transaction has begun in the slot: try it again, after a failure later."""
        with self._lock:
            if slot.phase is Phase.OPENING and (slot.is_registering or not isinstance(error, Exception)):
                slot.phase = Phase.VACANT  # The registration goes on, or the caller was interrupted.
            elif slot.phase is Phase.OPENING or slot.producer is None or self._slots.put_back(slot) is Phase.VACANT:
                slot.rest(time.monotonic())
            self._serve()

    def stats(self) -> PoolStats:
        """The counters now."""
        slots, now = self._slots, time.monotonic()
        with self._lock:
            self._settle()
            self._serve()
            return PoolStats(
                prefix=self.settings.transactional_id_prefix,
                size=self.settings.size,
                in_use=slots.count(Phase.IN_USE),
                free=slots.count(Phase.FREE),
                settling=slots.count(Phase.SETTLING),
                waiting=len(self._tickets),
                longest_s=slots.longest_s(now),
                **asdict(self._counters),
            )

    def _refuse(self) -> None:
        if self.closed:
            raise ProducerClosed("the pool is closed")
        if self._ended is not None:
            raise self._ended.again()

    def _timer(self, timeout: SupportsFloat | None, most: float = float("inf")) -> CallTimer:
        setting_ms = self.settings.acquire_timeout_ms
        limit_s = seconds(timeout, setting_ms / 1000.0)
        if timeout is None or limit_s > most:
            return CallTimer(setting_ms / 1000.0, f"acquire_timeout_ms={setting_ms}")
        return CallTimer(limit_s, f"timeout={limit_s:g} s")

    def _late(self, timer: CallTimer) -> PoolTimeout:
        """The error of a call that got no slot in time. The caller holds the lock."""
        slots, settings = self._slots, self.settings
        self._counters.timeouts += 1
        busy = slots.count(Phase.IN_USE)
        told = [f"{busy} of size={settings.size} {'is' if busy == 1 else 'are'} in use"]
        if busy:
            told.append(f"the longest for {slots.longest_s(time.monotonic()):.1f} s")
        others = {"settling": slots.count(Phase.SETTLING), "opening": slots.count(Phase.OPENING)}
        told += [f"{number} {name}" for name, number in others.items() if number]
        waiting = len(self._tickets) - 1
        if waiting > 0:
            told.append(counted(waiting, "other call waits", "other calls wait"))
        if timer.trouble is not None or (self._not_opened and not busy):
            # A slot that could not be opened rests, so a call may find none although none is in use.
            advice = f"the last failure: {timer.trouble or self._not_opened}"
        else:
            advice = "raise `size`, or make the transactions shorter"
        return PoolTimeout(f"no transaction could begin within {timer.within}: {', '.join(told)}; {advice}")


def left_s_of(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
