"""Leaves the group for a consumer that was closed.

librdkafka (2.16) asks for that over the connection on which a JoinGroup may still wait for other members, and a broker answers the requests
of a connection one after the other. A member that is closed while the group rebalances would stay until its session ends, and keep its
partitions from the others. So the coordinator is asked over another connection whether the member is still there.

In the consumer protocol (KIP-848) librdkafka does not leave at all if it is closed before the answer to its first heartbeat. A member says
that it leaves with a heartbeat, too; a static one says that it goes for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import FencepostError
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from fencepost.producer.wire.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from fencepost.producer.wire.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.pipeline.consumer_settings import INSTANCE, has_consumer_protocol
from fencepost.txn.protocol.ask_now import ask_patiently
from fencepost.txn.protocol.cluster_client import ClusterClient, the_one
from fencepost.txn.protocol.requests import GROUP

log = logging.getLogger("fencepost.pipeline")

LIMIT_S: Final = 2.0
VERSIONS: Final = range(3, 6)
REASON: Final = "the pipeline was closed"
LEAVES: Final = -1
GOES_FOR_A_WHILE: Final = -2
"""The epochs of a last heartbeat: of a member, and of a static one, whose partitions wait for it until its session ends."""
GONE: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID})
"""Answers to a member that is no longer in the group, or that another process has replaced."""


def leave_group(own: Mapping[str, Any], group: str, consumer: Mapping[str, Any], member_id: str) -> None:
    """Have the coordinator remove the member, if it is still there. `own`: the producer's settings; `consumer`: the consumer's. A failure
    is logged."""
    subject = f"group {group!r}"

    async def ask(client: ClusterClient) -> None:
        if has_consumer_protocol(consumer):
            await last_heartbeat(client, group, subject, member_id, consumer.get(INSTANCE))
        else:
            await _leave(client, group, subject, member_id)

    try_to_ask(own, ask, LIMIT_S, f"{subject} may wait for member {member_id!r} until its session ends")


def try_to_ask(own: Mapping[str, Any], ask: Callable[[ClusterClient], Awaitable[None]], limit_s: float, otherwise: str) -> None:
    """Ask with the settings of a transactional producer. `otherwise`: what a failure means, for the log."""
    try:
        ask_patiently(read_settings(read_transaction_settings(own)[1]), ask, limit_s)
    except (FencepostError, OSError) as error:
        log.info("%s: %s", otherwise, error)


async def _leave(client: ClusterClient, group: str, subject: str, member_id: str) -> None:
    described: DescribeGroupsResponse = await client.ask_coordinator(group, DescribeGroupsRequest(groups=[group]), kind=GROUP)
    found = the_one(described.groups, subject)
    client.refuse(Api.DESCRIBE_GROUPS, found.error_code, subject, key=group, kind=GROUP)
    if all(each.member_id != member_id for each in found.members):
        return
    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id, reason=REASON)])
    answer: LeaveGroupResponse = await client.ask_coordinator(group, request, VERSIONS, kind=GROUP)
    client.refuse(Api.LEAVE_GROUP, answer.error_code, subject, key=group, kind=GROUP)


async def last_heartbeat(client: ClusterClient, group: str, subject: str, member_id: str, instance: str | None) -> None:
    """Have the member leave a group of the consumer protocol, for a while if it is a static one. Nothing happens if it is gone."""
    epoch = LEAVES if instance is None else GOES_FOR_A_WHILE
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, instance_id=instance)
    answer: ConsumerGroupHeartbeatResponse = await client.ask_coordinator(group, request, kind=GROUP)
    if answer.error_code not in GONE:
        client.refuse(Api.CONSUMER_GROUP_HEARTBEAT, answer.error_code, subject, key=group, kind=GROUP)
