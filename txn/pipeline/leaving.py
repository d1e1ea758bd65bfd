"""Leaves the group for a consumer that was closed.

librdkafka (2.16) asks for that over the connection on which a JoinGroup may still wait for other members, and a broker answers the requests
of a connection one after the other. A member that is closed while the group rebalances would stay until its session ends, and keep its
partitions from the others. So the coordinator is asked over another connection whether the member is still there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import FencepostError
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from fencepost.producer.wire.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.protocol.ask_now import ask_patiently
from fencepost.txn.protocol.cluster_client import ClusterClient, refuse, the_one
from fencepost.txn.protocol.requests import GROUP

log = logging.getLogger("fencepost.pipeline")

LIMIT_S: Final = 2.0
VERSIONS: Final = range(3, 6)
REASON: Final = "the pipeline was closed"


def leave_group(own: Mapping[str, Any], group: str, member_id: str) -> None:
    """Have the coordinator remove the member, if it is still there. `own`: the producer's settings. A failure is logged."""
    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id, reason=REASON)])
    subject = f"group {group!r}"

    async def ask(client: ClusterClient) -> None:
        described: DescribeGroupsResponse = await client.ask_coordinator(group, DescribeGroupsRequest(groups=[group]), kind=GROUP)
        found = the_one(described.groups, subject)
        if found.error_code:
            client.forget(group, GROUP)
        refuse(Api.DESCRIBE_GROUPS, found.error_code, subject)
        if all(each.member_id != member_id for each in found.members):
            return
        answer: LeaveGroupResponse = await client.ask_coordinator(group, request, VERSIONS, kind=GROUP)
        if answer.error_code:
            client.forget(group, GROUP)
        refuse(Api.LEAVE_GROUP, answer.error_code, subject)

    try:
        ask_patiently(read_settings(read_transaction_settings(own)[1]), ask, LIMIT_S)
    except (FencepostError, OSError) as error:
        log.info("group %r may wait for member %r until its session ends: %s", group, member_id, error)
