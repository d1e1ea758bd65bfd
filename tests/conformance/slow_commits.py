"""A group's offsets while a follower of the group's partition does not reach its leader, step by step, in the brokers' words."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TypeVar

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import group_offsets
from tests.conformance.asks_groups import offset_fetch_group
from tests.conformance.raw import RawConnection
from tests.waiting import until

WAIT_S = 60.0
OFFSETS_TOPIC = "__consumer_offsets"

Answer = TypeVar("Answer", bound=wire.Message)
Change = Callable[[int, int], None]
"""Cuts or restores the connection between a leader and a follower."""


class Commits:
    """One group, and the broker that coordinates it."""

    def __init__(self, addresses: dict[int, tuple[str, int]]) -> None:
        self._addresses = addresses
        self._topic = f"committed-{secrets.token_hex(4)}"
        self._group = f"group-{secrets.token_hex(4)}"
        self.coordinator = next(iter(addresses))
        topic = wire.CreatableTopic(name=self._topic, num_partitions=1, replication_factor=3)
        made = self._ask(wire.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7, wire.CreateTopicsResponse)
        assert made.topics[0].error_code == 0
        self.coordinator = until(self._find, "a coordinator", good=lambda node: node > 0, timeout_s=WAIT_S)
        until(lambda: self.commit(0), "a commit", good=lambda told: told == "NONE", timeout_s=WAIT_S)
        self.until_in_sync()

    def commit(self, offset: int) -> str:
        part = group_offsets.OffsetCommitRequestPartition(committed_offset=offset)
        topic = group_offsets.OffsetCommitRequestTopic(name=self._topic, partitions=[part])
        request = group_offsets.OffsetCommitRequest(group_id=self._group, topics=[topic])
        answer = self._ask(request, 9, group_offsets.OffsetCommitResponse)
        return error_name(answer.topics[0].partitions[0].error_code)

    def committed(self) -> int:
        request = group_offsets.OffsetFetchRequest(groups=[offset_fetch_group(self._group, [(self._topic, wire.ZERO_UUID, [0])])])
        (group,) = self._ask(request, 9, group_offsets.OffsetFetchResponse).groups
        assert group.error_code == 0
        return group.topics[0].partitions[0].committed_offset

    def until_in_sync(self) -> None:
        """Wait until the coordinator sees all three replicas of the group's partition in sync."""
        until(self._in_sync, "three in sync", good=lambda count: count == 3, timeout_s=WAIT_S)

    def _in_sync(self) -> int:
        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=OFFSETS_TOPIC)], allow_auto_topic_creation=False)
        partitions = self._ask(request, 12, wire.MetadataResponse).topics[0].partitions
        index = partition_for(self._group, len(partitions))
        return next((len(each.isr_nodes) for each in partitions if each.partition_index == index), 0)

    def _find(self) -> int:
        request = wire.FindCoordinatorRequest(coordinator_keys=[self._group])
        return self._ask(request, 4, wire.FindCoordinatorResponse).coordinators[0].node_id

    def _ask(self, request: wire.Message, version: int, kind: type[Answer]) -> Answer:
        with RawConnection(self._addresses[self.coordinator], timeout=WAIT_S) as connection:
            answer = connection.ask(request, version)
        assert isinstance(answer, kind)
        return answer


def tell(addresses: dict[int, tuple[str, int]], keep_away: Change, let_go: Change) -> list[str]:
    """Run the steps, and note what happened."""
    group = Commits(addresses)
    follower = next(node for node in addresses if node != group.coordinator)
    told = [f"with all: {group.commit(3)}, has {group.committed()}"]
    keep_away(group.coordinator, follower)
    told.append(f"in vain: {group.commit(7)}, has {group.committed()}")
    until(group.committed, "what is in the log counts", good=lambda offset: offset == 7, timeout_s=WAIT_S)
    told.append("and counts once the others have it")
    told.append(f"for two: {group.commit(8)}, has {group.committed()}")
    let_go(group.coordinator, follower)
    group.until_in_sync()
    told.append(f"with all again: {group.commit(9)}, has {group.committed()}")
    return told


TOLD = """
with all: NONE, has 3
in vain: COORDINATOR_NOT_AVAILABLE, has 3
and counts once the others have it
for two: NONE, has 8
with all again: NONE, has 9
"""
