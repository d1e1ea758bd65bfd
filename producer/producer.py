"""The blocking producer. Any thread may use it.

`send` encodes the record into an open batch and returns. Everything else happens on the producer's own sender thread. The producer never
blocks that thread. It refuses calls after a fork and after `close`, and `flush` and `close` inside a delivery callback.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, SupportsFloat, TypeVar, Unpack

from mypy_extensions import mypyc_attr

from fencepost.producer.accumulator.accumulator import TopicQueues
from fencepost.producer.accumulator.batch import INSIDE, Batch, Headers, OnDelivery, RecordFuture, deadline_after
from fencepost.producer.accumulator.pending_record import PendingRecord
from fencepost.producer.base_producer import BaseProducer, check_topic, no_outcome, place_of, wall_ms
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.chunks import Chunk
from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.producer.config.signature import show_signature
from fencepost.producer.core.core import Core
from fencepost.producer.core.events import Event
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.errors import Misuse, ProducerClosed, UndeliveredRecords, plain
from fencepost.producer.foundations.timeouts import seconds
from fencepost.producer.network.exit_and_fork import ExitGuard
from fencepost.producer.network.sender_thread import SenderThread
from fencepost.producer.serializers import refuse_awaited
from fencepost.producer.telemetry.traced import TracedBulk

log = logging.getLogger("fencepost.producer")

T = TypeVar("T")


@mypyc_attr(allow_interpreted_subclasses=True)
class Producer(BaseProducer):
    """An idempotent Kafka producer.

    Settings are keyword arguments (`linger_ms=5`) or a mapping with Kafka's names (`{"linger.ms": 5}`); `Settings` lists them with
    their defaults. Raises ConfigError for settings that are unknown, out of range or contradict each other. No connection is made
    before the first `send`.

    Threads: any thread may call anything. Delivery callbacks run on the producer's sender thread, a partition's in the order of its
    records; a slow callback holds up every delivery.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        super().__init__(config, settings)
        refuse_awaited(self._settings)
        self._sender = SenderThread(
            self._settings,
            self._accumulator,
            self._shared,
            transactions=self._transactions(),
            announce=self._known_topics.announce,
            died=self._known_topics.die,
        )
        self._shared.wake = self._sender.wake
        try:
            self._exit_guard = self._guard()
            self._sender.start()
        except BaseException:
            # If Ctrl-C interrupts the start, the thread may run nevertheless.
            self._sender.stop(ProducerClosed("the producer was not made"))
            raise

    # -- sending -----------------------------------------------------------------------------------------------------

    def send(
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
        """Accept one record and return the future of its delivery.

        `value`, `key`: bytes or None, or objects that the serializers take. `partition`: None lets the partitioner choose. `headers`:
        (name, bytes or None) pairs. `timestamp`: milliseconds since 1970, None for now. `on_delivery(future)` is called on the sender
        thread once the outcome is known, and not awaited.

        Blocks up to `max_block_ms` while the topic is unknown (TopicUnavailable) or the buffer is full (BufferFull). Inside a delivery
        callback it raises these errors at once. Raises RecordTooLarge for a record that could never be sent, and TypeError for a key or
        value that is not bytes. If this call raises, the record is not sent.
        """
        if self._serializes:
            accepted = self._accept_prepared(topic, value, key, partition, headers, timestamp, on_delivery)
        else:
            accepted = self._accept(topic, value, key, partition, headers, timestamp, on_delivery)
        return accepted if isinstance(accepted, RecordFuture) else self._accept_later(accepted)

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
        """`send` that never waits. Raises BufferFull if the buffer has no room, and TopicUnavailable if the topic is not known yet. The
        producer then requests its metadata: try again."""
        if self._serializes:
            accepted = self._accept_prepared(topic, value, key, partition, headers, timestamp, on_delivery)
        else:
            accepted = self._accept(topic, value, key, partition, headers, timestamp, on_delivery)
        return accepted if isinstance(accepted, RecordFuture) else self._accept_now(accepted)

    def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """Accept many records without an object for each, and return one future of all their deliveries.

        A record is a value (bytes or None), a tuple (key, value) or (key, value, headers, timestamp, partition), or a mapping with these
        names, as `send` takes them. `partition`: for all records that name none; None lets the partitioner choose.

        Waits for room as `send` does, up to `max_block_ms` without progress. A list or tuple is checked whole before any record is
        accepted, any other iterable 4,096 records at a time. Each error has `.sent`, the future of the rows before, and `.sent.accepted`,
        their number. TypeError, ValueError and RecordTooLarge name the row. After BufferFull and TopicUnavailable the caller may send the
        other rows again.
        """
        span = self._bulk_span(topic)
        return self._send_traced(span, topic, self._rows(topic, records, span), partition)

    def send_arrow(
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
        """`send_many` for a pyarrow Table, RecordBatch or RecordBatchReader, or an object that exports an Arrow stream. It makes no Python
        object for a row.

        The other arguments name columns: `value` and `key` of strings or binaries, `partition` of integers, `timestamp` of timestamps or
        of integers (ms), `headers` of lists of structs (key, value) or of maps. For a null partition the partitioner chooses. A null
        timestamp is now.
        Needs pyarrow, which fencepost's extra `arrow` installs.
        """
        chunks = self._arrow_chunks(data, value=value, key=key, partition=partition, headers=headers, timestamp=timestamp)
        return self._send_traced(self._bulk_span(topic), topic, chunks, None)

    def partitions_for(self, topic: str, timeout: SupportsFloat | None = None) -> list[int]:
        """The topic's partitions. Waits up to `timeout` seconds (None: max_block_ms) for a topic that is not known yet."""
        limit_s = seconds(timeout, self._settings.max_block_ms / 1000.0)
        self._refuse_endless("partitions_for")
        self._shared.refuse_after_fork()
        self._refuse_after_close()
        check_topic(topic)
        return list(range(self._hear_of(topic, -1, limit_s).partitions))

    # -- waiting -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: SupportsFloat | None = None) -> None:
        """Wait until every record sent before this call has its outcome and its delivery callbacks have returned.

        `timeout`: seconds; None waits until the delivery deadline has decided all of them. Raises TimeoutError if the time passed first,
        and UndeliveredRecords if deliveries failed whose outcome the program has not read. Inside a delivery callback it raises Misuse.
        """
        limit_s = seconds(timeout, self._shared.patience_s)
        self._refuse_endless("flush")
        self._shared.refuse_after_fork()
        self._drain(limit_s)
        unseen = self._sender.failures.take()
        if unseen is not None:
            raise unseen

    def close(self, timeout: SupportsFloat | None = None) -> None:
        """Deliver the records that are left, then end the sender thread and its connections. Calling it again does nothing.

        `timeout`: seconds to wait for deliveries; None waits until the delivery deadline has decided all of them. Records without an
        outcome by then fail. A callback that blocks the sender thread keeps this call one second longer at most. Raises
        UndeliveredRecords if deliveries failed whose outcome the program has not read. Inside a delivery callback it raises Misuse.
        """
        limit_s = seconds(timeout, self._shared.patience_s)
        deadline = deadline_after(limit_s)
        self._refuse_endless("close")
        self._shared.refuse_after_fork()
        if self._closed:
            return
        try:
            self._refuse_records()
            self._drain(limit_s)
        except TimeoutError as late:
            log.warning("close: %s", late)
        finally:
            # If Ctrl-C struck before these lines, the program can call `close` once more.
            self._sender.stop(ProducerClosed("the producer was closed before the record was acknowledged"), deadline - time.monotonic())
            self._closed = True
            self._exit_guard.end()
        unseen = self._sender.failures.take()
        if unseen is not None:
            raise unseen

    def __enter__(self) -> Self:
        self._shared.refuse_after_fork()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close(self._time_to_leave(error))
        except UndeliveredRecords as undelivered:
            if error is None:
                raise
            log.error("while another exception left the block: %s", undelivered)

    # -- small print -------------------------------------------------------------------------------------------------

    def _accept_later(self, record: PendingRecord) -> RecordFuture:
        """Wait for the topic, and for room in the buffer, up to max_block_ms each."""
        try:
            self._await_topic(record.topic, record.partition)
            append = self._appending(record)
            future = append()
            return future if future is not None else self._when_room(append)
        except Exception as error:
            record.refused(error)
            raise

    def _send_traced(self, span: TracedBulk | None, topic: str, chunks: Iterator[Chunk | None], partition: int | None) -> BulkFuture:
        """`_send_bulk`, in the bulk's span."""
        if span is None:
            return self._send_bulk(topic, chunks, partition)
        with span:
            return span.accepted(self._send_bulk(topic, chunks, partition, span.context))

    def _send_bulk(self, topic: str, chunks: Iterator[Chunk | None], partition: int | None, span_context: object = None) -> BulkFuture:
        bulk = BulkFuture(self._shared, span_context)
        try:
            if self._shared.inside():
                raise Misuse(f"{INSIDE}: records are taken one by one here (`send`)")
            check_topic(topic)
            self._send_chunks(bulk, topic, chunks, place_of(partition))
        except BaseException as error:
            error.sent = bulk  # type: ignore[attr-defined]
            raise
        finally:
            bulk._whole = True
        return bulk

    def _send_chunks(self, bulk: BulkFuture, topic: str, chunks: Iterator[Chunk | None], where: int) -> None:
        """Append the chunks. A function of its own, as all loops inside a block that has something to end (`foundations.rlock`)."""
        for chunk in chunks:
            if chunk is None:
                continue
            self._await_topic(topic, max(chunk.partition_max, where))
            self._place(topic, chunk, where)
            target = self._target(topic, bulk, where)
            while not chunk.done:
                self._fill(chunk, target)

    def _fill(self, chunk: Chunk, target: Target) -> None:
        """Append some of the chunk, waiting for room."""
        if chunk.step(target, wall_ms()) is None:
            self._when_room(lambda: chunk.step(target, wall_ms()))

    def _when_room(self, attempt: Callable[[], T | None]) -> T:
        """Repeat the attempt until it finds room, up to max_block_ms."""
        if self._shared.on_sender():
            raise self._full("inside a delivery callback, which cannot wait")
        if self._shared.inside():
            raise self._full(f"and this cannot wait for some: {INSIDE}")
        result = self._sender.when_room(attempt, self._settings.max_block_ms / 1000.0)
        if result is None:
            raise self._full(f"for max_block_ms={plain(self._settings.max_block_ms)}")
        return result

    def _await_topic(self, topic: str, partition: int) -> None:
        """Wait until the topic is known, and to have the partition (-1: any)."""
        if self._known(topic, partition):
            return
        self._refuse_what_cannot_wait(topic)
        if self._shared.on_sender():
            raise self._not_known_yet(
                topic, partition, f"; a delivery callback cannot wait for it: call partitions_for({topic!r}) before the first record"
            )
        if self._shared.inside():
            raise self._not_known_yet(topic, partition, f", and this cannot wait for it: {INSIDE}")
        self._hear_of(topic, partition, self._settings.max_block_ms / 1000.0)

    def _hear_of(self, topic: str, partition: int, limit_s: float) -> TopicQueues:
        """Request the topic's metadata and wait for it, and for the partition (-1: any), up to a limit. Returns the topic's queues."""
        self._ask_for(topic, partition, limit_s)
        return self._known_topics.wait(topic, partition, limit_s, trouble=self._sender.engine.trouble)

    def _transactions(self) -> Transactions | None:
        """The hooks and producer ids of a transactional producer (`txn`), whose records are all part of transactions."""
        return None

    def _guard(self) -> ExitGuard:
        """What acts when the process exits, or when the program drops the producer. Called when all but the sender thread is there, and
        before it starts."""
        return ExitGuard(self._sender, self._accumulator, self._shared, exit_flush_s=self._settings.exit_flush_ms / 1000.0)

    def _core(self) -> Core | None:
        return self._sender.engine.core

    def _post(self, event: Event) -> None:
        self._sender.post(event)

    def _drain(self, timeout_s: float) -> None:
        """Wait for every batch that is incomplete now, without lingering."""
        deadline = deadline_after(timeout_s)
        flush = object()
        try:
            self._wait_for_all(self._accumulator.begin_flush(flush), deadline, timeout_s)
            # The sender thread publishes an outcome before it runs the callbacks and notes the failure. Wait until it has done these.
            # Without callbacks that takes no time, but the thread has to get its turn, also for `flush(0)`.
            if not self._sender.catch_up(deadline - time.monotonic()):
                raise TimeoutError(f"every record has its outcome, but a delivery callback has not returned after {plain(timeout_s)} s")
            self._accumulator.end_flush(flush)
        except BaseException:
            self._accumulator.end_flush(flush)  # Ctrl-C may have struck before the other call.
            raise

    def _wait_for_all(self, batches: list[Batch], deadline: float, timeout_s: float) -> None:
        """Wait for the outcome of each batch."""
        for place, batch in enumerate(batches):
            if not batch.wait(max(0.0, deadline - time.monotonic())):
                left = sum(int(late.count) for late in batches[place:] if not late.complete())
                raise no_outcome(left, timeout_s)

    def _refuse_endless(self, call: str) -> None:
        refusal = self._shared.why_no_wait(f"{call}()")
        if refusal:
            raise Misuse(refusal)


show_signature(Producer)
