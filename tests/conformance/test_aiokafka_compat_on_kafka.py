"""`fencepost.compat.aiokafka` on Apache Kafka: the calls of an aiokafka program, read by aiokafka's own consumer."""

from __future__ import annotations

import asyncio
import secrets

import aiokafka
import aiokafka.errors
import pytest

from fencepost.compat.aiokafka import AIOKafkaProducer
from tests.conformance.kafka import KafkaCluster
from tests.producer.stub_helpers import run_story

pytestmark = pytest.mark.timeout(300)


def test_a_program_of_aiokafka(kafka: KafkaCluster) -> None:
    """Records, a batch, a committed and an aborted transaction with offsets, and a fenced producer: read_committed shows what it should."""
    topic, group = f"compat-{secrets.token_hex(4)}", f"group-{secrets.token_hex(4)}"
    tp = aiokafka.TopicPartition(topic, 0)

    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            at = await producer.send_and_wait(topic, b"0", b"k", 0, 123_456, [("h", b"1")])
            assert at == (topic, 0, tp, 0, 123_456, 0, None)
            futures = [await producer.send(topic, b"%d" % number, partition=0) for number in range(1, 100)]
            await asyncio.wait(futures)
            assert [future.result().offset for future in futures] == list(range(1, 100))
            batch = producer.create_batch()
            assert all(batch.append(timestamp=None, key=None, value=b"%d" % number) for number in range(100, 110))
            at = await (await producer.send_batch(batch, topic, partition=0))
            assert at.offset == 100
            with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
                await producer.send(topic, b"x" * 2_000_000)
        old, new = (AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic) for _ in range(2))
        async with old, new:
            async with new.transaction():
                await new.send(topic, b"110", partition=0)
                await new.send_offsets_to_transaction({tp: 7}, group)
            with pytest.raises(ZeroDivisionError):
                async with new.transaction():
                    await new.send_and_wait(topic, b"aborted", partition=0)
                    await new.send_offsets_to_transaction({tp: 8}, group)
                    raise ZeroDivisionError
            with pytest.raises(aiokafka.errors.ProducerFenced):
                async with old.transaction():
                    await old.send_and_wait(topic, b"fenced", partition=0)
            async with new.transaction():
                await new.send(topic, b"111", partition=0)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap, group_id=group, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([tp])
            assert await consumer.committed(tp) == 7
            await consumer.seek_to_beginning(tp)
            read = [await asyncio.wait_for(consumer.getone(), 30) for _ in range(112)]
        finally:
            await consumer.stop()
        assert [record.value for record in read] == [b"%d" % number for number in range(112)]
        assert (read[0].key, read[0].timestamp, read[0].headers) == (b"k", 123_456, (("h", b"1"),))

    run_story(story())
