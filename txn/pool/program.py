"""What a pool does, written once for threads and for asyncio: take a slot, open it if it has no producer, and put it back.

It decides nothing about a transaction: its own block commits or aborts it.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, SupportsFloat, TypeGuard

from fencepost.producer.errors import Fenced, FencepostError, Misuse, ProducerClosed, Retriable
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.timeouts import seconds
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.coordinator.state_machine import State
from fencepost.txn.errors import CommitOutcomeUnknown, IdentityLost, IllegalCall, TransactionTimeout
from fencepost.txn.pool.errors import PoolTakenOver, PoolTimeout
from fencepost.txn.pool.instance import Instance, choose
from fencepost.txn.pool.instance_registration import InstanceRegistration, PendingRegistration, RegistrationWindow, unfinished
from fencepost.txn.pool.keeper import LOOK_S, CallTimer, SlotKeeper, left_s_of
from fencepost.txn.pool.slots import UNENDED, Holder, Phase, Slot
from fencepost.txn.pool.stats import PoolStats
from fencepost.txn.producer_access import enter_block, register_while, settings_of, state_of

log = logging.getLogger("fencepost.pool")

LEAST_BEGIN_S: Final = 0.5
"""The least time for the beginning in a slot that is free."""
LEAST_ASK_S: Final = 0.5
"""The least time for a question to the coordinator. A registration goes on when its call has left, but a question begins anew."""
REGISTER_S: Final = 0.5
"""How long a slot may send InitProducerId after the pool has heard that it has its instance. Later the pool asks again first: it may have
been cut off from the brokers, and another process may have the instance. InitProducerId would fence that one's slot."""
ASK_S: Final = 2.0
"""How long a pool asks why a transaction was fenced."""
OVERTAKEN: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""What brokers answer to a producer whose transaction another one has aborted, or the coordinator after its timeout."""
ABORTED_AT_CLOSE: Final = (State.OPEN, State.SPOILED)
ABORT_S: Final = 2.0
"""How much of the time of `close` is kept for aborts, at most; never more than a quarter of it."""


class PoolProgram(SlotKeeper):
    """See the module."""

    # -- transactions ------------------------------------------------------------------------------------------------

    async def begin(self, block: Holder, timeout: SupportsFloat | None) -> tuple[Slot, Any]:
        """A slot for this block, and an open transaction in it. Raises PoolTimeout when the time has passed."""
        timer = self._timer(timeout, most=self.settings.acquire_timeout_ms / 1000.0)
        while True:
            slot = await self._acquire(block, timer)
            try:
                transaction = await self._calls.call(slot.producer.begin, max(LEAST_BEGIN_S, timer.left_s))
                enter_block(slot.producer, transaction, timeout)
            except BaseException as error:
                if not self._passes_over(slot, error, timer):
                    raise
                continue
            with self._lock:
                slot.transaction, slot.phase = transaction, Phase.IN_USE
                self._counters.opened += 1
                self._not_opened = ""
            return slot, transaction

    async def end(
        self, slot: Slot, leave: Any, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End a block: commit or abort by the transaction's own rules (`leave`), and put the slot back."""
        failure, producer = error, slot.producer
        try:
            await self._calls.call(leave, kind, error, trace)
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
                    await self._explain(producer, failure)

    async def _explain(self, producer: Any, failure: BaseException) -> None:
        """Raise PoolTakenOver if another process has the pool's instance now. The pool asks if the producer has ended, and if the brokers
        refused its transaction: they do that also when it timed out. If the outcome of the commit is unknown, the caller must hear that:
        PoolTakenOver says that nothing was committed."""
        if not isinstance(failure, FencepostError) or (state_of(producer) is not State.DEAD and failure.code not in OVERTAKEN):
            return
        try:
            await self._look_whether_ours(ASK_S)
        except PoolTakenOver as taken_over:
            if not isinstance(failure, CommitOutcomeUnknown):
                raise taken_over.again() from failure
        except FencepostError as unanswered:
            log.debug("not known whether the instance is taken over: %s", unanswered)

    # -- slots -------------------------------------------------------------------------------------------------------

    async def _acquire(self, holder: Holder, timer: CallTimer) -> Slot:
        """A slot with a registered producer."""
        while True:
            if timer.trouble is not None and timer.left_s <= 0.0:
                with self._lock:
                    late = self._late(timer)
                raise late from timer.trouble
            slot = await self._wait_for_slot(holder, timer)
            if slot.phase is not Phase.OPENING:
                return slot
            try:
                await self._open(slot, timer)
            except BaseException as error:
                if not self._passes_over(slot, error, timer):
                    raise
                continue
            return slot

    def _passes_over(self, slot: Slot, error: BaseException, timer: CallTimer) -> bool:
        """No transaction has begun in the slot. Returns whether the call may try another one."""
        if slot.phase is Phase.OPENING:
            self._not_opened = str(error)
        self._stumbled(slot, error)
        if not _is_passing(error):
            return False
        self._refuse()
        timer.trouble = error
        return True

    # -- opening -----------------------------------------------------------------------------------------------------

    async def open_warm(self, timeout: SupportsFloat | None) -> None:
        """Open the pool and its warm slots."""
        timer = self._timer(timeout)
        with self._lock:
            self._refuse()
        try:
            if self._registration is None:
                slot = await self._acquire(timer, timer)
                with self._lock:
                    self._slots.put_back(slot)
                    self._serve()
            for number in range(self.settings.warm):
                await self._open_vacant(number, timer)
        finally:
            timer.is_gone = True

    async def _open_vacant(self, number: int, timer: CallTimer) -> None:
        with self._lock:
            slot = self._slots.take_vacant(number, timer)
        if slot is None:
            return
        try:
            await self._open(slot, timer)
        except BaseException as error:
            self._stumbled(slot, error)
            raise
        with self._lock:
            self._slots.put_back(slot)
            self._serve()

    async def _open(self, slot: Slot, timer: CallTimer) -> None:
        """Give the slot a producer that is registered. This aborts what an earlier process left open under its id. If the call has to leave
        before that, what the producer has asked goes on, and the next call of the slot waits for the same registration."""
        deadline = timer.deadline
        if slot.is_open:
            await self._dismiss(slot, deadline)
        left_open: list[int] = []
        try:
            await self._open_anew(slot, deadline, left_open)
            self._refuse()  # It may have been closed meanwhile, and closes what it has.
        except BaseException as error:
            if not self._goes_on(error):
                await self._drop(slot)
            raise
        with self._lock:
            self._not_opened = ""
        for number in left_open:
            try:
                await self._open_vacant(number, timer)
            except Misuse:
                raise
            except FencepostError as error:
                log.warning(
                    "%s: what was left open in slot %d is not aborted yet: %s", self.settings.transactional_id_prefix, number, error
                )

    async def _open_anew(self, slot: Slot, deadline: float, left_open: list[int]) -> None:
        """Register until that has an end. A function of its own, as all loops inside a block that has something to end
        (`foundations.rlock`)."""
        while True:
            left_open += await self._prepare_registration(slot, deadline)
            if await self._was_registered(slot, deadline):
                return

    async def _prepare_registration(self, slot: Slot, deadline: float) -> list[int]:
        """Ask whether the pool still has its instance, and let the slot's producer register for a while. Returns the slots that an earlier
        process left in a transaction, if the pool registers its instance only now."""
        left_open: list[int] = []
        registration = self._registration
        if registration is not None:
            registration = await self._look_whether_ours(ask_s(deadline))
        if registration is None:
            registration, left_open = await self._register(deadline)
            if not registration.instance.chosen:
                await self._look_whether_ours(ask_s(deadline))  # Two pools of one instance may open at the same time.
        if slot.registration is not registration:
            await self._drop(slot)
        if slot.producer is None:
            producer, window = self._make(self.settings.transactional_id(registration.instance.name, slot.number))
            with self._lock:
                slot.producer, slot.registration, slot.window = producer, registration, window
        slot.window.extend(REGISTER_S)
        return left_open

    async def _was_registered(self, slot: Slot, deadline: float) -> bool:
        """Wait for the registration. False: it has taken so long that another process may have the instance meanwhile."""
        left_s = left_s_of(deadline)
        try:
            await self._calls.call(slot.producer.init, min(left_s, REGISTER_S))
        except TransactionTimeout:
            if left_s <= REGISTER_S:
                raise
            return False
        return True

    async def _dismiss(self, slot: Slot, deadline: float) -> None:
        """Close a producer that cannot go on. A prepared transaction stays open."""
        producer = slot.producer
        log.warning("%s: slot %d gets a new producer: %r", self.settings.transactional_id_prefix, slot.number, producer)
        if slot.state in UNENDED:
            with suppress(FencepostError):
                await self._calls.call(producer.abort, left_s_of(deadline))
        await self._drop(slot)
        with self._lock:
            slot.in_doubt = False
            self._counters.replaced += 1

    async def _drop(self, slot: Slot) -> None:
        """Close the slot's producer, if it has one, without waiting for anything."""
        if slot.producer is not None:
            await self._close(slot.producer)
        slot.producer = None

    async def _register(self, deadline: float) -> tuple[InstanceRegistration, list[int]]:
        """Register the guard's id. Returns also the slots that an earlier process left in a transaction. If the call has to leave before
        that, what the guard has asked goes on, and the next call waits for the same registration."""
        settings = self.settings
        with self._lock:  # Two calls may register at the same time, after the pool has lost its instance.
            pending = self._pending_registration = self._pending_registration or self._begin_registration()
        guard = pending.guard
        try:
            if not pending.is_registered:
                pending.window.extend(ask_s(deadline))
                await self._calls.call(guard.init, left_s_of(deadline))
                pending.is_registered = True
            await self._close(guard)
            ids = {settings.transactional_id(pending.instance.name, number): number for number in range(settings.size)}
            found = await self._calls.ask(partial(unfinished, list(ids), settings_of(guard), ask_s(deadline)))
            return self._registered(pending), [ids[each] for each in found]
        except BaseException as error:
            if not self._goes_on(error):
                with self._lock:  # If another call has registered it meanwhile, the pool has the instance.
                    is_pending = self._pending_registration is pending
                    if is_pending:
                        self._pending_registration = None
                await self._close(guard)
                if is_pending:
                    pending.instance.release()
            raise

    def _registered(self, pending: PendingRegistration) -> InstanceRegistration:
        """The pool's registration. A pool that was closed meanwhile has none, because `close` may have looked for it before."""
        with self._lock:
            self._refuse()
            if self._pending_registration is pending:
                self._registration = self._slots.registration = InstanceRegistration(pending.instance, pending.guard)
                self._pending_registration = None
                self._serve()
            if self._registration is None:
                raise ProducerClosed("the pool's registration was made, and ended, by another call")
            return self._registration

    def _begin_registration(self) -> PendingRegistration:
        settings = self.settings
        if settings.instance is None:
            instance = choose(settings.transactional_id_prefix, settings.lock_directory)
        else:
            instance = Instance(settings.instance, chosen=False)
        return PendingRegistration(instance, *self._make(settings.transactional_id(instance.name, "guard")))

    def _goes_on(self, error: BaseException) -> bool:
        """Whether what the call has begun goes on without it: its time has passed, or it was cancelled or interrupted. In a pool that was
        closed meanwhile nothing does, because `close` may have looked before this began."""
        return not self.closed and (isinstance(error, TransactionTimeout) or not isinstance(error, Exception))

    def _make(self, transactional_id: str) -> tuple[Any, RegistrationWindow]:
        """A producer, which the pool's `close` closes if nothing does before, and when it may register."""
        self._refuse()
        producer, window = self._calls.make({**self._own, "transactional_id": transactional_id}), RegistrationWindow()
        self._producers.append(producer)
        register_while(producer, window.is_open)
        return producer, window

    async def _close(self, producer: Any, deadline: float = 0.0) -> None:
        """Close a producer, if that has not happened yet. If this call is interrupted, the pool's `close` closes it."""
        try:
            await self._calls.call(producer.close, left_s_of(deadline))
        except FencepostError as error:
            log.warning("%r: %s", producer, error)
        with suppress(ValueError):
            self._producers.remove(producer)

    async def _look_whether_ours(self, timeout_s: float) -> InstanceRegistration | None:
        """The registration, if the coordinator still has the guard's identity. None: the pool must choose another instance. Raises
        PoolTakenOver if the instance was given."""
        registration = self._registration
        if registration is None or not await self._calls.call(registration.guard.replaced, timeout_s):
            return registration
        error = registration.lost(self.settings.transactional_id_prefix)
        await self._stop_registering()
        with self._lock:
            if registration.instance.chosen:
                if self._registration is registration:
                    self._registration = self._slots.registration = None
                    registration.instance.forget()
                    log.warning("the pool chooses another instance: %s", error)
                return None
            self._ended = self._ended or error
            self._wake_all()
        log.error("%s", error)
        raise error

    async def _stop_registering(self) -> None:
        """End the registrations that go on without a caller: they would fence the producers of another process."""
        for slot in self._slots.all:
            with self._lock:
                if slot.phase is not Phase.VACANT or not slot.is_registering:
                    continue
                producer, slot.producer = slot.producer, None
            await self._close(producer)

    # -- health and the end --------------------------------------------------------------------------------------------

    async def check(self, timeout: SupportsFloat | None) -> PoolStats:
        """Ask the coordinator whether the pool can begin transactions."""
        limit_s = seconds(timeout, self.settings.acquire_timeout_ms / 1000.0)
        with self._lock:
            self._refuse()
        opened = self._registration is not None and await self._look_whether_ours(limit_s) is not None
        if not opened or not any(slot.is_open for slot in self._slots.all):
            await self.open_warm(limit_s)
        return self.stats()

    async def close(self, timeout: SupportsFloat | None) -> None:
        """Wait for open transactions, abort those that remain, and close every producer. A call that Ctrl-C struck can be repeated."""
        limit_s = seconds(timeout, self.settings.close_timeout_ms / 1000.0)
        with self._lock:
            if self._is_ended:
                return
            self.closed = True
            self._wake_all()
        deadline = time.monotonic() + limit_s
        try:
            await self._wait_for_blocks(deadline - min(ABORT_S, limit_s / 4))
            self._warn_of_blocks(timeout, limit_s)
        except BaseException:
            deadline = 0.0
            raise
        finally:
            try:
                await self._calls.together([self._close(each, deadline) for each in list(self._producers)])
            finally:
                self._release_instance()
        self._is_ended = True

    async def _wait_for_blocks(self, deadline: float) -> None:
        ticket = self._calls.ticket(Holder())
        while self._slots.count(Phase.IN_USE, Phase.OPENING) and left_s_of(deadline) > 0.0:
            with self._lock:
                self._settle()
            await ticket.wait(min(LOOK_S, left_s_of(deadline)))

    def _warn_of_blocks(self, timeout: SupportsFloat | None, limit_s: float) -> None:
        """Their transactions are now aborted. Those that are prepared stay open, and those whose commit goes on end by themselves."""
        with self._lock:
            left = sum(slot.phase is Phase.IN_USE and slot.state in ABORTED_AT_CLOSE for slot in self._slots.all)
        if not left:
            return
        if timeout is None:
            within, longer = f"close_timeout_ms={self.settings.close_timeout_ms}", "raise close_timeout_ms"
        else:
            within, longer = f"timeout={limit_s:g} s", "give close() a longer timeout"
        log.warning(
            "%s: %s within %s: close() aborts %s, and readers of committed records see none of %s records. End the blocks sooner, or %s",
            self.settings.transactional_id_prefix,
            counted(left, "block has not ended", "blocks have not ended"),
            within,
            *(("its transaction", "its") if left == 1 else ("their transactions", "their")),
            longer,
        )

    # -- small print -------------------------------------------------------------------------------------------------

    def give_locks_away(self) -> None:
        """In a forked child: the parent has the instance."""
        self._release_instance()

    def _release_instance(self) -> None:
        for owner in (self._pending_registration, self._registration):
            if owner is not None:
                owner.instance.release()


def ask_s(deadline: float) -> float:
    """How long a question may take in a call with this deadline."""
    return max(LEAST_ASK_S, left_s_of(deadline))


def _is_passing(error: BaseException) -> TypeGuard[FencepostError]:
    """Whether the call may try another slot, because no transaction of its own has failed."""
    if isinstance(error, PoolTakenOver | PoolTimeout):
        return False
    return isinstance(error, Retriable | Fenced | IdentityLost | IllegalCall | ProducerClosed)
