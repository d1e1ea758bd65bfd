"""What a confluent-kafka consumer reads from a topic."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

WAIT_S = 60.0


def read_values(bootstrap: str, topic: str, partitions: Iterable[int] = (0,), *, isolation: str = "read_committed") -> list[bytes]:
    """Every value up to the current ends; each partition's in its order. With read_committed the end is before an open transaction."""
    return [message.value() or b"" for message in read_messages(bootstrap, topic, partitions, isolation=isolation)]


def read_messages(bootstrap: str, topic: str, partitions: Iterable[int] = (0,), *, isolation: str = "read_committed") -> list[Message]:
    """Every message up to the current ends, as confluent-kafka has it. With read_committed the end is before an open transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )
    found: list[Message] = []
    left = set(partitions)
    next_offset = dict.fromkeys(left, 0)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"nothing came from partitions {left}, not even the end"
            error = message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if error is None:
                if offset >= next_offset[partition]:  # It sometimes delivers messages again that it has delivered.
                    next_offset[partition] = offset + 1
                    found.append(message)
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(partition)
    finally:
        consumer.close()
    return found
