"""Topics: their names, ids, configs and partitions, found by name or by id.

It creates nothing and checks nothing: the cluster creates topics, and handlers check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.replication.partition import Partition

LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
NAME_CHARS_MAX = 249
OFFSETS_TOPIC: Final = "__consumer_offsets"
STATE_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL = frozenset((OFFSETS_TOPIC, STATE_TOPIC, SHARE_STATE_TOPIC))


class MadeOnDemand(NamedTuple):
    """The broker configs that decide how a topic is created automatically, and what else it gets."""

    partitions: str
    factor: str
    min_isr: str | None
    overrides: Mapping[str, str]


_KEPT = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
MADE_ON_DEMAND = {
    OFFSETS_TOPIC: MadeOnDemand(
        "offsets.topic.num.partitions", "offsets.topic.replication.factor", None, {**_KEPT, "compression.type": "producer"}
    ),
    STATE_TOPIC: MadeOnDemand(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        {**_KEPT, "compression.type": "uncompressed", "unclean.leader.election.enable": "false"},
    ),
    SHARE_STATE_TOPIC: MadeOnDemand(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1", "segment.bytes": "104857600"},
    ),
}


class Topic:
    """A topic. `config` has every config in force, `overrides` those that were set on the topic itself."""

    def __init__(self, name: str, topic_id: UUID, *, config: Mapping[str, str], overrides: Mapping[str, str]) -> None:
        self.name = name
        self.id = topic_id
        self.config = config
        self.overrides = overrides
        self.partitions: list[Partition] = []
        self.internal = name in INTERNAL

    def copy(self) -> Topic:
        """With the same partitions, to which no later one is added."""
        copy = Topic(self.name, self.id, config=self.config, overrides=self.overrides)
        copy.partitions = [*self.partitions]
        return copy

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Topics:
    """Every topic, by name and by id."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._by_metric: dict[str, dict[str, Topic]] = {}  # by the name of their metrics

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def copy(self) -> Topics:
        """The topics that there are now."""
        copy = Topics()
        for topic in self:
            copy.add(topic.copy())
        return copy

    def add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._by_metric.setdefault(_metric(topic.name), {})[topic.name] = topic

    def remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        alike = self._by_metric[_metric(topic.name)]
        del alike[topic.name]
        if not alike:
            del self._by_metric[_metric(topic.name)]

    def named(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def colliding(self, name: str) -> Topic | None:
        """Another topic whose metrics would have the same name, because there `.` and `_` are the same."""
        alike = self._by_metric.get(_metric(name), {})
        return next((topic for topic in alike.values() if topic.name != name), None)


def _metric(name: str) -> str:
    return name.replace(".", "_")


def illegal_name(name: str) -> str | None:
    """Why a topic cannot have this name, in Kafka's words; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_CHARS_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {NAME_CHARS_MAX}"
    if not LEGAL.issuperset(name):
        return f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
