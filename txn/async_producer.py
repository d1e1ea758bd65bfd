"""The transactional producer for asyncio: the same transaction manager on the caller's event loop, without a thread.

A cancelled call does not take back what was asked of a coordinator. A commit under way continues, and the next `commit` or `abort` reports
its outcome. It refuses what `AsyncProducer` refuses: another event loop, and a forked child.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsFloat, TypeVar, Unpack

from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture
from fencepost.producer.async_producer import send_whole
from fencepost.producer.base_producer import unpicklable
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.errors import DeliveryError, Fatal, FencepostError, ProducerClosed, bound_to_process
from fencepost.producer.observe.stats import ProducerStats
from fencepost.txn.config.keywords import TransactionalKeywords
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.coordinator.exit_and_fork import GIVEN_UP
from fencepost.txn.coordinator.inner_async_producer import InnerAsyncProducer
from fencepost.txn.coordinator.rerun_policy import refuse_undone, worth_another
from fencepost.txn.coordinator.send_admission import NoTransaction
from fencepost.txn.coordinator.send_gate import Begun, SendGate
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from fencepost.txn.coordinator.transaction_spans import TransactionSpans
from fencepost.txn.errors import CommitOutcomeUnknown, IllegalCall, MustAbort, TransactionTimeout
from fencepost.txn.group_metadata import GroupMetadata, read_group
from fencepost.txn.offsets import Offsets, read_offsets
from fencepost.txn.recovery.own_outcome import LEAST_S, find_out, settle, to_ask_about
from fencepost.txn.recovery.successor import find_successor
from fencepost.txn.recovery.token import PreparedTransaction
from fencepost.txn.shared.participation import TP, Participation, Written, check_partitions
from fencepost.txn.shared.shared_partitions import ShareRequest, read_written

log = logging.getLogger("fencepost.txn")

T = TypeVar("T")


class AsyncTransactionalProducer:
    """`TransactionalProducer` for asyncio; settings, guarantees and errors are the same.

        async with AsyncTransactionalProducer(bootstrap_servers="localhost:9092", transactional_id="orders-1") as producer:
            async with producer.transaction() as tx:
                await tx.send("orders", b"order 1")  # accepted: the commit at the block's end waits for the rest

    One transaction at a time; any number of tasks may write to it. A block that is cancelled is aborted, within `exit_flush_ms`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[TransactionalKeywords]) -> None:
        ours, rest = read_transaction_settings({**(config or {}), **settings})
        self.transactional_id = ours.transactional_id
        self._manager = TransactionManager.of(ours)
        self._inner = InnerAsyncProducer(self._manager, rest)
        self._closed = False
        self._writing = SendGate.of_tasks()
        self._spans = TransactionSpans(self._inner.telemetry, self._manager.transactional_id)
        self._manager.on_over = self._spans.ended

    def __repr__(self) -> str:
        state = self._manager.machine.state.name
        return f"{type(self).__name__}(transactional_id={self.transactional_id!r}, state={state}, {self._inner.described()})"

    # -- transactions ------------------------------------------------------------------------------------------------

    async def init(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.init`."""
        await self._call(Event.INIT, timeout)

    def transaction(self, timeout: SupportsFloat | None = None) -> AsyncTransaction:
        """A transaction as an `async with` block: committed at its end, aborted if an exception leaves it."""
        self._inner.admission.patience_s(timeout)
        return AsyncTransaction(self, timeout)

    async def begin(self, timeout: SupportsFloat | None = None) -> AsyncTransaction:
        """Begin a transaction. If the call is cancelled, no transaction has begun."""
        self._inner.admission.refuse_after_fork()
        limit_s = self._inner.admission.patience_s(timeout)
        deadline = time.monotonic() + limit_s
        self._manager.refuse(Event.BEGIN)
        if not await self._writing.let_others_out(limit_s):
            raise TransactionTimeout("begin: a send into the previous transaction has not returned")
        begun = Begun()
        span = self._spans.begin()
        try:
            begun.number = await self._call(Event.BEGIN, max(0.0, deadline - time.monotonic()))
            self._writing.newest = begun
            self._spans.open.sending = span
        except BaseException as error:
            self._spans.not_begun(span, error)
            raise
        return AsyncTransaction(self, timeout, number=begun.number)

    async def commit(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.commit`. If the call is cancelled, the transaction may be committed: the next `commit` or `abort` reports
        it."""
        await self._end(Event.COMMIT, timeout, self._writing.current)

    async def abort(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.abort`. If the call is cancelled, the abort continues, and another `abort` waits for it."""
        await self._end(Event.ABORT, timeout, self._writing.current)

    async def prepare(self, timeout: SupportsFloat | None = None) -> PreparedTransaction:
        """`TransactionalProducer.prepare`. If the call is cancelled, the transaction may be prepared; calling it again returns the
        token."""
        return await self._prepare(timeout, self._writing.current)

    async def run(self, work: Callable[[AsyncTransaction], Awaitable[T]], *, timeout: SupportsFloat | None = None, attempts: int = 5) -> T:
        """`TransactionalProducer.run`, of a coroutine function."""
        if attempts < 1:
            raise ValueError(f"attempts={attempts}: the smallest number is 1")
        while True:
            attempts -= 1
            try:
                async with self.transaction(timeout) as tx:
                    result = await work(tx)
                    refuse_undone(work, result)
                    return result
            except (MustAbort, DeliveryError) as error:
                if attempts < 1 or not tx._aborted or not worth_another(error):
                    raise
                log.info("transactional id %s: once more, as %s", self.transactional_id, error)

    # -- records -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """`AsyncProducer.send`, into the open transaction. The result need not be awaited, because the commit waits for it."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return await self._inner.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery
            )

    def try_send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """`AsyncProducer.try_send`, into the open transaction."""
        self._manager.refuse_spoilt()
        return self._inner.try_send(
            topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery
        )

    async def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`AsyncProducer.send_many`, into the open transaction."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return await self._inner.send_many(topic, records, partition=partition)

    async def send_arrow(self, topic: str, data: Any, **columns: Any) -> BulkFuture:
        """`AsyncProducer.send_arrow`, into the open transaction."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return await self._inner.send_arrow(topic, data, **columns)

    async def send_offsets(self, offsets: object, group: object, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.send_offsets`. If the call is cancelled, the offsets are still part of the transaction."""
        await self._send_offsets(offsets, group, timeout, self._writing.current)

    async def flush(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.flush`."""
        await self._inner.flush(timeout)

    async def partitions_for(self, topic: str, timeout: SupportsFloat | None = None) -> list[int]:
        """`AsyncProducer.partitions_for`."""
        return await self._inner.partitions_for(topic, timeout)

    async def replaced(self, timeout: SupportsFloat | None = None) -> bool:
        """`TransactionalProducer.replaced`."""
        identity, version2 = self._manager.identity, self._manager.version2
        limit_s = self._inner.admission.patience_s(timeout)
        return await find_successor(self.transactional_id, identity, self._inner.settings, limit_s, version2=version2)

    @property
    def unacknowledged(self) -> int:
        """`Producer.unacknowledged`."""
        return self._inner.unacknowledged

    def stats(self) -> ProducerStats:
        """`Producer.stats`."""
        return self._inner.stats()

    # -- the end -----------------------------------------------------------------------------------------------------

    async def close(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.close`: aborts an open transaction, waits for a commit under way, and leaves a prepared transaction to the
        processes that have its token. If the call is cancelled, the producer ends at once."""
        left_s = limit_s = self._inner.admission.patience_s(timeout)
        if self._closed:
            await self._inner.close(limit_s)  # An earlier call may have been cancelled before the connections ended.
            return
        began = time.monotonic()
        try:
            why = self._manager.gives_up_at_close()
            event = self._manager.end_at_close()
            if event is not None:
                await self._call(event, limit_s)
                if why is not None:
                    log.warning(GIVEN_UP, self.transactional_id, why)
            left_s = max(0.0, limit_s - (time.monotonic() - began))
        except FencepostError as error:
            left_s = 0.0
            log.warning("transactional id %s: closed in a transaction: %s", self.transactional_id, error)
        except BaseException:
            left_s = 0.0
            raise
        finally:
            self._closed = True
            try:
                await self._inner.close(left_s)
            finally:
                self._spans.closed()

    def __reduce__(self) -> NoReturn:
        raise unpicklable(type(self).__name__)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close(self._inner.time_to_leave(error))

    # -- small print -------------------------------------------------------------------------------------------------

    async def _send_whole(self, topic: str, records: Sequence[object], partition: int) -> BulkFuture:
        """`send_whole`, into the open transaction."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return await send_whole(self._inner, topic, records, partition)

    async def _send_offsets(self, offsets: object, group: object, timeout: SupportsFloat | None, number: int) -> None:
        given, member = read_offsets(offsets), read_group(group)
        self._manager.refuse_spoilt()
        if given:
            await self._call(Event.SEND_OFFSETS, timeout, number, (member, given))

    async def _share(self, partitions: Iterable[TP], timeout: SupportsFloat | None, number: int) -> Participation:
        share_request = ShareRequest(partitions=check_partitions(partitions))
        await self._call(Event.SHARE, timeout, number, share_request=share_request)
        assert share_request.participation is not None
        return share_request.participation

    async def _returned(self, written: Iterable[Written], timeout: SupportsFloat | None, number: int) -> None:
        share_request = ShareRequest(written=read_written(written))
        if share_request.written:
            await self._call(Event.RETURNED, timeout, number, share_request=share_request)

    async def _call(
        self,
        event: Event,
        timeout: SupportsFloat | None,
        number: int = 0,
        offsets: tuple[GroupMetadata, Offsets] | None = None,
        share_request: ShareRequest | None = None,
    ) -> int:
        """Make a call and wait for its outcome."""
        if self._closed:
            raise ProducerClosed("the producer is closed")
        admission = self._inner.admission
        call = admission.call(event, admission.patience_s(timeout), number, offsets, share_request)
        try:
            admission.make(call)
            return await call.outcome.heard()
        except asyncio.CancelledError:
            if admission.leave(call) is not None:
                await asyncio.sleep(0)  # The transaction is aborted meanwhile.
            raise

    async def _prepare(self, timeout: SupportsFloat | None, number: int) -> PreparedTransaction:
        await self._call(Event.PREPARE, timeout, number)
        self._spans.ended(Event.PREPARE)
        return self._manager.hand_out()

    async def _end(self, event: Event, timeout: SupportsFloat | None, number: int) -> None:
        try:
            await self._end_or_find_out(event, self._inner.admission.patience_s(timeout), number)
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: self._end(Event.COMMIT, limit, number)
            self._spans.failed(unknown)
            raise
        except Fatal as error:
            self._spans.failed(error)
            raise
        if self._writing.over(number) and not self._manager.knows(number):
            self._spans.ended(event)

    async def _end_or_find_out(self, event: Event, limit_s: float, number: int) -> None:
        preparation = self._manager.preparation
        prepared = preparation.token if preparation.token is not None and preparation.token.wrote else None
        began = time.monotonic()
        try:
            await self._call(event, limit_s, number)
        except FencepostError as error:
            if self._closed and self._manager.knows(number):
                told = self._manager.about_the_past(event, number)
                if told is None:
                    return
                raise ProducerClosed(f"the producer is closed; {told}") from error
            refusal = self._manager.refusal_of(error)
            token = to_ask_about(prepared, preparation.in_question, refusal)
            if token is None:
                raise
            left_s = limit_s - (time.monotonic() - began)
            status = await find_out(token, refusal, self._inner.settings, left_s)
            if not isinstance(refusal, Fatal):
                await self._give_up()
            settle(status, refusal, committed=event is Event.COMMIT, prepared=prepared is not None)

    async def _give_up(self) -> None:
        """If the coordinator has ended the transaction, end it here too."""
        try:
            await self._call(Event.ABORT, LEAST_S)
        except FencepostError as error:
            log.debug("transactional id %s: %s", self.transactional_id, error)

    def _is_handed_out(self, number: int) -> bool:
        """Whether `prepare` has returned the token of that transaction."""
        return number == self._writing.current and self._manager.preparation.handed_out


class AsyncTransaction:
    """One transaction of a producer; see `AsyncTransactionalProducer.transaction`. `over`: it has been committed or aborted."""

    def __init__(self, producer: AsyncTransactionalProducer, timeout: SupportsFloat | None, *, number: int = 0) -> None:
        self._producer = producer
        self._inner = producer._inner
        self._writing = producer._writing
        self._timeout = timeout
        self._number = number
        self._prepared = False
        self._aborted = False
        self.over = False

    def __reduce__(self) -> NoReturn:
        raise bound_to_process("AsyncTransaction", "share it with a Participant, or make a producer in the worker or task")

    def __repr__(self) -> str:
        state = "over" if self.over else "prepared" if self._prepared else "open" if self._number else "not begun"
        return f"{type(self).__name__}(transactional_id={self._producer.transactional_id!r}, {state})"

    async def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """`AsyncTransactionalProducer.send`, while this transaction is open."""
        with self._writing.note():
            self._refuse_past()
            return await self._inner.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery
            )

    def try_send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """`AsyncTransactionalProducer.try_send`, while this transaction is open."""
        self._refuse_past()
        return self._inner.try_send(
            topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery
        )

    async def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`AsyncTransactionalProducer.send_many`, while this transaction is open."""
        with self._writing.note():
            self._refuse_past()
            return await self._inner.send_many(topic, records, partition=partition)

    async def send_arrow(self, topic: str, data: Any, **columns: Any) -> BulkFuture:
        """`AsyncTransactionalProducer.send_arrow`, while this transaction is open."""
        with self._writing.note():
            self._refuse_past()
            return await self._inner.send_arrow(topic, data, **columns)

    async def send_offsets(self, offsets: object, group: object, timeout: SupportsFloat | None = None) -> None:
        """`AsyncTransactionalProducer.send_offsets`, while this transaction is open."""
        self._refuse_past()
        await self._producer._send_offsets(offsets, group, self._timeout if timeout is None else timeout, self._number)

    async def share(self, partitions: Iterable[TP], timeout: SupportsFloat | None = None) -> Participation:
        """`Transaction.share`. If the call is cancelled, the partitions may be shared although the caller has no participation: abort."""
        self._refuse_past()
        return await self._producer._share(partitions, self._timeout if timeout is None else timeout, self._number)

    async def returned(self, written: Iterable[Written]) -> None:
        """`Transaction.returned`. If the call is cancelled, the accounts may have been taken, and cannot be returned again."""
        self._refuse_past()
        await self._producer._returned(written, self._timeout, self._number)

    async def prepare(self, timeout: SupportsFloat | None = None) -> PreparedTransaction:
        """`AsyncTransactionalProducer.prepare`, for this transaction only. Leaving the block afterwards aborts nothing."""
        if not self._number:
            raise NoTransaction("prepare: this transaction has not begun")
        token = await self._producer._prepare(self._timeout if timeout is None else timeout, self._number)
        self._prepared = True
        return token

    async def commit(self, timeout: SupportsFloat | None = None) -> None:
        """`AsyncTransactionalProducer.commit`, for this transaction only."""
        await self._finish(Event.COMMIT, self._timeout if timeout is None else timeout)

    async def abort(self, timeout: SupportsFloat | None = None) -> None:
        """`AsyncTransactionalProducer.abort`, for this transaction only."""
        await self._finish(Event.ABORT, self._timeout if timeout is None else timeout)

    async def __aenter__(self) -> Self:
        if not self._number:
            self._number = (await self._producer.begin(self._timeout))._number
        self._producer._manager.block = self._number  # set without a call, at which Ctrl-C could strike
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.over or self._prepared or self._producer._is_handed_out(self._number):
            return
        if error is not None:
            await self._give_up(error)
            return
        try:
            await self.commit()
        except CommitOutcomeUnknown:
            raise  # The transaction may be committed.
        except TransactionTimeout as late:
            await self._abort_or_hear(late)
        except BaseException as failed:
            await self._give_up(failed)
            raise

    async def _give_up(self, error: BaseException) -> None:
        """Abort, unless the coordinator was asked to commit. A failure of the abort must not hide the first error."""
        try:
            await self.abort(self._producer._inner.time_to_leave(error))
        except FencepostError as second:
            log.warning("transactional id %s: not aborted after %r: %s", self._producer.transactional_id, error, second)

    async def _abort_or_hear(self, late: TransactionTimeout) -> None:
        """Abort a transaction whose commit ran out of time. If the coordinator has been asked to commit by now, report the outcome instead,
        or raise CommitOutcomeUnknown if it is not known."""
        try:
            await self.abort(self._producer._inner.time_to_leave(late))
        except IllegalCall:
            try:
                await self.commit(0.0)
            except MustAbort as failed:
                await self._give_up(failed)
                raise
            return
        except FencepostError as second:
            log.warning("transactional id %s: not aborted after %r: %s", self._producer.transactional_id, late, second)
        raise late

    async def _finish(self, event: Event, timeout: SupportsFloat | None) -> None:
        if not self._number:
            raise NoTransaction(f"{event.value}: this transaction has not begun")
        await self._producer._end(event, timeout, self._number)
        self.over = True
        self._aborted = event is Event.ABORT

    def _refuse_past(self) -> None:
        producer = self._producer
        if self.over or self._number != producer._writing.current:
            raise NoTransaction("this transaction is not open: the record was not accepted")
        producer._manager.refuse_spoilt()
