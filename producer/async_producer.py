"""The producer for asyncio: the same core on the caller's own event loop, without a thread.

No call blocks the loop. All calls must come from it: a producer belongs to the loop on which it was first used. Tasks that wait for room
are served first come, first served. A task waits only if there is no room, or if other tasks wait for some.

Cancelling a wait takes no record back. Records that were accepted before are delivered, and the others were never counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, SupportsFloat, TypeVar, Unpack

from fencepost.producer.accumulator.batch import Batch, Headers, OnDelivery, RecordFuture
from fencepost.producer.accumulator.pending_record import PendingRecord
from fencepost.producer.base_producer import BaseProducer, check_topic, no_outcome, place_of, wall_ms
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.chunks import Chunk
from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.producer.core.core import Core
from fencepost.producer.core.events import Event
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.errors import Misuse, ProducerClosed, UndeliveredRecords, plain
from fencepost.producer.foundations.timeouts import seconds
from fencepost.producer.network.async_engine import AsyncEngine, Signal
from fencepost.producer.network.exit_and_fork import ExitGuard
from fencepost.producer.serializers import result_of, row_of, taken_apart
from fencepost.producer.telemetry.traced import TracedBulk

log = logging.getLogger("fencepost.producer")

T = TypeVar("T")

Chunks = Iterator[Chunk | None] | Awaitable[Iterator[Chunk | None]]
"""The chunks of a bulk, or what gives them once its rows are serialized."""


class AsyncProducer(BaseProducer):
    """An idempotent Kafka producer for asyncio; settings, guarantees and errors are those of `Producer`.

        async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("events", b"hello")   # accepted: there was room
            metadata = await future                            # acknowledged

    Delivery callbacks run on the loop, a partition's in the order of its records.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        super().__init__(config, settings)
        self._side: AsyncEngine | None = None
        self._turn = asyncio.Lock()

    # -- sending -----------------------------------------------------------------------------------------------------

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
        """Accept one record and return the future of its delivery, which can be awaited. Waits up to `max_block_ms` for the topic, and for
        room. Arguments and errors are `Producer.send`'s. If the call is cancelled while it waits, the record is not accepted. Asynchronous
        serializers are awaited first: records of tasks that send at the same time are then accepted in the order in which these return."""
        self._running()
        if self._awaited_serializers:
            accepted = await self._accept_awaited(topic, value, key, partition, headers, timestamp, on_delivery)
        elif self._serializes:
            accepted = self._accept_prepared(topic, value, key, partition, headers, timestamp, on_delivery)
        else:
            accepted = self._accept(topic, value, key, partition, headers, timestamp, on_delivery)
        # Not isinstance, which takes longer in a module that is not compiled.
        return await self._accept_later(accepted) if type(accepted) is PendingRecord else accepted

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
        """`send` that never waits. Raises BufferFull if the buffer has no room or other tasks wait for some, and TopicUnavailable if the
        topic is not known yet. The producer then requests its metadata: try again. Raises Misuse with an asynchronous serializer."""
        self._running()
        if self._awaited_serializers:
            raise Misuse(f"try_send does not wait, and {self._awaited_serializers[0]} is asynchronous: use send")
        if self._serializes:
            accepted = self._accept_prepared(topic, value, key, partition, headers, timestamp, on_delivery)
        else:
            accepted = self._accept(topic, value, key, partition, headers, timestamp, on_delivery)
        return self._accept_now(accepted) if type(accepted) is PendingRecord else accepted

    async def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`Producer.send_many`. The future can be awaited. If the call is cancelled, the rows accepted so far are delivered. Asynchronous
        serializers are awaited for all rows before the first one is accepted."""
        span = self._bulk_span(topic)
        chunks = self._awaited_chunks(topic, records, span) if self._awaited_serializers else self._rows(topic, records, span)
        return await self._send_traced(span, topic, chunks, partition)

    async def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        value: str = "value",
        key: str | None = None,
        partition: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
    ) -> BulkFuture:
        """`Producer.send_arrow`. The future can be awaited. If the call is cancelled, the rows accepted so far are delivered."""
        chunks = self._arrow_chunks(data, value=value, key=key, partition=partition, headers=headers, timestamp=timestamp)
        return await self._send_traced(self._bulk_span(topic), topic, chunks, None)

    async def partitions_for(self, topic: str, timeout: SupportsFloat | None = None) -> list[int]:
        """The topic's partitions. Waits up to `timeout` seconds (None: max_block_ms) for a topic that is not known yet."""
        limit_s = seconds(timeout, self._settings.max_block_ms / 1000.0)
        self._running()
        self._refuse_after_close()
        check_topic(topic)
        if not self._known(topic, -1):
            await self._hear_of(topic, -1, limit_s)
        return list(range(self._topics[topic].partitions))

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def flush(self, timeout: SupportsFloat | None = None) -> None:
        """Wait until every record accepted before this call has its outcome and its callbacks have returned, as `Producer.flush`."""
        await self._drain(seconds(timeout, self._patience_s))
        await self._raise_unread(self._running())

    async def close(self, timeout: SupportsFloat | None = None) -> None:
        """Deliver the records that are left, then end the connections, as `Producer.close`. If it is cancelled, it ends them at once."""
        limit_s = seconds(timeout, self._patience_s)
        if self._closed:
            return
        side = self._running()
        self._refuse_records()
        try:
            await self._drain(limit_s)
        except TimeoutError as late:
            log.warning("close: %s", late)
        finally:
            # If it is interrupted before these lines, the program can call `close` once more.
            await side.end(ProducerClosed("the producer was closed before the record was acknowledged"))
            self._closed = True
        await self._raise_unread(side)

    async def __aenter__(self) -> Self:
        self._running()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            await self.close(self._time_to_leave(error))
        except UndeliveredRecords as undelivered:
            if error is None:
                raise
            log.error("while another exception left the block: %s", undelivered)

    # -- small print -------------------------------------------------------------------------------------------------

    def _running(self) -> AsyncEngine:
        """The engine. The first call begins it, on the loop that runs."""
        self._shared.refuse_after_fork()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise Misuse("this is called on the event loop of the producer: no loop runs on this thread; elsewhere use Producer") from None
        if self._side is None:
            side = AsyncEngine(
                self._settings,
                self._accumulator,
                self._shared,
                loop,
                transactions=self._transactions(),
                announce=self._known_topics.announce,
                died=self._known_topics.die,
            )
            exit_guard = ExitGuard(side, self._accumulator, self._shared, exit_flush_s=self._settings.exit_flush_ms / 1000.0)
            self._exit_guard, self._side = exit_guard, side
        elif self._side.loop is not loop:
            raise Misuse(
                "this producer belongs to the event loop on which it was first used, and this is another one: make one for each loop;"
                " each asyncio.run has a loop of its own"
            )
        return self._side

    async def _accept_awaited(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: Headers | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture | PendingRecord:
        """`_accept_prepared` with asynchronous serializers."""
        if self._interceptors is None:
            headers = self._own_headers(headers)
            key, value = await self._serialized_later(topic, key, value, headers)
            return self._accept(topic, value, key, partition, headers, timestamp, on_delivery)
        seen = self._seen(self._interceptors, topic, value, key, partition, headers, timestamp)
        try:
            key, value = await self._serialized_later(seen.topic, seen.key, seen.value, seen.headers)
            return self._accept_seen(self._interceptors, seen, key, value, on_delivery)
        except (Exception, asyncio.CancelledError) as error:
            self._interceptors.refused(seen, error)
            raise

    async def _serialized_later(self, topic: str, key: object, value: object, headers: Headers | None) -> tuple[object, object]:
        """`_serialized` with asynchronous serializers."""
        field = "key"
        try:
            if key is not None and self._serialize_key is not None:
                key = await result_of(self._serialize_key(topic, key, headers))
            field = "value"
            if value is not None and self._serialize_value is not None:
                value = await result_of(self._serialize_value(topic, value, headers))
        except Exception as error:
            error.add_note(f"{field}_serializer raised this for a {field} of topic {topic!r}")
            raise
        return key, value

    async def _awaited_chunks(self, topic: str, records: Iterable[object], bulk: TracedBulk | None) -> Iterator[Chunk | None]:
        """`_rows` with asynchronous serializers."""
        made: list[object] = []
        for number, row in enumerate(self._seen_rows(topic, records, bulk)):
            try:
                key, value, headers = taken_apart(row)
                headers = self._own_headers(headers)
                made.append(row_of(row, await self._serialized_later(topic, key, value, headers), headers))
            except Exception as error:
                error.add_note(f"row {number}")
                raise
        return self._chunks(made, whole=True)

    async def _accept_later(self, record: PendingRecord) -> RecordFuture:
        """Wait for the topic, and for room in the buffer, up to max_block_ms each."""
        try:
            await self._await_topic(record.topic, record.partition)
            append = self._appending(record)
            future = append() if not self._in_line else None
            return future if future is not None else await self._when_room(append)
        except (Exception, asyncio.CancelledError) as error:
            record.refused(error)
            raise

    async def _send_traced(self, span: TracedBulk | None, topic: str, chunks: Chunks, partition: int | None) -> BulkFuture:
        """`_send_bulk`, in the bulk's span."""
        if span is None:
            return await self._send_bulk(topic, chunks, partition)
        with span:
            return span.accepted(await self._send_bulk(topic, chunks, partition, span.context))

    async def _send_bulk(self, topic: str, chunks: Chunks, partition: int | None, span_context: object = None) -> BulkFuture:
        bulk = BulkFuture(self._shared, span_context)
        try:
            check_topic(topic)
            where = place_of(partition)
            await self._send_chunks(bulk, topic, await chunks if isinstance(chunks, Awaitable) else chunks, where)
        except BaseException as error:
            error.sent = bulk  # type: ignore[attr-defined]
            raise
        finally:
            bulk._whole = True
        return bulk

    async def _send_chunks(self, bulk: BulkFuture, topic: str, chunks: Iterable[Chunk | None], where: int) -> None:
        """Append the chunks. A function of its own, as all loops inside a block that has something to end (`foundations.rlock`)."""
        for chunk in chunks:
            if chunk is None:
                await asyncio.sleep(0)
                continue
            await self._await_topic(topic, max(chunk.partition_max, where))
            self._place(topic, chunk, where)
            target = self._target(topic, bulk, where)
            while not chunk.done:
                await self._fill(chunk, target)

    async def _send_whole(self, topic: str, records: Sequence[object], partition: int) -> BulkFuture:
        """See `send_whole`."""
        check_topic(topic)
        chunks = [chunk for chunk in self._chunks(records, whole=True) if chunk is not None]
        await self._await_topic(topic, partition)
        bulk = BulkFuture(self._shared, None)
        target = self._target(topic, bulk, partition)
        need = sum(chunk.most_bytes for chunk in chunks)

        def accept() -> BulkFuture | None:
            # No other task runs meanwhile, so nothing else takes the room.
            if not self._has_room(need):
                return None
            for chunk in chunks:
                while not chunk.done:
                    chunk.step(target, wall_ms())
            return bulk

        try:
            accepted = None if self._in_line else accept()
            return accepted if accepted is not None else await self._when_room(accept)
        finally:
            bulk._whole = True

    def _has_room(self, need: int) -> bool:
        accumulator = self._accumulator
        with self._shared.region:
            accumulator.bring_in()
            return bool(accumulator.room_for(need))

    async def _raise_unread(self, side: AsyncEngine) -> None:
        """Raise the failures that the program has not read. Tasks that were woken to read theirs do so first."""
        if side.failures.kept:
            await asyncio.sleep(0)
        unseen = side.failures.take()
        if unseen is not None:
            raise unseen

    async def _fill(self, chunk: Chunk, target: Target) -> None:
        """Append some of the chunk, waiting for room, and let other tasks run."""
        if self._in_line or chunk.step(target, wall_ms()) is None:
            await self._when_room(lambda: chunk.step(target, wall_ms()))
        await asyncio.sleep(0)

    async def _when_room(self, attempt: Callable[[], T | None]) -> T:
        """Repeat the attempt until it finds room, up to max_block_ms. Tasks that began to wait before are served first."""
        limit = asyncio.timeout(self._settings.max_block_ms / 1000.0)
        self._in_line += 1
        try:
            async with limit, self._turn:
                return await self._repeat(attempt)
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._full(f"for max_block_ms={plain(self._settings.max_block_ms)}") from None
        finally:
            self._in_line -= 1

    async def _repeat(self, attempt: Callable[[], T | None]) -> T:
        while (result := attempt()) is None:
            await self._room()
        return result

    async def _await_topic(self, topic: str, partition: int) -> None:
        """Wait until the topic is known, and to have the partition (-1: any)."""
        if not self._known(topic, partition):
            self._refuse_what_cannot_wait(topic)
            await self._hear_of(topic, partition, self._settings.max_block_ms / 1000.0)

    async def _hear_of(self, topic: str, partition: int, limit_s: float) -> None:
        """Request the topic's metadata and wait for it, and for the partition (-1: any), up to a limit."""
        self._ask_for(topic, partition, limit_s)
        side = self._running()
        limit = asyncio.timeout(limit_s)
        try:
            with self._known_topics.waiting(topic):
                async with limit:
                    await self._look_until_known(topic, partition, side.heard)
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._known_topics.unavailable(topic, partition, limit_s, side.engine.trouble()) from None

    async def _look_until_known(self, topic: str, partition: int, heard: Signal) -> None:
        while self._known_topics.look(topic, partition) is None:
            await heard.wait()

    async def _room(self) -> None:
        """Wait until bytes are given back to the budget. Meanwhile no batch lingers."""
        side = self._running()
        self._accumulator.waiting += 1
        self._accumulator.newest_hurry = object()
        try:
            side.wake()
            await side.settled.wait()
        finally:
            self._accumulator.waiting -= 1

    def _transactions(self) -> Transactions | None:
        """The hooks and producer ids of a transactional producer (`txn`), whose records are all part of transactions."""
        return None

    def _core(self) -> Core | None:
        return self._side.engine.core if self._side is not None else None

    def _post(self, event: Event) -> None:
        self._running().post(event)

    async def _drain(self, timeout_s: float) -> None:
        """Wait for every batch that is incomplete now, without lingering."""
        settled = self._running().settled
        flush = object()
        waiting: list[Batch] = []
        try:
            waiting = self._accumulator.begin_flush(flush)
            waiting.reverse()
            async with asyncio.timeout(timeout_s):
                await wait_for_all(waiting, settled)
        except TimeoutError:
            left = sum(int(late.count) for late in waiting if not late.complete())
            raise no_outcome(left, timeout_s) from None
        finally:
            self._accumulator.end_flush(flush)


async def wait_for_all(batches: list[Batch], settled: Signal) -> None:
    """Remove each batch that has its outcome, the last one first. `settled`: tells that a batch may have it."""
    while batches:
        if batches[-1].complete():
            batches.pop()
        else:
            await settled.wait()


class SendsWhole(Protocol):
    """An asyncio producer, with transactions or without."""

    async def _send_whole(self, topic: str, records: Sequence[object], partition: int) -> BulkFuture: ...


async def send_whole(producer: SendsWhole, topic: str, records: Sequence[object], partition: int) -> BulkFuture:
    """`send_many` of rows of bytes that are accepted together, for other packages of fencepost: if the call raises or is cancelled, none is
    sent. Waits until the buffer has room for all."""
    return await producer._send_whole(topic, records, partition)
