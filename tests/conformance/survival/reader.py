"""Reads everything that a topic holds, with confluent-kafka, from the first offset to the current end."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.waiting import despite, until

CALL_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_MS = 10_000
STALL_TIMEOUT_S = 60.0


def read_topic(bootstrap: str, topic: str) -> Iterator[Message]:
    """Every record, partition by partition in offset order. Raises TimeoutError if records stop coming before the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "survival-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": False,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        ends = end_offsets(consumer, topic)
        places = {partition: start for partition, (start, end) in ends.items() if start < end}
        consumer.assign([TopicPartition(topic, partition, start) for partition, start in places.items()])
        left = {partition: ends[partition][1] for partition in places}
        deadline = time.monotonic() + STALL_TIMEOUT_S
        while left:
            # Returns when it has so many, or when its time is over: markers are offsets without a record.
            messages = consumer.consume(min(10_000, sum(left[partition] - places[partition] for partition in left)), timeout=0.1)
            if messages:
                deadline = time.monotonic() + STALL_TIMEOUT_S
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: nothing more came within {STALL_TIMEOUT_S} s before the ends {left}")
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if partition in left and offset < left[partition]:
                    places[partition] = offset + 1
                    yield message
                    if offset + 1 == left[partition]:
                        del left[partition]
    finally:
        consumer.close()


def end_offsets(consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
    """partition -> (first offset, next offset). librdkafka may first show a topic without partitions; its error has the reason."""
    known = until(
        lambda: consumer.list_topics(topic, timeout=CALL_TIMEOUT_S).topics[topic],
        f"the partitions of {topic}",
        good=lambda found: bool(found.partitions) and found.error is None,
    )
    return {
        partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=CALL_TIMEOUT_S)
        for partition in known.partitions
    }


class Admin:
    """Creates and deletes topics with confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": REQUEST_TIMEOUT_MS, "log_level": 0})

    def create(self, topic: str, *, partitions: int = 1, replicas: int = 1, config: dict[str, str] | None = None) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=config or {})
        self._client.create_topics([new], operation_timeout=CALL_TIMEOUT_S)[topic].result(CALL_TIMEOUT_S)
        self._await_answers(topic, partitions)

    def delete(self, topic: str) -> None:
        self._client.delete_topics([topic], operation_timeout=CALL_TIMEOUT_S)[topic].result(CALL_TIMEOUT_S)
        self.await_led(topic, 0)

    def grow(self, topic: str, partitions: int) -> None:
        self._client.create_partitions([NewPartitions(topic, partitions)], operation_timeout=CALL_TIMEOUT_S)[topic].result(CALL_TIMEOUT_S)
        self._await_answers(topic, partitions)

    def in_sync(self, topic: str) -> dict[int, tuple[int, int]]:
        """partition -> (leader, number of replicas in sync). The leader is -1 if there is none.

        If the client is connected to a frozen broker, it asks another one after REQUEST_TIMEOUT_MS.
        """
        known = despite(KafkaException, lambda: self._client.list_topics(topic, timeout=CALL_TIMEOUT_S), timeout_s=2 * CALL_TIMEOUT_S)
        return {number: (partition.leader, len(partition.isrs)) for number, partition in known.topics[topic].partitions.items()}

    def await_led(self, topic: str, partitions: int) -> None:
        """Wait until the broker shows so many partitions with leaders."""
        until(
            lambda: self._led(topic),
            f"partitions of {topic} with leaders: {partitions}",
            good=lambda found: found == partitions,
            timeout_s=CALL_TIMEOUT_S,
            pause_max_s=0.1,
        )

    def _await_answers(self, topic: str, partitions: int) -> None:
        """Wait until each leader answers as leader. Kafka names a leader before that broker knows that it leads."""
        self.await_led(topic, partitions)
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "survival-admin", "log_level": 0})
        try:
            despite(KafkaException, lambda: end_offsets(consumer, topic))
        finally:
            consumer.close()

    def _led(self, topic: str) -> int:
        # All topics: asking for one by name could create it.
        known = self._client.list_topics(timeout=CALL_TIMEOUT_S).topics.get(topic)
        return 0 if known is None else sum(partition.leader >= 0 for partition in known.partitions.values())
