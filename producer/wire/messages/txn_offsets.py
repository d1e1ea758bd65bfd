"""TxnOffsetCommit: a transaction commits a group's offsets with its records."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, ignorable, since


class TxnOffsetCommitRequestPartition(WireStruct):
    """The offset of one partition from which the group reads on, once the transaction commits."""

    partition_index: i32 = 0
    committed_offset: i64 = 0
    committed_leader_epoch: Annotated[i32, since(2), ignorable] = -1
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(WireStruct):
    """The partitions of one topic in the request."""

    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Message):
    """A producer tells the group coordinator to store offsets as part of its transaction.

    With the consumer's member id and generation (KIP-447), the coordinator refuses offsets of a member that the group has removed.
    """

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
    """Whether the coordinator stored the offset of one partition; if not, the error."""

    partition_index: i32 = 0
    error_code: i16 = 0


class TxnOffsetCommitResponseTopic(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Message):
    """The coordinator answers with one result per partition."""

    api = Api.TXN_OFFSET_COMMIT
    versions = range(6)
    flexible = 3
    is_request = False

    throttle_time_ms: i32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
