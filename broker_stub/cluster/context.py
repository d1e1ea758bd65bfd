"""What all parts of a cluster share: the time, configs, topics, brokers, fault rules, and which brokers can reach each other.

Coordinators, followers and requests between brokers take this and no more. It changes no topic and no leader: `cluster` does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol
from uuid import UUID

from fencepost.broker_stub.cluster.broker import Broker
from fencepost.broker_stub.cluster.clock import Clock
from fencepost.broker_stub.cluster.counters import Counters
from fencepost.broker_stub.cluster.history import History
from fencepost.broker_stub.cluster.log_manager import LogManager
from fencepost.broker_stub.cluster.metadata_image import CurrentImage
from fencepost.broker_stub.cluster.producer_ids import ProducerIds
from fencepost.broker_stub.cluster.release import Release
from fencepost.broker_stub.cluster.timers import Timer, Timers
from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.configs.dynamic_configs import DynamicConfigs
from fencepost.broker_stub.configs.group_configs import value_of
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.configs.topic_configs import BrokerConfig
from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.replication.replica_fetcher import Out, Then
from fencepost.broker_stub.storage.directory import Directory
from fencepost.broker_stub.storage.memory import MemoryDirectory
from fencepost.producer.wire import FetchRequest


class TransactionEnded(Protocol):
    """Is called for each marker that a partition gets."""

    def __call__(self, replica: Replica, producer_id: int, *, commit: bool) -> None: ...


CONTROLLER: Final = 0
"""The controller, as one end of a link."""

NewStorage = Callable[["Context"], Directory]
"""Makes the directory of a cluster that keeps its files."""


SendFetch = Callable[[int, int, FetchRequest, Then], Out]
"""Sends the request of a follower to a leader."""


class Context:
    """Of one cluster. `seed` decides ids and nothing else. `storage`: by default everything is in memory. `log_dirs`: how many
    log directories each broker has."""

    def __init__(
        self,
        clock: Clock,
        *,
        brokers: int,
        config: BrokerConfig,
        release: Release,
        features: Mapping[str, tuple[int, int, int]],
        faults: Faults,
        seed: int,
        storage: NewStorage | None = None,
        log_dirs: int = 1,
    ) -> None:
        self._log_dirs = log_dirs
        self.now_ms = clock.now_ms
        self.counters = Counters()
        self.history = History(clock.now_ms, self.counters)
        self.timers = Timers()
        self.post: Callable[[Callable[[], None]], None] = lambda run: run()  # runs it on the loop's thread, from any thread
        self.config = config
        self.dynamic_configs = DynamicConfigs(config.dynamic)
        self.release = release
        self.features = features
        self.features_epoch = 1  # how often features were finalized
        self.faults = faults
        self.topics = Topics()
        self.image = CurrentImage(self.topics, lambda: self.live)
        self.producer_ids = ProducerIds()
        self.storage: Directory = MemoryDirectory() if storage is None else storage(self)
        try:
            self.brokers = {node_id: self._broker(node_id) for node_id in range(1, brokers + 1)}
        except OSError:
            self.storage.close()
            raise
        self.send_fetch: SendFetch = _nowhere  # the dispatcher's, as soon as there is one
        self.severed: set[tuple[int, int]] = set()  # what the first one sends to the second one is lost; 0 is the controller
        self.slow: dict[frozenset[int], int] = {}  # how many milliseconds a message between two brokers takes
        self.on_topic_deleted: list[Callable[[str], None]] = []  # called with its name
        self.on_transaction_ended: list[TransactionEnded] = []
        self.on_configs_changed: list[Callable[[ResourceType, str], None]] = []  # called with a resource whose dynamic configs changed
        self.on_leading: list[Callable[[Replica], None]] = []  # called with each replica that begins to lead in a new epoch
        self._random = random.Random(seed)

    @property
    def live(self) -> list[int]:
        """The brokers that are up, registered, and that the controller does not fence."""
        return [node_id for node_id, broker in self.brokers.items() if broker.alive and broker.registered and not broker.fenced]

    @property
    def cordoned(self) -> list[int]:
        """The brokers that get no new replicas, because all their log directories are cordoned (KIP-1066)."""
        return [node_id for node_id, broker in self.brokers.items() if broker.logs.is_cordoned]

    def group_config(self, group_id: str, name: str, node_id: int | None = None) -> str:
        """The value of a config that is in force in that group, on that broker."""
        return value_of(name, self.dynamic_configs.of(ResourceType.GROUP, group_id), self.config, node_id)

    def every_partition(self) -> Iterator[Partition]:
        """The partitions of all topics."""
        return (partition for topic in self.topics for partition in topic.partitions)

    def known_live(self, node: int) -> list[int]:
        """The brokers that are up and not fenced, as far as that broker knows."""
        return self.brokers[node].image.live

    def reach(self, one: int, other: int) -> bool:
        """Whether what a broker sends reaches another one, which is up."""
        return self.brokers[other].alive and (one, other) not in self.severed

    def is_up(self, node: int) -> bool:
        """Whether that broker runs."""
        return self.brokers[node].alive

    def hears(self, node: int) -> bool:
        """Whether that broker learns at once what the controller decides."""
        return self.brokers[node].image is self.image

    def reaches_controller(self, node: int) -> bool:
        """Whether the controller gets what that broker asks."""
        return (node, CONTROLLER) not in self.severed and not self.brokers[node].paused

    def delay_ms(self, one: int, other: int) -> int:
        """How long a message between these brokers takes."""
        return self.slow.get(frozenset((one, other)), 0)

    def controller_delay_ms(self, node: int) -> int:
        """How long a message between that broker and the controller takes."""
        return self.delay_ms(node, CONTROLLER)

    def writing_ms(self, node: int) -> int:
        """How long that broker takes to write to its disk now."""
        return self.brokers[node].writing_ms()

    def starts(self, node: int) -> int:
        """How often that broker has started and stopped."""
        return self.brokers[node].generation

    def has_producer_id(self, node: int) -> bool:
        """Whether that broker has a producer id to give out now."""
        return self.producer_ids.at(node, asks=self.reaches_controller(node))

    def find(self, topic: str, partition: int) -> Partition | None:
        known = self.topics.named(topic)
        return known.partition(partition) if known is not None else None

    def led_by(self, node: int, topic: str, partition: int) -> int:
        """The leader of that partition, as far as that broker knows. NO_LEADER: there is none, or no such partition."""
        found = self.known(node, topic, partition)
        return self.brokers[node].image.state(found).leader if found is not None else NO_LEADER

    def replica(self, node: int, topic: str, partition: int) -> Replica | None:
        """That broker's replica, if it knows the partition and has one."""
        found = self.known(node, topic, partition)
        return found.on(node) if found is not None else None

    def loading_ms(self, replica: Replica) -> int:
        """How long the coordinator of that replica still takes to load it."""
        return max(0, replica.led_since_ms + self.brokers[replica.node].loading_ms - self.now_ms())

    def known(self, node: int, topic: str, partition: int) -> Partition | None:
        """The partition, if that broker knows it."""
        known = self.brokers[node].image.topics.named(topic)
        return known.partition(partition) if known is not None else None

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.topics.with_id(topic_id)
        return topic.name if topic is not None else None

    def new_id(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def later(self, delay_ms: int, run: Callable[[], None]) -> None:
        """Runs it after so many milliseconds."""
        self.timers.at(self.now_ms() + delay_ms, run)

    def soon(self, run: Callable[[], None]) -> None:
        """Runs it in the next tick, never inside the handler that calls this."""
        self.timers.at(self.now_ms(), run)

    def later_on(self, node: int, delay_ms: int, run: Callable[[], None]) -> Timer:
        """The same as `later`, for what a broker does itself: not while it is paused."""
        return self.timers.at(self.now_ms() + delay_ms, partial(self.brokers[node].when_running, run))

    def _broker(self, node_id: int) -> Broker:
        return Broker(
            node_id, lambda clock_ms: LogManager(node_id, self.storage, clock_ms=clock_ms, log_dirs=self._log_dirs), self.image, self.now_ms
        )


def _nowhere(follower: int, leader: int, request: FetchRequest, then: Then) -> Out:
    raise RuntimeError(f"broker {follower} fetches from broker {leader}, and no dispatcher serves requests in this cluster")
