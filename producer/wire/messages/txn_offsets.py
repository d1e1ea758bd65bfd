"""TxnOffsetCommit: the offsets of a group that a transaction commits."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, ignorable, since


class TxnOffsetCommitRequestPartition(WireStruct):
    """How far the group will have read one partition."""

    partition_index: i32 = 0
    committed_offset: i64 = 0
    committed_leader_epoch: Annotated[i32, since(2), ignorable] = -1
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Message):
    """Commits offsets within a transaction. With a member and its generation (KIP-447) a group's zombies are refused."""

    api = Api.TXN_OFFSET_COMMIT
    versions = range(6)
    flexible = 3
    is_request = True

    transactional_id: str = ""
    group_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    generation_id: Annotated[i32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponsePartition(WireStruct):
    """Whether the offset of one partition was taken."""

    partition_index: i32 = 0
    error_code: i16 = 0


class TxnOffsetCommitResponseTopic(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Message):
    """One answer per partition."""

    api = Api.TXN_OFFSET_COMMIT
    versions = range(6)
    flexible = 3
    is_request = False

    throttle_time_ms: i32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
