"""FindCoordinator (10), versions 0 to 6.

The coordinator of a group, a transactional id or a share partition is the leader of one partition of an internal topic: abs(hash(key)) % n.
The first request creates that topic. Share partitions come from version 6 on (KIP-932), as "group:topic id:partition". Up to version 3 a
request has one key, from version 4 on many; a key named twice has two results. Error messages are as in Kafka. A key needs DESCRIBE on its
group or transactional id.
"""

from __future__ import annotations

import re

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, STATE_TOPIC
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import Coordinator, ErrorCode, FindCoordinatorRequest, FindCoordinatorResponse, error_name

SHARE = 2
SHARE_SINCE = 6
BATCHED_SINCE = 4
RESOURCES = {0: Resource.GROUP, 1: Resource.TRANSACTIONAL_ID}
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
TOPIC_OF = {0: OFFSETS_TOPIC, 1: STATE_TOPIC, SHARE: SHARE_STATE_TOPIC}


@handles(FindCoordinatorRequest, range(7))
def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=[_coordinator(call, key, request.key_type) for key in request.coordinator_keys])
    one = _coordinator(call, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or WORDS.get(one.error_code) or error_name(one.error_code),
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _coordinator(call: Call, key: str, key_type: int) -> Coordinator:
    code = call.error or (call.refusal(Operation.DESCRIBE, RESOURCES[key_type], key) if key_type in RESOURCES else ErrorCode.NONE)
    if code:
        return _failed(key, code)
    if key_type not in TOPIC_OF:
        return _failed(key, ErrorCode.INVALID_REQUEST, f"unknown key type {key_type}")
    if key_type == SHARE and (call.version < SHARE_SINCE or not _is_share_key(key)):
        return _failed(key, ErrorCode.INVALID_REQUEST)
    name = TOPIC_OF[key_type]
    if call.image.topics.named(name) is None:
        call.cluster.controller_link.do(call.broker.node_id, lambda: call.cluster.internal_topic(name))
    topic = call.image.topics.named(name)
    leader = call.cluster.led_by(call.broker.node_id, name, partition_for(key, len(topic.partitions))) if topic is not None else NO_LEADER
    if leader == NO_LEADER:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    broker = call.cluster.brokers[leader]
    return Coordinator(key=key, node_id=broker.node_id, host=broker.host, port=broker.port)


def _is_share_key(key: str) -> bool:
    """Whether it has a group, a topic's id as Kafka writes it, and a partition."""
    group_id, *rest = key.rsplit(":", 2)
    return len(rest) == 2 and bool(group_id.strip()) and bool(_TOPIC_ID.fullmatch(rest[0])) and bool(_NUMBER.fullmatch(rest[1]))


def _failed(key: str, code: int, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
