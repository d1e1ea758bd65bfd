"""The requests of `fencepost groups`: to coordinators about groups and their offsets, to leaders about the offsets of partitions.

Every answer is a snapshot. This module prints nothing and decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
from fencepost.broker_stub.groups.state.embedded_protocol import Subscription, Unreadable, read_assignment, read_subscription
from fencepost.producer.wire.codes import Api, ErrorCode, error_name
from fencepost.producer.wire.messages.group_admin import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from fencepost.producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from fencepost.producer.wire.messages.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from fencepost.producer.wire.messages.metadata import MetadataResponse
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.cluster_client import DENIED, ClusterClient, Unanswered, refuse, the_one
from fencepost.txn.protocol.requests import GROUP

CLASSIC: Final = "classic"
CONSUMER_PROTOCOL: Final = "consumer"
DEAD: Final = "Dead"
INACTIVE: Final = ("Empty", DEAD)
STABLE: Final = "Stable"

SEVERAL_GROUPS_SINCE: Final = 8
BY_ID_SINCE: Final = 10
BY_TIME_SINCE: Final = 1

ACTIVE: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS})
"""Refusals of offsets that do not come from a member, while the group has members."""


class Listed(Struct, frozen=True):
    """A group, as ListGroups shows it. None: the broker is too old to say."""

    group: str
    state: str | None
    type: str | None
    protocol: str
    coordinator: int


class Member(Struct, frozen=True):
    """A member of a group. `trouble`: why its subscription or assignment is not known. `pattern`: of the topics that it subscribes to."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    subscription: Subscription | None
    partitions: tuple[TopicPartition, ...]
    trouble: str | None
    pattern: str | None = None


class Described(Struct, frozen=True):
    """A group with its members. `assignor`: "" unless the group is stable."""

    group: str
    state: str
    type: str
    protocol: str
    assignor: str
    coordinator: int
    members: tuple[Member, ...]


class Committed(Struct, frozen=True):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str


class Found(Struct, frozen=True):
    """Offsets of partitions; and the partitions whose offset is not known, with the reason."""

    offsets: dict[TopicPartition, int]
    unknown: dict[TopicPartition, str]


class ActiveGroup(NotPermitted):
    """The coordinator takes offsets of this group only from its members."""


async def list_groups(client: ClusterClient) -> list[Listed]:
    """The groups that the client may see."""
    await client.metadata()
    found = [each for node_id in sorted(client.brokers) for each in await _listed_by(client, node_id)]
    return sorted(found, key=lambda each: each.group)


async def _listed_by(client: ClusterClient, node_id: int) -> list[Listed]:
    answer: ListGroupsResponse = await client.ask(node_id, ListGroupsRequest())
    refuse(Api.LIST_GROUPS, answer.error_code, f"broker {node_id}")
    return [Listed(each.group_id, each.group_state or None, each.group_type or None, each.protocol_type, node_id) for each in answer.groups]


async def describe_group(client: ClusterClient, group: str) -> Described | None:
    """The group with its members; without them if it is of a newer type. None if its coordinator does not know it."""
    coordinator = await client.coordinator(group, GROUP)
    answer: DescribeGroupsResponse = await client.ask_coordinator(group, DescribeGroupsRequest(groups=[group]), kind=GROUP)
    said = the_one(answer.groups, f"group {group!r}")
    if said.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        client.forget(group, GROUP)
        refuse(Api.DESCRIBE_GROUPS, said.error_code, f"group {group!r}")
    if said.error_code or said.group_state == DEAD:
        # DescribeGroups knows groups of the classic protocol only.
        listed = next((each for each in await _listed_by(client, coordinator) if each.group == group), None)
        if listed is None or listed.type is None or listed.type == CLASSIC:
            return None
        return Described(group, listed.state or "", listed.type, listed.protocol, "", coordinator, ())
    members = tuple(sorted((_member(each, said) for each in said.members), key=lambda each: (each.instance_id or "", each.id)))
    return Described(group, said.group_state, CLASSIC, said.protocol_type, said.protocol_data, coordinator, members)


def _member(said: DescribedGroupMember, group: DescribedGroup) -> Member:
    subscription: Subscription | None = None
    partitions: tuple[TopicPartition, ...] = ()
    trouble = None
    if group.protocol_type == CONSUMER_PROTOCOL:
        try:
            subscription = read_subscription(said.member_metadata) if said.member_metadata else None
            partitions = read_assignment(said.member_assignment)
        except Unreadable as error:
            trouble = str(error)
    instance_id = said.group_instance_id
    return Member(said.member_id, instance_id, said.client_id, said.client_host.removeprefix("/"), subscription, partitions, trouble)


async def committed_offsets(client: ClusterClient, group: str) -> dict[TopicPartition, Committed]:
    """All offsets of the group. A group that does not exist has none."""
    answer: OffsetFetchResponse
    try:
        several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        answer = await client.ask_coordinator(group, several, range(SEVERAL_GROUPS_SINCE, BY_ID_SINCE), kind=GROUP)
        said = the_one(answer.groups, f"group {group!r}")
        code, topics = said.error_code, [(topic.name, topic.partitions) for topic in said.topics]
    except NotPermitted:
        single = OffsetFetchRequest(group_id=group, topics=None)
        answer = await client.ask_coordinator(group, single, range(2, SEVERAL_GROUPS_SINCE), kind=GROUP)
        code, topics = answer.error_code, [(topic.name, topic.partitions) for topic in answer.topics]  # type: ignore[misc]  # the same fields
    if code:
        client.forget(group, GROUP)
        refuse(Api.OFFSET_FETCH, code, f"group {group!r}")
    found: dict[TopicPartition, Committed] = {}
    for name, partitions in topics:
        for each in partitions:
            refuse(Api.OFFSET_FETCH, each.error_code, f"{name}-{each.partition_index}")
            if each.committed_offset >= 0:
                found[TopicPartition(name, each.partition_index)] = Committed(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return found


async def commit_offsets(client: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit as a client that is no member. Raises ActiveGroup if the group has members."""
    topics: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for tp, offset in offsets.items():
        topics[tp.topic].append(OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=offset))
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
    answer: OffsetCommitResponse = await client.ask_coordinator(group, request, range(2, BY_ID_SINCE), kind=GROUP)
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code in ACTIVE:
                raise ActiveGroup(f"group {group!r} has members: {error_name(each.error_code)}")
            if each.error_code:
                client.forget(group, GROUP)
            refuse(Api.OFFSET_COMMIT, each.error_code, f"{topic.name}-{each.partition_index}")


async def partitions_of(client: ClusterClient, topics: Iterable[str]) -> MetadataResponse:
    """The partitions of these topics. A topic that does not exist has none."""
    names = sorted(set(topics))
    metadata = await client.metadata(names)
    for topic in metadata.topics:
        if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            refuse(Api.METADATA, topic.error_code, f"topic {topic.name!r}")
    if missing := set(names) - {topic.name for topic in metadata.topics}:
        raise Unanswered(f"topic {min(missing)!r}: a broker was asked for it, and did not answer")
    return metadata


async def find_offsets(client: ClusterClient, partitions: Iterable[TopicPartition], timestamp: int = LATEST) -> Found:
    """The offset of each partition for a time in ms, or for a position as ListOffsets has it. -1: no record is as new."""
    wanted = sorted(set(partitions))
    found = Found({}, {})
    if not wanted:
        return found
    by_leader = _by_leader(await client.metadata(sorted({tp.topic for tp in wanted})), wanted, found.unknown)
    for leader, several in sorted(by_leader.items()):
        topics: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for tp in several:
            topics[tp.topic].append(ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp))
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
        )
        answer: ListOffsetsResponse = await client.ask(leader, request, range(BY_TIME_SINCE, 8))
        for topic in answer.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if each.error_code in DENIED:
                    found.unknown[tp] = f"{tp.topic}-{tp.partition}: {error_name(each.error_code)}"
                    continue
                refuse(Api.LIST_OFFSETS, each.error_code, f"{tp.topic}-{tp.partition}")
                found.offsets[tp] = each.offset
    missing = next((tp for tp in wanted if tp not in found.offsets and tp not in found.unknown), None)
    if missing is not None:
        raise Unanswered(f"{missing.topic}-{missing.partition}: a broker was asked for its offset, and did not answer")
    return found


def _by_leader(
    metadata: MetadataResponse, wanted: Iterable[TopicPartition], unknown: dict[TopicPartition, str]
) -> dict[int, list[TopicPartition]]:
    leaders = {
        TopicPartition(topic.name or "", each.partition_index): each.leader_id for topic in metadata.topics for each in topic.partitions
    }
    refused = {topic.name: error_name(topic.error_code) for topic in metadata.topics if topic.error_code}
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for tp in wanted:
        if leaders.get(tp, -1) >= 0:
            by_leader[leaders[tp]].append(tp)
        elif tp.topic in refused:
            unknown[tp] = f"topic {tp.topic!r}: {refused[tp.topic]}"
        else:
            unknown[tp] = f"{tp.topic}-{tp.partition} {'has no leader' if tp in leaders else 'does not exist'}"
    return by_leader
