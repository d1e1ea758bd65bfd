"""ShareAcknowledge (79), versions 1 and 2.

A member of a share group (KIP-932) says what became of the records that it has: accepted, released for another delivery, rejected, or not
there. From version 2 on it can renew its locks (KIP-1222). Epoch -1 closes its share session, which releases the rest. The response leaves
when the share coordinator has kept it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.broker_stub.cluster.current_leader import endpoints
from fencepost.broker_stub.configs.group_configs import LOCK_DURATION
from fencepost.broker_stub.handlers.share_acknowledgements import acknowledge, acknowledgements_of, leader_of, request_refusal
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH, TopicIdPartition
from fencepost.broker_stub.share_partitions.states import ShareRefused
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_fetch import (
    AcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@handles(ShareAcknowledgeRequest, range(1, 3), group=Operation.READ, topic=Operation.READ)
def share_acknowledge(call: Call, request: ShareAcknowledgeRequest) -> Result:
    code = request_refusal(call, request.group_id, request.member_id)
    if code:
        return ShareAcknowledgeResponse(error_code=code)
    group_id, member_id, epoch = request.group_id or "", request.member_id or "", request.share_session_epoch
    try:
        _proceed(call, group_id, member_id, epoch)
    except ShareRefused as refused:
        return ShareAcknowledgeResponse(error_code=refused.code)
    reply: DeferredReply[ShareAcknowledgeResponse] = DeferredReply(call)

    def acknowledged(results: Mapping[TopicIdPartition, ShareRefused]) -> None:
        if epoch == FINAL_EPOCH:
            call.shares.release(group_id, member_id)
        reply(_response(call, group_id, results))

    acknowledge(call, group_id, member_id, acknowledgements_of(request.topics), request.is_renew_ack, acknowledged)
    return reply.result()


def _proceed(call: Call, group_id: str, member_id: str, epoch: int) -> None:
    """Raises ShareRefused without a session of that epoch."""
    sessions = call.shares.sessions
    if epoch == INITIAL_EPOCH:
        raise ShareRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    if epoch == FINAL_EPOCH:
        sessions.get(group_id, member_id)
    else:
        sessions.proceed(group_id, member_id, epoch)


def _response(call: Call, group_id: str, results: Mapping[TopicIdPartition, ShareRefused]) -> ShareAcknowledgeResponse:
    topics: dict[object, ShareAcknowledgeTopicResponse] = {}
    leaders = []
    for each, refused in results.items():
        data = AcknowledgePartitionData(partition_index=each.partition, error_code=refused.code, error_message=refused.message)
        topic = call.image.topics.with_id(each.topic_id)
        data = leader_of(call, data, topic.name if topic is not None else "", each.partition)
        leaders += [data.current_leader.leader_id] if data.current_leader.leader_id else []
        told = topics.setdefault(each.topic_id, ShareAcknowledgeTopicResponse(topic_id=each.topic_id, partitions=[]))
        told.partitions.append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=int(call.cluster.group_config(group_id, LOCK_DURATION, call.broker.node_id)),
        responses=list(topics.values()),
        node_endpoints=endpoints(call.cluster, leaders),
    )
