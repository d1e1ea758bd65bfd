"""Groups of the consumer protocol (KIP-848) for `fencepost groups describe`: one more request to the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
from fencepost.broker_stub.groups.state.embedded_protocol import Subscription
from fencepost.cli.groups_asking import Described, Member
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.consumer_group_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from fencepost.txn.protocol.cluster_client import refuse, the_one
from fencepost.txn.protocol.requests import GROUP

if TYPE_CHECKING:
    from fencepost.txn.protocol.cluster_client import ClusterClient

CONSUMER: Final = "consumer"


async def with_members(client: ClusterClient, listed: Described) -> Described:
    """The group with its members and its assignor, which DescribeGroups does not know."""
    subject = f"group {listed.group!r}"
    request = ConsumerGroupDescribeRequest(group_ids=[listed.group])
    answer: ConsumerGroupDescribeResponse = await client.ask_coordinator(listed.group, request, kind=GROUP)
    said = the_one(answer.groups, subject)
    refuse(Api.CONSUMER_GROUP_DESCRIBE, said.error_code, subject)
    members = tuple(sorted(_members(said), key=lambda each: (each.instance_id or "", each.id)))
    return Described(listed.group, said.group_state, CONSUMER, listed.protocol, said.assignor_name, listed.coordinator, members)


def _members(said: DescribedGroup) -> list[Member]:
    return [
        Member(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host.removeprefix("/"),
            Subscription(tuple(each.subscribed_topic_names)),
            tuple(TopicPartition(topic.topic_name, index) for topic in each.assignment.topic_partitions for index in topic.partitions),
            None,
            each.subscribed_topic_regex or None,
        )
        for each in said.members
    ]
