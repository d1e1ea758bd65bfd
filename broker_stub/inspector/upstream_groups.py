"""The groups of a cluster behind a proxy, with members and committed offsets, from what their coordinators tell."""

from __future__ import annotations

from typing import Any, Final

from fencepost.broker_stub.inspector.coordinators import Data, assigned
from fencepost.broker_stub.inspector.upstream_client import Address, UpstreamClient
from fencepost.producer.wire.messages.consumer_group_admin import ConsumerGroupDescribeRequest
from fencepost.producer.wire.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from fencepost.producer.wire.messages.group_offsets import OffsetFetchRequest

GROUPS_MAX: Final = 100
CONSUMER: Final = "consumer"
TYPES_SINCE: Final = 5  # the version of ListGroups with the groups' types


def groups_of(client: UpstreamClient, address: Address, node: int) -> list[Data]:
    """The groups that the broker coordinates. OSError if it does not answer."""
    found: list[Data] = []
    for group in _listed(client, address)[:GROUPS_MAX]:
        name, is_consumer = group.group_id, getattr(group, "group_type", "").lower() == CONSUMER
        told = _consumer(client, address, name) if is_consumer else _classic(client, address, name)
        kind, state = CONSUMER if is_consumer else "classic", getattr(group, "group_state", "")
        offsets = _offsets(client, address, name)
        found.append({"id": name, "type": kind, "state": state, "since_ms": None, "node": node, "offsets": offsets} | told)
    return found


def _listed(client: UpstreamClient, address: Address) -> list[Any]:
    try:
        answer: Any = client.ask(address, ListGroupsRequest(), TYPES_SINCE)
    except ConnectionError:  # a broker before Kafka 3.8 closes the connection
        answer = client.ask(address, ListGroupsRequest(), TYPES_SINCE - 1)
    return list(answer.groups)


def _classic(client: UpstreamClient, address: Address, name: str) -> Data:
    answer: Any = client.ask(address, DescribeGroupsRequest(groups=[name]), 5)
    members = [
        {
            "id": each.member_id,
            "client": each.client_id,
            "instance": each.group_instance_id,
            "partitions": assigned(each.member_assignment),
        }
        for group in answer.groups
        for each in group.members
    ]
    return {"generation": None, "members": members}


def _consumer(client: UpstreamClient, address: Address, name: str) -> Data:
    answer: Any = client.ask(address, ConsumerGroupDescribeRequest(group_ids=[name]), 0)
    (group,) = answer.groups
    members = [
        {
            "id": each.member_id,
            "client": each.client_id,
            "instance": each.instance_id,
            "partitions": [[topic.topic_name, index] for topic in each.assignment.topic_partitions for index in topic.partitions],
        }
        for each in group.members
    ]
    return {"generation": group.group_epoch, "members": members}


def _offsets(client: UpstreamClient, address: Address, name: str) -> list[Data]:
    answer: Any = client.ask(address, OffsetFetchRequest(group_id=name, topics=None), 7)
    return [
        {"topic": topic.name, "partition": part.partition_index, "offset": part.committed_offset, "at_ms": -1, "pending": False}
        for topic in answer.topics
        for part in topic.partitions
        if part.committed_offset >= 0 and not part.error_code
    ]
