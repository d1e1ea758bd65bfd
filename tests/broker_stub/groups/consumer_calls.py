"""Members of groups of the consumer protocol, in a cluster without sockets under a virtual clock."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.consumer_group_admin import ConsumerGroupDescribeRequest
from fencepost.producer.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.broker_stub.groups.group_calls import Groups
from tests.broker_stub.stub_calls import Pending

REBALANCE_MS = 60_000


class ConsumerWorld(Groups):
    """A cluster with members of the consumer protocol."""

    def consumer(self, name: str, *topics: str, group: str = "g", **how: Any) -> Consumer:
        """A member that has not joined."""
        return Consumer(self, name, topics, group=group, **how)

    def joined(self, name: str, *topics: str, **how: Any) -> Consumer:
        """A member that has joined."""
        consumer = self.consumer(name, *topics, **how)
        assert consumer.join().error_code == ErrorCode.NONE
        return consumer

    def consumer_group(self, name: str = "g") -> ConsumerGroup:
        """The group as its coordinator knows it."""
        return self.services.groups.shard_for(name, self.coordinator(name)).consumers.groups[name]

    def describe(self, *groups: str, operations: bool = False, version: int = 1) -> Any:
        request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
        return self.start(request, version).answer.groups

    def settle(self, *consumers: Consumer, rounds: int = 10) -> None:
        """Every member heartbeats in turn, gives up what it must, and takes what it gets."""
        for _ in range(rounds):
            for consumer in consumers:
                consumer.live()
        assert [consumer.epoch for consumer in consumers] == [self.consumer_group(consumers[0].group).epoch] * len(consumers)


class Consumer:
    """A member. It takes its epoch and its partitions from responses, and remembers what it owns."""

    def __init__(
        self,
        world: ConsumerWorld,
        name: str,
        topics: tuple[str, ...],
        *,
        group: str,
        instance: str | None = None,
        rack: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 1,
    ) -> None:
        self.world = world
        self.id = name
        self.name = name
        self.topics = topics
        self.group = group
        self.instance = instance
        self.rack = rack
        self.regex = regex
        self.assignor = assignor
        self.rebalance_ms = rebalance_ms
        self.version = version
        self.epoch = 0
        self.owned: dict[UUID, set[int]] = {}
        self.last: Any = None

    @property
    def partitions(self) -> set[tuple[str, int]]:
        """What it owns, with the topics' names."""
        names = {topic.id: topic.name for topic in self.world.cluster.topics}
        return {(names.get(topic_id, str(topic_id)), index) for topic_id, indexes in self.owned.items() for index in indexes}

    def join(self, **instead: Any) -> Any:
        """Join with everything that it has to say."""
        self.epoch, self.owned = 0, {}
        subscribes = {"subscribed_topic_names": list(self.topics)} if self.regex is None or self.topics else {}
        return self.heartbeat(
            **{
                "instance_id": self.instance,
                "rack_id": self.rack,
                "rebalance_timeout_ms": self.rebalance_ms,
                "subscribed_topic_regex": self.regex,
                "server_assignor": self.assignor,
                "topic_partitions": [],
                **subscribes,
                **instead,
            }
        )

    def live(self) -> Any:
        """A heartbeat that says what it owns. It gives up at once what it must. One that was fenced joins again."""
        answer = self.heartbeat(instance_id=self.instance, topic_partitions=self.owning())
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            return self.join()
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer

    def owning(self) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in self.owned.items() if indexes]

    def heartbeat(self, **fields: Any) -> Any:
        """A heartbeat with these fields. A response without an error changes what it knows."""
        answer = self.send(**fields).answer
        self.hear(answer)
        return answer

    def send(self, **fields: Any) -> Pending:
        known = {"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch}
        if self.instance is not None:
            known["instance_id"] = self.instance
        request = ConsumerGroupHeartbeatRequest(**{**known, **fields})
        return self.world.start(request, self.version, client_id=self.name, node=self.world.coordinator(self.group))

    def hear(self, answer: Any) -> None:
        self.last = answer
        if answer.error_code:
            return
        self.id, self.epoch = answer.member_id, answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: set(each.partitions) for each in answer.assignment.topic_partitions}

    def leave(self, *, for_a_while: bool = False) -> Any:
        answer = self.send(member_epoch=-2 if for_a_while else -1).answer
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.owned = {}
        return answer
