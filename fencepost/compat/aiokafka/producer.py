"""`AIOKafkaProducer` with aiokafka's signatures, over an AsyncProducer, or an AsyncTransactionalProducer if it has a `transactional_id`.

It translates arguments, futures and errors, and leaves everything else to the producer underneath, which is its `underlying`. Without
arguments about it, it is idempotent and waits for all in-sync replicas; aiokafka is not and does not.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from fencepost.compat.aiokafka.arguments import SMALLEST_REQUEST, read_arguments
from fencepost.compat.aiokafka.batch_builder import BatchBuilder
from fencepost.compat.aiokafka.client import Client
from fencepost.compat.aiokafka.delivery_future import DeliveryFuture, Outcomes, UntouchedFuture
from fencepost.compat.aiokafka.errors import (
    IllegalOperation,
    IllegalStateError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
    UnrecognizedPartition,
)
from fencepost.compat.aiokafka.first_contact import first_contact
from fencepost.compat.aiokafka.offsets import read_offsets
from fencepost.compat.aiokafka.sent_batch import batch_outcome
from fencepost.compat.aiokafka.structs import RecordMetadata
from fencepost.compat.aiokafka.transaction_context import TransactionContext
from fencepost.compat.aiokafka.translation import translating, with_underlying
from fencepost.compat.aiokafka.values import bytes_or_none, listed
from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.async_producer import AsyncProducer, send_whole
from fencepost.producer.bulk.rows import packed_headers
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import FencepostError, UndeliveredRecords
from fencepost.producer.wire.records.sizes import record_bound
from fencepost.txn.async_producer import AsyncTransaction, AsyncTransactionalProducer
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.group_metadata import GroupMetadata

Serializer = Callable[[Any], Any]
Headers = Iterable[tuple[str, bytes | None]]

NEW_FUTURE: Final = asyncio.Future.__new__


class AIOKafkaProducer:
    """aiokafka's producer with fencepost's guarantees.

        async with AIOKafkaProducer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("events", b"hello")         # in the buffer
            metadata = await future                                  # acknowledged
            await producer.send_and_wait("events", b"both at once")

    Arguments and methods are aiokafka's; docs/compat.md has the table of what differs. Errors are aiokafka's classes, with the error of
    fencepost as `underlying`. A wrong argument raises ValueError. Call `start` before anything else, and `stop` at the end.
    """

    _closed = False
    _started = False
    _outcomes: Outcomes

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | list[str] = "localhost",
        client_id: str | None = None,
        metadata_max_age_ms: int = 300_000,
        request_timeout_ms: int = 40_000,
        api_version: object = None,
        acks: Any = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        compression_type: str | None = None,
        max_batch_size: int = 16_384,
        partitioner: Callable[..., int | None] | None = None,
        max_request_size: int = 1_048_576,
        linger_ms: int = 0,
        retry_backoff_ms: int = 100,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        connections_max_idle_ms: int | None = 540_000,
        enable_idempotence: bool | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        for name, what in (("loop", "is the running one"), ("api_version", "is found out")):
            if given[name] is not None:
                warnings.warn(f"{name} is deprecated in aiokafka: leave it out, it {what}", DeprecationWarning, stacklevel=2)
        settings = read_arguments(given)
        self._transactional = transactional_id is not None
        rest = read_transaction_settings(settings)[1] if self._transactional else settings
        self._settings = read_settings(rest)
        self._producer: AsyncProducer | AsyncTransactionalProducer = (
            AsyncTransactionalProducer(settings) if self._transactional else AsyncProducer(settings)
        )
        self._loop = loop
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = self._settings.partitioner
        self._batch_size = int(max_batch_size)
        self._small_records = max_request_size if max_request_size < SMALLEST_REQUEST else None
        self._client = Client(self._settings)
        self._transaction: AsyncTransaction | None = None
        # The calls of an open producer with nothing to do before: the first accepts a record at once, the other one in a transaction.
        self._try_send: Callable[..., RecordFuture] | None = None

    @property
    def underlying(self) -> AsyncProducer | AsyncTransactionalProducer:
        """fencepost's producer, which does the work. `underlying.stats()` has its numbers."""
        return self._producer

    @property
    def client(self) -> Client:
        """What health checks ask: the cluster's brokers and topics."""
        return self._client

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._producer!r})"

    # -- begin and end -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster, and register the transactional id if there is one. Raises KafkaConnectionError if no server of
        `bootstrap_servers` answers. The loop that runs is the producer's from now on."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise ProducerClosed("the producer was stopped: make another one")
        if self._loop not in (None, loop):
            raise IllegalStateError("the producer was made for another event loop")
        if self._started:
            return
        self._loop = loop
        await first_contact(self._settings)
        with translating:
            await self._producer.__aenter__()
            if isinstance(self._producer, AsyncTransactionalProducer):
                await self._producer.init()
        if self._closed:
            raise ProducerClosed("the producer was stopped while it started: make another one")
        self._outcomes = Outcomes(loop, acknowledged=self._settings.acks != 0)
        self._started = True
        if self._key_serializer is None and self._value_serializer is None and self._small_records is None:
            self._try_send = self._producer.try_send

    async def stop(self) -> None:
        """Deliver the records that are left, abort an open transaction, and end the connections. A failed delivery is not raised here:
        its future has the error, or else it is logged."""
        self._closed = True
        self._try_send = None
        await self._to_the_end(self._producer.close())

    async def flush(self) -> None:
        """Wait until each record that was sent before has its outcome. Failed deliveries are not raised, as with `stop`."""
        self._refuse_unless_open()
        await self._to_the_end(self._producer.flush())

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._started and not self._closed:
            _warn(f"Unclosed {type(self).__name__} {self!r}", ResourceWarning, source=self)
            self._outcomes.loop.call_exception_handler({"message": f"Unclosed {type(self).__name__}", "producer": self})

    # -- records -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> DeliveryFuture:
        """Put a record into the buffer, and return the future of its RecordMetadata. Waits up to `request_timeout_ms` for the topic, and
        for room.

        Raises KafkaTimeoutError if there is no room, UnknownTopicOrPartitionError if the topic does not become known, AssertionError for a
        partition that the topic does not have, and if key and value are both None, MessageSizeTooLargeError, and TypeError for what is
        not bytes. A record that is refused is not sent. If the call is cancelled while it waits, the record is not sent.
        """
        try_send = self._try_send
        if try_send is not None and not (value is None and key is None):
            try:
                record = try_send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp_ms)
            except (FencepostError, TypeError, ValueError):
                pass  # It has to wait, or to be converted, or it is refused once more.
            else:
                # UntouchedFuture(...) in place: its __init__ takes a fifth of what this call costs more than fencepost's.
                future = NEW_FUTURE(UntouchedFuture)
                future.underlying, future._outcomes = record, self._outcomes
                return future
        return await self._send_checked(topic, value, key, partition, timestamp_ms, headers)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata:
        """`send`, and wait for the outcome: the RecordMetadata, or None with acks=0. Raises the record's error."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def partitions_for(self, topic: str) -> set[int]:
        """The topic's partitions. Waits up to `request_timeout_ms` for a topic that is not known yet."""
        self._refuse_unless_open()
        with translating:
            return set(await self._producer.partitions_for(topic))

    def create_batch(self) -> BatchBuilder:
        """An empty batch of at most `max_batch_size` bytes. `send_batch` sends it."""
        return BatchBuilder(self._batch_size, self._key_serializer, self._value_serializer)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int | None) -> asyncio.Future[RecordMetadata]:
        """Put the records of a batch into the buffer, in order, and return the future of their RecordMetadata. Its `offset` is that of the
        first record. With partition None the partitioner chooses one for all of them. The batch is closed, and cannot be sent again.

        Its records may share a batch in the log with others, or be in two of them. Raises what `send` raises. Then none of the records is
        sent, and the batch can be sent again. The same if the call is cancelled while it waits.
        """
        where = await self._place(topic, partition)
        self._refuse_outside_a_transaction()
        rows = batch.take()
        try:
            with translating:
                bulk = await send_whole(self._producer, topic, rows, where)
        except BaseException:
            batch.give_back()
            raise
        return batch_outcome(bulk, topic, where, self._outcomes)

    # -- transactions ------------------------------------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        """Begin a transaction. If the call is cancelled, none has begun. Raises IllegalOperation without a `transactional_id`, or in a
        transaction."""
        await self._begin()

    async def commit_transaction(self) -> None:
        """Deliver the transaction's records, and commit it. Raises the error of a record that failed: then abort. If the call is cancelled,
        the commit goes on, and another `commit_transaction` reports its outcome."""
        await self._end(self._require_transactions().commit)

    async def abort_transaction(self) -> None:
        """Abort the transaction. If the call is cancelled, the abort goes on."""
        await self._end(self._require_transactions().abort)

    def transaction(self) -> TransactionContext:
        """A transaction as an `async with` block: committed at its end, aborted if an exception leaves it."""
        return TransactionContext(self._begin)

    async def send_offsets_to_transaction(self, offsets: Mapping[Any, Any], group_id: Any) -> None:
        """Commit a consumer group's offsets with the transaction. `offsets`: for each TopicPartition the offset of the next record to read,
        or (offset, metadata). Raises ValueError for no offsets or an empty group id, and TypeError for a key that is no TopicPartition."""
        producer = self._require_transactions()
        self._refuse_outside_a_transaction()
        if not isinstance(group_id, str) or not group_id:
            raise ValueError(f"group_id={group_id!r}: it must be the name of a consumer group")
        given = read_offsets(offsets)
        with translating:
            await producer.send_offsets(given, GroupMetadata(group_id))

    # -- small print -------------------------------------------------------------------------------------------------

    async def _send_checked(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp_ms: int | None, headers: Headers | None
    ) -> DeliveryFuture:
        """`send` for a record that has to wait, or to be serialized or converted, and for each that is refused."""
        if value is None and key is None:
            raise AssertionError("value and key are both None: a record needs one of them")
        self._refuse_unless_open()
        if partition is not None:
            await self._place(topic, partition)
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        key, value, pairs = bytes_or_none("key", key), bytes_or_none("value", value), listed(headers)
        if self._small_records is not None and record_bound(key, value, packed_headers(pairs, "headers")) > self._small_records:
            raise MessageSizeTooLargeError(f"the record exceeds max_request_size={self._small_records}; it was not accepted")
        with translating:
            record = await self._producer.send(topic, value, key=key, partition=partition, headers=pairs or None, timestamp=timestamp_ms)
        return UntouchedFuture(record, self._outcomes)

    async def _place(self, topic: str, partition: int | None) -> int:
        """The partition, if the topic has it; for None the partitioner's choice. Raises UnrecognizedPartition without waiting for it."""
        there = await self.partitions_for(topic)
        if partition is None:
            return self._chosen(sorted(there))
        if partition not in there:
            raise UnrecognizedPartition(f"topic {topic!r} has no partition {partition!r}: it has {len(there)}, numbered from 0")
        return partition

    def _chosen(self, there: list[int]) -> int:
        choice = self._partitioner(None, there, list(there)) if callable(self._partitioner) else None
        return random.choice(there) if choice is None else choice

    def _refuse_unless_open(self) -> None:
        if self._closed:
            raise ProducerClosed("the producer is stopped")
        if not self._started:
            raise IllegalStateError("the producer is not started: call `await producer.start()` first, or use `async with`")

    def _require_transactions(self) -> AsyncTransactionalProducer:
        if not isinstance(self._producer, AsyncTransactionalProducer):
            raise IllegalOperation("the producer has no transactional_id: give it one to use transactions")
        self._refuse_unless_open()
        return self._producer

    def _refuse_outside_a_transaction(self) -> None:
        if isinstance(self._producer, AsyncTransactionalProducer) and (self._transaction is None or self._transaction.over):
            raise IllegalOperation("no transaction is open: call begin_transaction first")

    async def _begin(self) -> AsyncTransaction:
        producer = self._require_transactions()
        with translating:
            self._transaction = await producer.begin()
        return self._transaction

    async def _end(self, call: Callable[[], Awaitable[None]]) -> None:
        """Commit or abort. From now on the transaction takes no more records."""
        self._transaction = None
        with translating:
            await call()

    async def _to_the_end(self, waiting: Awaitable[None]) -> None:
        """Wait for deliveries. Failed ones that the program did not look at are logged by then."""
        with translating:
            try:
                await waiting
            except UndeliveredRecords:
                pass
            except TimeoutError as late:
                raise with_underlying(KafkaTimeoutError(str(late)), late) from late
