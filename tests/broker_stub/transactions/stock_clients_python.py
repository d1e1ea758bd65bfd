"""The stock clients in Python: confluent-kafka, aiokafka and kafka-python."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from tests.broker_stub.transactions.stock_client import DEADLINE_S, TIMEOUT_MS, Refused, Sender, gather

T = TypeVar("T")


# confluent-kafka


class Confluent:
    name = "confluent"
    fenced = frozenset(("_FENCED",))

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> Sender:
        return _ConfluentSender(bootstrap, transactional_id, timeout_ms)

    def join(self, bootstrap: str, group: str, topic: str, count: int) -> Any:
        member = self._consumer(bootstrap, group)
        member.subscribe([topic])
        gather(count, lambda: self._poll(member))
        return member

    def leave(self, member: Any) -> None:
        member.close()

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[str]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(bootstrap, "nobody")
        try:
            consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
            return gather(count, lambda: self._poll(consumer))
        finally:
            consumer.close()

    def close(self) -> None:
        """Nothing is shared."""

    def _consumer(self, bootstrap: str, group: str) -> Any:
        from confluent_kafka import Consumer

        settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0}
        return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "fetch.wait.max.ms": 50, **settings})

    def _poll(self, consumer: Any) -> list[bytes]:
        messages = consumer.consume(100, timeout=0.1)
        assert all(message.error() is None for message in messages), messages
        return [message.value() for message in messages]


class _ConfluentSender:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        from confluent_kafka import Producer

        timeouts = {"transaction.timeout.ms": timeout_ms, "message.timeout.ms": timeout_ms}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, "log_level": 0, **timeouts}
        )
        self._do(self._producer.init_transactions, DEADLINE_S)

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        failed: list[Any] = []
        self._do(
            lambda: self._producer.produce(
                topic, value.encode(), partition=partition, on_delivery=lambda error, _: failed.append(error) if error else None
            )
        )
        assert self._producer.flush(DEADLINE_S) == 0
        if failed:
            raise Refused(failed[0].name())

    def send_offset(self, member: Any, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        positions = [TopicPartition(topic, partition, offset)]
        self._do(self._producer.send_offsets_to_transaction, positions, member.consumer_group_metadata(), DEADLINE_S)

    def commit(self) -> None:
        self._do(self._producer.commit_transaction, DEADLINE_S)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction, DEADLINE_S)

    def close(self) -> None:
        with suppress(Exception):  # errors of purged records do not matter at the end of a test
            self._producer.purge()
            self._producer.flush(0)

    def _do(self, call: Callable[..., Any], *arguments: Any) -> None:
        from confluent_kafka import KafkaException

        try:
            call(*arguments)
        except KafkaException as error:
            raise Refused(error.args[0].name()) from error


# aiokafka


class Aiokafka:
    """Its clients run on a loop in their own thread."""

    name = "aiokafka"
    fenced = frozenset(("ProducerFenced",))

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await asyncio.wait_for(work, DEADLINE_S)

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result(2 * DEADLINE_S)

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> Sender:
        return _AiokafkaSender(self, bootstrap, transactional_id, timeout_ms)

    def join(self, bootstrap: str, group: str, topic: str, count: int) -> Any:
        """It has no metadata to give: the group's name is all that its producer takes."""
        member = self.run(self._consumer(bootstrap, topic, group=group))
        gather(count, lambda: self._poll(member))
        return member

    def leave(self, member: Any) -> None:
        self.run(member.stop())

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[str]:
        from aiokafka import TopicPartition

        async def assigned() -> Any:
            consumer = await self._consumer(bootstrap)
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            return consumer

        consumer = self.run(assigned())
        try:
            return gather(count, lambda: self._poll(consumer))
        finally:
            self.run(consumer.stop())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    async def _consumer(self, bootstrap: str, *topics: str, group: str | None = None) -> Any:
        from aiokafka import AIOKafkaConsumer

        settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "enable_auto_commit": False}
        consumer = AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, group_id=group, fetch_max_wait_ms=50, **settings)
        consumer.test_group = group
        await consumer.start()
        return consumer

    def _poll(self, consumer: Any) -> list[bytes]:
        found: dict[Any, list[Any]] = self.run(consumer.getmany(timeout_ms=100))
        return [record.value for records in found.values() for record in records]


class _AiokafkaSender:
    def __init__(self, maker: Aiokafka, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._maker = maker
        self._producer: Any = None

        async def start() -> None:
            from aiokafka import AIOKafkaProducer

            self._producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await self._producer.start()

        self._do(start())

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        self._do(self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def send_offset(self, member: Any, topic: str, partition: int, offset: int) -> None:
        from aiokafka import TopicPartition

        self._do(self._producer.send_offsets_to_transaction({TopicPartition(topic, partition): offset}, member.test_group))

    def commit(self) -> None:
        self._do(self._producer.commit_transaction())

    def abort(self) -> None:
        self._do(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(Exception):  # one that was fenced does not close in peace
            self._maker.run(self._producer.stop())

    def _do(self, work: Awaitable[Any]) -> None:
        from aiokafka.errors import KafkaError

        try:
            self._maker.run(work)
        except KafkaError as error:
            raise Refused(type(error).__name__) from error


# kafka-python


class KafkaPython:
    name = "kafka-python"
    fenced = frozenset(("ProducerFencedError", "InvalidProducerEpochError"))

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> Sender:
        return _KafkaPythonSender(bootstrap, transactional_id, timeout_ms)

    def join(self, bootstrap: str, group: str, topic: str, count: int) -> Any:
        member = self._consumer(bootstrap, topic, group=group)
        # Not a short time: it does not come back from one that ends while it joins.
        gather(count, lambda: self._poll(member, 10_000))
        return member

    def leave(self, member: Any) -> None:
        member.close()

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[str]:
        from kafka import TopicPartition

        consumer = self._consumer(bootstrap)
        try:
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            return gather(count, lambda: self._poll(consumer, 100))
        finally:
            consumer.close()

    def close(self) -> None:
        """Nothing is shared."""

    def _consumer(self, bootstrap: str, *topics: str, group: str | None = None) -> Any:
        from kafka import KafkaConsumer

        settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "enable_auto_commit": False}
        return KafkaConsumer(*topics, bootstrap_servers=bootstrap, group_id=group, fetch_max_wait_ms=50, **settings)

    def _poll(self, consumer: Any, timeout_ms: int) -> list[bytes]:
        return [record.value for records in consumer.poll(timeout_ms=timeout_ms).values() for record in records]


class _KafkaPythonSender:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=int(1000 * DEADLINE_S),
        )
        self._do(self._producer.init_transactions)

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._do(lambda: self._producer.send(topic, value.encode(), partition=partition).get(timeout=DEADLINE_S))

    def send_offset(self, member: Any, topic: str, partition: int, offset: int) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        positions = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._do(lambda: self._producer.send_offsets_to_transaction(positions, member.group_metadata()))

    def commit(self) -> None:
        self._do(self._producer.commit_transaction)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)

    def _do(self, call: Callable[[], Any]) -> None:
        from kafka.errors import KafkaError

        try:
            call()
        except KafkaError as error:
            raise Refused(type(error).__name__) from error
