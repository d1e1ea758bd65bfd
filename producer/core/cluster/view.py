"""The producer's metadata of the cluster: brokers, topics, partitions, leaders.

For one topic id, a response with an older leader epoch is ignored (KIP-320). A new topic id means that the topic was deleted and created
again. Brokers before Kafka 2.8 have no topic ids. With them, older epochs or fewer partitions mean the same in two cases: the topic was
missing before, or several responses in a row have them and the known leader denies that it leads. It sends no requests.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from msgspec import Struct

from fencepost.producer.core.error_table import ErrorAction, judge
from fencepost.producer.core.events import Change, Heard
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire import MetadataResponse
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.metadata import MetadataResponseTopic

NO_TOPIC_ID = UUID(int=0)
NO_LEADER = -1
OLDER_ANSWERS = 5
"""After so many older responses in a row, the topic was created again. They come 100 ms to a second apart, and no broker's metadata lags
behind for that long."""


Leadership = tuple[int, int, UUID]
"""A partition's leader, its leader epoch, and the topic's id. A response about the partition's log is valid while these stay."""


class Leader(Struct, frozen=True):
    """The leader of a partition, and its leader epoch (-1: the broker did not tell)."""

    node: int
    epoch: int


class Topic(Struct):
    """The newest metadata of one topic. `leaders[p]`: partition p's leader. `denied`: partitions whose known leader says that it does not
    lead them. `older`: how many responses in a row had older epochs of these partitions, or lacked them."""

    name: str
    topic_id: UUID
    leaders: list[Leader]
    missing: bool = False
    denied: set[int] = set()
    older: int = 0


GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""The codes of a topic that does not exist."""


class ClusterView:
    """See the module."""

    def __init__(self) -> None:
        self.brokers: dict[int, Address] = {}
        self.topics: dict[str, Topic] = {}
        self.cluster_id: str | None = None
        self.news = 0  # how many times something changed

    def leader(self, topic: str, partition: int) -> Leader | None:
        """The partition's leader, or None while none is known."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.leaders):
            return None
        leader = known.leaders[partition]
        return leader if leader.node > NO_LEADER else None

    def leadership(self, topic: str, partition: int) -> Leadership:
        """The known leader, leader epoch and topic id of the partition."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.leaders):
            return (NO_LEADER, -1, NO_TOPIC_ID)
        leader = known.leaders[partition]
        return (leader.node, leader.epoch, known.topic_id)

    def topic_id(self, topic: str) -> UUID:
        """The topic's id; all zero if brokers do not tell."""
        known = self.topics.get(topic)
        return known.topic_id if known is not None else NO_TOPIC_ID

    def moved(self, topic: str, partition: int, leader: Leader) -> bool:
        """Take a leader that an error response named (KIP-951). False if it is not newer than the known one."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.leaders) or leader.epoch <= known.leaders[partition].epoch:
            return False
        known.leaders[partition] = leader
        self.news += 1
        return True

    def deny(self, topic: str, partition: int) -> None:
        """The known leader says that it does not lead."""
        known = self.topics.get(topic)
        if known is not None and partition < len(known.leaders):
            known.denied.add(partition)

    def forget(self) -> None:
        """Forget everything: the producer writes to another cluster now."""
        self.brokers, self.topics, self.cluster_id = {}, {}, None

    def learn(self, answer: MetadataResponse, asked: Collection[str]) -> list[Heard]:
        """Take a metadata response; returns the news of each requested topic. Other topics are ignored, so that a broker cannot fill the
        memory."""
        if answer.brokers:
            brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
            self.news += brokers != self.brokers
            self.brokers = brokers
        self.cluster_id = answer.cluster_id or self.cluster_id
        return [self._learn_topic(topic) for topic in answer.topics if topic.name in asked]

    def _learn_topic(self, said: MetadataResponseTopic) -> Heard:
        name = said.name or ""
        known = self.topics.get(name)
        action = judge(Api.METADATA, said.error_code).action
        if action is ErrorAction.FAIL:
            return Heard(name, Change.REFUSED, 0, said.error_code)
        if action is ErrorAction.REFRESH and not said.partitions:
            if known is not None:
                known.missing = said.error_code in GONE
            return Heard(name, Change.MISSING, 0, said.error_code)
        said_leaders = _leaders(said)
        if said_leaders is None:
            return Heard(name, Change.MISSING, 0, ErrorCode.LEADER_NOT_AVAILABLE)
        if known is not None and said.topic_id == known.topic_id == NO_TOPIC_ID:
            suspects = range(len(known.leaders)) if known.missing else known.denied
            known.older = known.older + 1 if any(_is_older(said_leaders, known.leaders, p) for p in suspects) else 0
            if not known.older:
                known.denied.clear()
        if known is None or _recreated(known, said):
            self.topics[name] = Topic(name, said.topic_id, said_leaders)
            self.news += 1
            return Heard(name, Change.SEEN if known is None else Change.RECREATED, len(said_leaders))
        known.missing = False
        grown = len(said_leaders) > len(known.leaders)
        for partition, leader in enumerate(said_leaders):
            if partition >= len(known.leaders):
                known.leaders.append(leader)
                self.news += 1
            elif leader.epoch >= known.leaders[partition].epoch or leader.epoch < 0:
                self.news += leader != known.leaders[partition]
                known.leaders[partition] = leader
        return Heard(name, Change.GROWN if grown else Change.SAME, len(known.leaders))

    def drop(self, topic: str) -> None:
        """Forget a topic that is not used any more."""
        self.topics.pop(topic, None)


def _recreated(known: Topic, said: MetadataResponseTopic) -> bool:
    if NO_TOPIC_ID not in (known.topic_id, said.topic_id):
        return known.topic_id != said.topic_id
    return known.older >= (1 if known.missing else OLDER_ANSWERS)


def _is_older(said: list[Leader], known: list[Leader], partition: int) -> bool:
    """Whether the response is outdated, or about another topic of that name. Epochs of -1 tell nothing."""
    return partition >= len(said) or 0 <= said[partition].epoch < known[partition].epoch


def _leaders(said: MetadataResponseTopic) -> list[Leader] | None:
    """Every partition's leader; None for an invalid response: no partitions, or other numbers than those from 0 on."""
    leaders = {each.partition_index: Leader(each.leader_id, each.leader_epoch) for each in said.partitions}
    count = len(said.partitions)
    return [leaders[index] for index in range(count)] if count and leaders.keys() == set(range(count)) else None
