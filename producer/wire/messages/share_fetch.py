"""ShareFetch and ShareAcknowledge: a member of a share group acquires records, and says what became of them (KIP-932).

An acknowledgement is about a range of offsets. Its types are 0 (a gap), 1 (accept), 2 (release), 3 (reject) and 4 (renew): one for all
offsets, or one for each.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.common import NodeEndpoint
from fencepost.producer.wire.schema.fields import ZERO_UUID, Records, WireStruct, i8, i16, i32, i64, ignorable, since, until


class LeaderIdAndEpoch(WireStruct):
    """The leader of a partition; 0 where the response does not tell it."""

    leader_id: i32 = 0
    leader_epoch: i32 = 0


class AcknowledgementBatch(WireStruct):
    """What became of a range of records."""

    first_offset: i64 = 0
    last_offset: i64 = 0
    acknowledge_types: list[i8] = []


class FetchPartition(WireStruct):
    """A partition to fetch from, with acknowledgements of earlier records."""

    partition_index: i32 = 0
    partition_max_bytes: Annotated[i32, until(0)] = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class FetchTopic(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(WireStruct):
    """Partitions that leave the share session."""

    topic_id: UUID = ZERO_UUID
    partitions: list[i32] = []


class ShareFetchRequest(Message):
    """A member asks a leader for records that it may work on. Epoch 0 opens its share session, and -1 closes it."""

    api = Api.SHARE_FETCH
    versions = range(1, 3)
    flexible = 0
    is_request = True

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: i32 = 0
    max_wait_ms: i32 = 0
    min_bytes: i32 = 0
    max_bytes: i32 = 0x7FFFFFFF
    max_records: i32 = 0
    batch_size: i32 = 0
    share_acquire_mode: Annotated[i8, since(2), ignorable] = 0
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = []


class AcquiredRecords(WireStruct):
    """Records that are the member's until it acknowledges them, or its lock ends."""

    first_offset: i64 = 0
    last_offset: i64 = 0
    delivery_count: i16 = 0


class SharePartitionData(WireStruct):
    """The records of one partition, and the result of its acknowledgements. `records` may have more than what was acquired."""

    partition_index: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    acknowledge_error_code: i16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Records = b""
    acquired_records: list[AcquiredRecords] = []


class ShareFetchableTopicResponse(WireStruct):
    """The results for the partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[SharePartitionData] = []


class ShareFetchResponse(Message):
    """The leader answers with records. It leaves out partitions without news."""

    api = Api.SHARE_FETCH
    versions = range(1, 3)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: i32 = 0
    responses: list[ShareFetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []


class AcknowledgePartition(WireStruct):
    """The acknowledgements of one partition."""

    partition_index: i32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class AcknowledgeTopic(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[AcknowledgePartition] = []


class ShareAcknowledgeRequest(Message):
    """A member says what became of records, without fetching. Epoch -1 closes its share session."""

    api = Api.SHARE_ACKNOWLEDGE
    versions = range(1, 3)
    flexible = 0
    is_request = True

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: i32 = 0
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[AcknowledgeTopic] = []


class AcknowledgePartitionData(WireStruct):
    """The result for one partition."""

    partition_index: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(WireStruct):
    """The results for the partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[AcknowledgePartitionData] = []


class ShareAcknowledgeResponse(Message):
    """The leader answers once the acknowledgements are kept."""

    api = Api.SHARE_ACKNOWLEDGE
    versions = range(1, 3)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[i32, since(2), ignorable] = 0
    responses: list[ShareAcknowledgeTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []
