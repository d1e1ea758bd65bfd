"""What a broker knows of the cluster: its topics, where their partitions are led, and the brokers (Kafka's `MetadataImage`).

Every broker that hears from the controller has the same image, which is always the newest. One that does not keeps an old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol
from uuid import UUID

from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.partition_state import PartitionState


class MetadataImage(Protocol):
    """What a broker knows."""

    @property
    def topics(self) -> Topics:
        """The topics."""
        ...

    @property
    def live(self) -> list[int]:
        """The brokers that are up and that the controller does not fence."""
        ...

    def state(self, partition: Partition) -> PartitionState:
        """What was decided about a partition of these topics."""
        ...


class CurrentImage(NamedTuple):
    """The newest image."""

    topics: Topics
    live_now: Callable[[], list[int]]

    @property
    def live(self) -> list[int]:
        return self.live_now()

    def state(self, partition: Partition) -> PartitionState:
        return partition.state


class OldImage(NamedTuple):
    """The image of a broker that hears nothing any more."""

    topics: Topics
    live: list[int]
    states: dict[tuple[UUID, int], PartitionState]

    def state(self, partition: Partition) -> PartitionState:
        return self.states[partition.topic_id, partition.index]


def old_image(image: MetadataImage) -> OldImage:
    """The image as it is now. What is decided later does not change it."""
    partitions: Iterable[Partition] = (partition for topic in image.topics for partition in topic.partitions)
    states = {(each.topic_id, each.index): image.state(each) for each in partitions}
    return OldImage(image.topics.copy(), list(image.live), states)
