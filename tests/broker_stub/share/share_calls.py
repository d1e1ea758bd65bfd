"""Members of share groups, in a cluster without sockets under a virtual clock."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec.structs import replace

from fencepost.broker_stub.configs.group_configs import AUTO_OFFSET_RESET
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.groups.state.share_group import ShareGroup
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.share_partition import SharePartition
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import incremental_configs, share_fetch, share_groups, share_offsets
from fencepost.producer.wire.records import iter_batches, read_records
from tests.broker_stub.groups.group_calls import Groups
from tests.broker_stub.stub_calls import Pending, batch, produce_request

FINAL = -1
GROUP = 32


class ShareWorld(Groups):
    """A cluster with members of share groups. Groups begin at the earliest offset."""

    def __init__(self, *, earliest: bool = True, **options: Any) -> None:
        super().__init__(**options)
        if earliest:
            self.cluster.configure_resource(ResourceType.GROUP, "s", {AUTO_OFFSET_RESET: "earliest"})

    def sharer(self, name: str, *topics: str, group: str = "s") -> Sharer:
        """A member that has not joined."""
        return Sharer(self, name, topics, group=group)

    def sharers(self, *names: str, topic: str = "t", group: str = "s") -> list[Sharer]:
        """Members that have joined and have their partitions."""
        found = [self.sharer(name, topic, group=group) for name in names]
        for each in found:
            assert each.join().error_code == ErrorCode.NONE
        for _ in range(3):
            for each in found:
                each.live()
        return found

    def share_group(self, name: str = "s") -> ShareGroup:
        """The group as its coordinator knows it."""
        return self.services.groups.shard_for(name, self.coordinator(name)).shares.groups[name]

    def share_partition(self, topic: str = "t", partition: int = 0, *, group: str = "s") -> SharePartition:
        """The share partition as its leader knows it."""
        shares = self.services.share_partitions.at(self.leader(topic, partition))
        live = shares.find(Key(group, self.topic_named(topic).id, partition))
        assert live is not None
        return live.core

    def put(self, *values: bytes, topic: str = "t", partition: int = 0, **how: Any) -> None:
        """One batch of records."""
        request = produce_request(topic, batch(*values, **how), partition=partition)
        request = replace(request, transactional_id="x" if how.get("transactional") else None)
        answer = self.start(request, 11, node=self.leader(topic, partition)).answer
        assert answer.responses[0].partition_responses[0].error_code == 0

    def configure_group(self, group: str = "s", **configs: str) -> Any:
        """Set configs of a group, with _ for a dot."""
        asked = [incremental_configs.AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
        resource = incremental_configs.AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=asked)
        (answer,) = self.start(incremental_configs.IncrementalAlterConfigsRequest(resources=[resource]), 1).answer.responses
        return answer

    def share_offsets(self, group: str = "s", *, topics: Any = None, version: int = 1) -> dict[tuple[str, int], tuple[int, int]]:
        """Start offset and lag of each partition."""
        asked = share_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
        request = share_offsets.DescribeShareGroupOffsetsRequest(groups=[asked])
        (answer,) = self.start(request, version, node=self.coordinator(group)).answer.groups
        assert answer.error_code == 0
        return {
            (topic.topic_name, each.partition_index): (each.start_offset, each.lag) for topic in answer.topics for each in topic.partitions
        }


class Sharer:
    """A member. It takes its epochs and its partitions from responses."""

    def __init__(self, world: ShareWorld, name: str, topics: tuple[str, ...], *, group: str) -> None:
        self.world = world
        self.id = name
        self.topics = topics
        self.group = group
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}
        self.session_epoch: dict[int, int] = {}

    @property
    def partitions(self) -> set[tuple[str, int]]:
        names = {topic.id: topic.name for topic in self.world.cluster.topics}
        return {(names.get(topic_id, str(topic_id)), index) for topic_id, indexes in self.owned.items() for index in indexes}

    # Membership

    def join(self, **instead: Any) -> Any:
        self.epoch, self.owned = 0, {}
        return self.heartbeat(**{"subscribed_topic_names": list(self.topics), **instead})

    def live(self) -> Any:
        answer = self.heartbeat()
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer

    def leave(self) -> Any:
        return self.heartbeat(member_epoch=-1)

    def heartbeat(self, **fields: Any) -> Any:
        known = {"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch}
        request = share_groups.ShareGroupHeartbeatRequest(**{**known, **fields})
        answer = self.world.start(request, 1, client_id=self.id, node=self.world.coordinator(self.group)).answer
        self.world.now()
        if not answer.error_code and answer.member_epoch >= 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return answer

    # Records

    def start_fetch(self, topic: str = "t", partitions: tuple[int, ...] = (0,), **how: Any) -> Pending:
        """Begin a ShareFetch. `acks`: (first, last, types) for the first partition."""
        acks = how.pop("acks", ())
        node = how.pop("node") if "node" in how else self.world.leader(topic, partitions[0])
        epoch = how.pop("epoch", self.session_epoch.get(node, 0))
        version = how.pop("version", 2)
        topic_id = how.pop("topic_id", self.world.topic_named(topic).id)
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=f, last_offset=last, acknowledge_types=list(types)) for f, last, types in acks
        ]
        request = share_fetch.ShareFetchRequest(
            group_id=how.pop("group", self.group),
            member_id=self.id,
            share_session_epoch=epoch,
            topics=[
                share_fetch.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=batches if not at else [])
                        for at, index in enumerate(partitions)
                    ],
                )
            ],
            **{"max_records": 1000, "batch_size": 1000, "min_bytes": 1, "max_wait_ms": 0, "max_bytes": 1 << 20, **how},
        )
        self.session_epoch[node] = epoch + 1 if epoch != FINAL else 0
        return self.world.start(request, version, client_id=self.id, node=node)

    def fetch(self, topic: str = "t", partitions: tuple[int, ...] = (0,), **how: Any) -> Any:
        return self.start_fetch(topic, partitions, **how).answer

    def acquire(self, topic: str = "t", partitions: tuple[int, ...] = (0,), **how: Any) -> list[tuple[int, int, int, int]]:
        """(partition, first, last, delivery count) of everything that was acquired."""
        answer = self.fetch(topic, partitions, **how)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        found = [each for topics in answer.responses for each in topics.partitions]
        assert not any(each.error_code for each in found), found
        return [
            (each.partition_index, part.first_offset, part.last_offset, part.delivery_count)
            for each in found
            for part in each.acquired_records
        ]

    def acknowledge(self, first: int, last: int, *types: int, topic: str = "t", partition: int = 0, **how: Any) -> Any:
        """The result for the partition, or the whole response if it failed."""
        node = how.pop("node", self.world.leader(topic, partition))
        epoch = how.pop("epoch", self.session_epoch.get(node, 0))
        version = how.pop("version", 2)
        asked = share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types or (1,)))
        part = share_fetch.AcknowledgePartition(partition_index=partition, acknowledgement_batches=[asked])
        request = share_fetch.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=epoch,
            topics=[share_fetch.AcknowledgeTopic(topic_id=self.world.topic_named(topic).id, partitions=[part])],
            **how,
        )
        answer = self.world.start(request, version, client_id=self.id, node=node).answer
        if answer.error_code:
            return answer
        self.session_epoch[node] = epoch + 1 if epoch != FINAL else 0
        (found,) = (each for topics in answer.responses for each in topics.partitions)
        return found


def values(answer: Any) -> list[bytes]:
    """The values of the records that were acquired."""
    found: list[bytes] = []
    for topic in answer.responses:
        for each in topic.partitions:
            wanted = {at for part in each.acquired_records for at in range(part.first_offset, part.last_offset + 1)}
            for header, data in iter_batches(bytes(each.records)):
                if not header.is_control:
                    found += [record.value or b"" for record in read_records(data) if record.offset in wanted]
    return found
