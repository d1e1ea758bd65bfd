"""Has an instance take its place in a group of the consumer protocol over from a process that was killed.

There the coordinator refuses a member with the instance of another one (UNRELEASED_INSTANCE_ID) until that one's session ends, and
librdkafka (2.16) then gives up. In the classic protocol the new member replaces the old one. So the old member's last heartbeat is sent
for it: it goes for a while, and its partitions wait. Its transactional id is fenced before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.consumer_group_admin import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from fencepost.txn.pipeline.consumer_settings import INSTANCE, has_consumer_protocol
from fencepost.txn.pipeline.leaving import last_heartbeat, try_to_ask
from fencepost.txn.protocol.cluster_client import ClusterClient, the_one
from fencepost.txn.protocol.requests import GROUP

LIMIT_S: Final = 5.0
LEAST_S: Final = 0.1
"""The same at the end of a run."""


def release_instance(own: Mapping[str, Any], group: str, consumer: Mapping[str, Any], left_s: float) -> None:
    """Have the member with this consumer's instance go. `own`: the producer's settings; `consumer`: the consumer's;
    `left_s`: how long the run may still last. A failure is logged."""
    instance = consumer.get(INSTANCE)
    if instance is None or not has_consumer_protocol(consumer):
        return
    subject = f"group {group!r}"

    async def ask(client: ClusterClient) -> None:
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        described: ConsumerGroupDescribeResponse = await client.ask_coordinator(group, request, kind=GROUP)
        found = the_one(described.groups, subject)
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        client.refuse(Api.CONSUMER_GROUP_DESCRIBE, found.error_code, subject, key=group, kind=GROUP)
        for member in found.members:
            if member.instance_id == instance:
                await last_heartbeat(client, group, subject, member.member_id, instance)

    otherwise = f"{subject} may refuse instance {instance!r} until the session of its former process ends"
    try_to_ask(own, ask, max(LEAST_S, min(LIMIT_S, left_s)), otherwise)
