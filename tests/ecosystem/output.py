"""The topic that a program writes, as a reader of committed records has it."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tests.reading import read_messages
from tests.waiting import until

OPEN_TIMEOUT_S: Final = 120.0
"""How long the last transactions may stay open."""


class Output:
    """A topic, read committed while it grows."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self._bootstrap, self._partitions = bootstrap, partitions
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "watcher",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self._values: set[bytes] = set()

    def distinct(self) -> int:
        """How many different values it has by now."""
        for message in self._consumer.consume(20_000, 0.3):
            if message.error() is None:
                self._values.add(message.value() or b"")
        return len(self._values)

    def read(self) -> list[Message]:
        """All of it, when no transaction is open in it."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

        def ends(level: IsolationLevel) -> list[int]:
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent-kafka gives it no types
            asked = {TopicPartition(self.topic, partition): latest for partition in range(self._partitions)}
            answers = admin.list_offsets(asked, isolation_level=level, request_timeout=OPEN_TIMEOUT_S)
            return [answers[place].result().offset for place in asked]

        until(
            lambda: (ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)),
            f"the ends of {self.topic} with and without open transactions",
            good=lambda found: found[0] == found[1],
            timeout_s=OPEN_TIMEOUT_S,
            pause_max_s=0.5,
        )
        return read_messages(self._bootstrap, self.topic, range(self._partitions))

    def aborted(self, committed: int) -> int:
        """How many records it has besides these committed ones."""
        return len(read_messages(self._bootstrap, self.topic, range(self._partitions), isolation="read_uncommitted")) - committed

    def close(self) -> None:
        self._consumer.close()
