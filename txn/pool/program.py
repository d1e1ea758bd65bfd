"""What a pool does, written once for threads and for asyncio: take a slot, open it if it has no producer, and put it back.

The pool's lock is held only where nothing waits. A caller that waits has a ticket, and a slot that becomes free goes to the oldest one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, SupportsFloat, TypeGuard

from fencepost.producer.errors import Fenced, FencepostError, Misuse, ProducerClosed, Retriable
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.coordinator.state_machine import State
from fencepost.txn.errors import CommitOutcomeUnknown, IdentityLost, IllegalCall
from fencepost.txn.pool.edges import Edge, Ticket
from fencepost.txn.pool.errors import PoolTakenOver, PoolTimeout
from fencepost.txn.pool.instance import Instance, choose
from fencepost.txn.pool.settings import PoolSettings
from fencepost.txn.pool.slots import UNENDED, Phase, Slot, Slots
from fencepost.txn.pool.stats import Counters, PoolStats
from fencepost.txn.pool.tenure import Tenure, unfinished

log = logging.getLogger("fencepost.pool")

LOOK_S: Final = 0.02
"""How often a waiting caller looks at slots that may become free by themselves."""
WAKE_S: Final = 1.0
"""How often it looks anyway."""
LEAST_BEGIN_S: Final = 0.5
"""The least time for the beginning in a slot that is free."""
ASK_S: Final = 2.0
"""How long a pool asks why a transaction was fenced."""
ABORT_S: Final = 2.0
"""How much of the time of `close` is kept for aborts, at most; never more than a quarter of it."""


class PoolProgram:
    """See the module. `own`: the producers' settings. `opened_on`: the event loop of an asyncio pool."""

    def __init__(self, settings: PoolSettings, own: dict[str, Any], edge: Edge) -> None:
        self.settings: Final = settings
        self.made_in: Final = os.getpid()
        self.closed = False
        self.opened_on: object = None
        self._own: Final = own
        self._edge: Final = edge
        self._lock: Final = threading.Lock()
        self._slots: Final = Slots(settings.size)
        self._tickets: Final[deque[Ticket]] = deque()
        self._counters: Final = Counters()
        self._tenure: Tenure | None = None
        self._ended: PoolTakenOver | None = None

    @property
    def in_use(self) -> int:
        """How many transactions are open."""
        return self._slots.count(Phase.IN_USE)

    @property
    def instance(self) -> str | None:
        """The instance's name, once the pool has opened."""
        return self._tenure.instance.name if self._tenure is not None else self.settings.instance

    # -- transactions ------------------------------------------------------------------------------------------------

    async def begin(self, timeout: SupportsFloat | None) -> tuple[Slot, Any]:
        """A slot, and an open transaction in it. Raises PoolTimeout when the time has passed."""
        limit_s = min(self.settings.acquire_timeout_ms / 1000.0, seconds(timeout, float("inf")))
        deadline = time.monotonic() + limit_s
        trouble: FencepostError | None = None
        while True:
            slot = await self._acquire(deadline, trouble)
            try:
                transaction = await self._edge.call(slot.producer.begin, max(LEAST_BEGIN_S, _left_s(deadline)))
                transaction._timeout = timeout
            except BaseException as error:
                self._stumbled(slot)
                self._refuse()
                if not _is_passing(error):
                    raise
                trouble = error
                continue
            with self._lock:
                slot.transaction, slot.phase = transaction, Phase.IN_USE
                self._counters.opened += 1
            return slot, transaction

    async def end(
        self, slot: Slot, leave: Any, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End a block: commit or abort by the transaction's own rules (`leave`), and put the slot back."""
        failure = error
        try:
            await self._edge.call(leave, kind, error, trace)
        except BaseException as failed:
            failure = failed
            raise
        finally:
            if os.getpid() == self.made_in:
                with self._lock:
                    slot.in_doubt = isinstance(failure, CommitOutcomeUnknown)
                    self._put_back(slot)
                    self._serve()
                if failure is not None:
                    await self._explain(slot, failure)

    async def _explain(self, slot: Slot, failure: BaseException) -> None:
        """Raise PoolTakenOver if the producer has ended, because another process has the pool's instance now."""
        if slot.producer is None or slot.state is not State.DEAD or not isinstance(failure, FencepostError):
            return
        try:
            await self._look_whether_ours(ASK_S)
        except PoolTakenOver as taken_over:
            raise taken_over.again() from failure
        except FencepostError as unanswered:
            log.debug("not known whether the instance is taken over: %s", unanswered)

    # -- slots -------------------------------------------------------------------------------------------------------

    async def _acquire(self, deadline: float, trouble: FencepostError | None = None) -> Slot:
        """A slot with a registered producer. `trouble`: the failure of an earlier attempt of this call."""
        while True:
            if trouble is not None and _left_s(deadline) <= 0.0:
                raise self._late(trouble) from trouble
            slot = await self._wait_for_slot(deadline, trouble)
            if slot.phase is not Phase.OPENING:
                return slot
            try:
                await self._open(slot, deadline)
            except BaseException as error:
                self._stumbled(slot)
                self._refuse()
                if not _is_passing(error):
                    raise
                trouble = error
                continue
            return slot

    async def _wait_for_slot(self, deadline: float, trouble: FencepostError | None) -> Slot:
        with self._lock:
            self._refuse()
            if not self._tickets:
                self._settle()
                slot = self._slots.take(time.monotonic())
                if slot is not None:
                    return slot
            ticket = self._edge.ticket()
            self._tickets.append(ticket)
        try:
            while True:
                left_s = _left_s(deadline)
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
                        raise self._late(trouble) from trouble
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
            slot = self._slots.take(time.monotonic()) if not self.closed and self._ended is None else None
            if slot is None:
                break
            ticket = self._tickets.popleft()
            ticket.slot = slot
            ticket.wake()

    def _wake_all(self) -> None:
        for ticket in self._tickets:
            ticket.wake()

    def _settle(self) -> None:
        """Look at the slots whose transaction ends without a caller."""
        for slot in self._slots.all:
            if slot.phase is Phase.SETTLING:
                self._put_back(slot)

    def _put_back(self, slot: Slot) -> None:
        if self._slots.put_back(slot) is Phase.SETTLING or slot.transaction is None:
            return
        committed = slot.committed()
        if committed is not None:
            self._counters.committed += committed
            self._counters.aborted += not committed
        elif slot.transaction._prepared:
            self._counters.prepared += 1
        else:
            self._counters.unknown += slot.in_doubt
            self._counters.aborted += not slot.in_doubt
        slot.transaction = None

    def _return_unused(self, slot: Slot) -> None:
        if slot.phase is Phase.OPENING:
            slot.phase = Phase.VACANT
        else:
            self._put_back(slot)

    def _stumbled(self, slot: Slot) -> None:
        """No transaction has begun in the slot: try it again later."""
        with self._lock:
            if slot.phase is Phase.OPENING or slot.producer is None or self._slots.put_back(slot) is Phase.VACANT:
                slot.rest(time.monotonic())
            self._serve()

    # -- opening -----------------------------------------------------------------------------------------------------

    async def open_warm(self, timeout: SupportsFloat | None) -> None:
        """Open the pool and its warm slots."""
        deadline = time.monotonic() + seconds(timeout, self.settings.acquire_timeout_ms / 1000.0)
        with self._lock:
            self._refuse()
        if self._tenure is None:
            slot = await self._acquire(deadline)
            with self._lock:
                self._slots.put_back(slot)
                self._serve()
        for number in range(self.settings.warm):
            await self._open_vacant(number, deadline)

    async def _open_vacant(self, number: int, deadline: float) -> None:
        with self._lock:
            slot = self._slots.take_vacant(number)
        if slot is None:
            return
        try:
            await self._open(slot, deadline)
        except BaseException:
            self._stumbled(slot)
            raise
        with self._lock:
            self._slots.put_back(slot)
            self._serve()

    async def _open(self, slot: Slot, deadline: float) -> None:
        """Give the slot a producer that is registered. This aborts what an earlier process left open under its id."""
        if slot.producer is not None:
            await self._dismiss(slot, deadline)
        tenure = await self._look_whether_ours(_left_s(deadline)) if self._tenure is not None else None
        left_open: list[int] = []
        if tenure is None:
            tenure, left_open = await self._found(deadline)
        producer = self._edge.make({**self._own, "transactional_id": self.settings.transactional_id(tenure.instance.name, slot.number)})
        try:
            await self._edge.call(producer.init, _left_s(deadline))
            self._refuse()  # It may have been closed meanwhile, and closes what it has.
            with self._lock:
                slot.producer, slot.tenure = producer, tenure
        except BaseException:
            await self._edge.call(producer.close, 0.0)
            raise
        for number in left_open:
            try:
                await self._open_vacant(number, deadline)
            except Misuse:
                raise
            except FencepostError as error:
                log.warning(
                    "%s: what was left open in slot %d is not aborted yet: %s", self.settings.transactional_id_prefix, number, error
                )

    async def _dismiss(self, slot: Slot, deadline: float) -> None:
        """Close a producer that cannot go on. A prepared transaction stays open."""
        producer = slot.producer
        log.warning("%s: slot %d gets a new producer: %r", self.settings.transactional_id_prefix, slot.number, producer)
        if slot.state in UNENDED:
            with suppress(FencepostError):
                await self._edge.call(producer.abort, _left_s(deadline))
        with suppress(FencepostError):
            await self._edge.call(producer.close, 0.0)
        with self._lock:
            slot.producer, slot.in_doubt = None, False
            self._counters.replaced += 1

    async def _found(self, deadline: float) -> tuple[Tenure, list[int]]:
        """Register the guard's id. Returns also the slots that an earlier process left in a transaction."""
        settings = self.settings
        instance = choose(settings.transactional_id_prefix, settings.lock_directory) if settings.instance is None else None
        if instance is None:
            assert settings.instance is not None
            instance = Instance(settings.instance, chosen=False)
        try:
            guard = self._edge.make({**self._own, "transactional_id": settings.transactional_id(instance.name, "guard")})
            try:
                await self._edge.call(guard.init, _left_s(deadline))
            finally:
                await self._edge.call(guard.close, 0.0)
            ids = {settings.transactional_id(instance.name, number): number for number in range(settings.size)}
            found = await self._edge.ask(partial(unfinished, list(ids), guard._inner.settings, _left_s(deadline)))
        except BaseException:
            instance.release()
            raise
        with self._lock:
            self._tenure = self._slots.tenure = tenure = Tenure(instance, guard)
            self._serve()
        return tenure, [ids[each] for each in found]

    async def _look_whether_ours(self, timeout_s: float) -> Tenure | None:
        """The tenure, if the coordinator still has the guard's identity. None: the pool must choose another instance. Raises PoolTakenOver
        if the instance was given."""
        tenure = self._tenure
        if tenure is None or not await self._edge.call(tenure.guard.replaced, timeout_s):
            return tenure
        error = tenure.lost(self.settings.transactional_id_prefix)
        with self._lock:
            if tenure.instance.chosen:
                if self._tenure is tenure:
                    self._tenure = self._slots.tenure = None
                    tenure.instance.forget()
                    log.warning("the pool chooses another instance: %s", error)
                return None
            self._ended = self._ended or error
            self._wake_all()
        log.error("%s", error)
        raise error

    # -- health and the end --------------------------------------------------------------------------------------------

    async def check(self, timeout: SupportsFloat | None) -> PoolStats:
        """Ask the coordinator whether the pool can begin transactions."""
        limit_s = seconds(timeout, self.settings.acquire_timeout_ms / 1000.0)
        with self._lock:
            self._refuse()
        opened = self._tenure is not None and await self._look_whether_ours(limit_s) is not None
        if not opened or all(slot.producer is None for slot in self._slots.all):
            await self.open_warm(limit_s)
        return self.stats()

    def stats(self) -> PoolStats:
        """The counters now."""
        counters, slots, now = self._counters, self._slots, time.monotonic()
        with self._lock:
            self._settle()
            self._serve()
            return PoolStats(
                size=self.settings.size,
                in_use=slots.count(Phase.IN_USE),
                free=slots.count(Phase.FREE),
                settling=slots.count(Phase.SETTLING),
                waiting=len(self._tickets),
                longest_s=slots.longest_s(now),
                opened=counters.opened,
                committed=counters.committed,
                aborted=counters.aborted,
                prepared=counters.prepared,
                unknown=counters.unknown,
                replaced=counters.replaced,
                timeouts=counters.timeouts,
            )

    async def close(self, timeout: SupportsFloat | None) -> None:
        """Wait for open transactions, abort those that remain, and close every producer."""
        limit_s = seconds(timeout, self.settings.close_timeout_ms / 1000.0)
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._wake_all()
        deadline = time.monotonic() + limit_s
        try:
            await self._wait_for_blocks(deadline - min(ABORT_S, limit_s / 4))
        except BaseException:
            deadline = 0.0
            raise
        finally:
            left = [slot.producer for slot in self._slots.all if slot.producer is not None]
            try:
                await self._edge.together([self._close_one(producer, _left_s(deadline)) for producer in left])
            finally:
                if self._tenure is not None:
                    self._tenure.instance.release()

    async def _wait_for_blocks(self, deadline: float) -> None:
        ticket = self._edge.ticket()
        while self._slots.count(Phase.IN_USE, Phase.OPENING) and _left_s(deadline) > 0.0:
            await ticket.wait(min(LOOK_S, _left_s(deadline)))

    async def _close_one(self, producer: Any, timeout_s: float) -> None:
        try:
            await self._edge.call(producer.close, timeout_s)
        except FencepostError as error:
            log.warning("%r: %s", producer, error)

    # -- small print -------------------------------------------------------------------------------------------------

    def give_locks_away(self) -> None:
        """In a forked child: the parent has the instance."""
        if self._tenure is not None:
            self._tenure.instance.release()

    def _refuse(self) -> None:
        if self.closed:
            raise ProducerClosed("the pool is closed")
        if self._ended is not None:
            raise self._ended.again()

    def _late(self, trouble: FencepostError | None) -> PoolTimeout:
        """The error of a call that got no slot in time."""
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
            told.append(f"{counted(waiting, 'other call waits', 'other calls wait')}")
        help_ = f"the last failure: {trouble}" if trouble is not None else "raise `size`, or make the transactions shorter"
        return PoolTimeout(
            f"no transaction could begin within acquire_timeout_ms={settings.acquire_timeout_ms}: {', '.join(told)}; {help_}"
        )


def _left_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _is_passing(error: BaseException) -> TypeGuard[FencepostError]:
    """Whether the call may try another slot, because no transaction of its own has failed."""
    if isinstance(error, PoolTakenOver | PoolTimeout):
        return False
    return isinstance(error, Retriable | Fenced | IdentityLost | IllegalCall | ProducerClosed)
