"""ConsumerGroupHeartbeat: the members of a group of the consumer protocol, and its coordinator (KIP-848).

The coordinator assigns the partitions. A member tells what changed, and the coordinator answers with what the member may own.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32, since


class TopicPartitions(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[i32] = []


class ConsumerGroupHeartbeatRequest(Message):
    """A member joins with epoch 0, heartbeats with its epoch, and leaves with epoch -1, or for a while with -2.

    A field is null, or -1, if it has not changed since the last heartbeat.
    """

    api = Api.CONSUMER_GROUP_HEARTBEAT
    versions = range(2)
    flexible = 0
    is_request = True

    group_id: str = ""
    member_id: str = ""
    member_epoch: i32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: i32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, since(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(WireStruct):
    """What the member may own now."""

    topic_partitions: list[TopicPartitions] = []


class ConsumerGroupHeartbeatResponse(Message):
    """The coordinator answers with the member's epoch, and with its assignment if that changed."""

    api = Api.CONSUMER_GROUP_HEARTBEAT
    versions = range(2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: i32 = 0
    heartbeat_interval_ms: i32 = 0
    assignment: Assignment | None = None
