"""Fetch: consumers and followers read records.

In versions 0 to 3, which only brokers up to Kafka 3.9 accept, the records are message sets of formats v0 and v1. This module passes them on
as bytes: `producer.wire.records` reads only format v2.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.common import LeaderIdAndEpoch, NodeEndpoint
from fencepost.producer.wire.schema.fields import ZERO_UUID, Records, WireStruct, i8, i16, i32, i64, ignorable, since, tag, until


class ReplicaState(WireStruct):
    """The broker id of the follower that fetches; -1 for a consumer."""

    replica_id: Annotated[i32, since(15)] = -1
    replica_epoch: Annotated[i64, since(15)] = -1


class FetchPartition(WireStruct):
    """The offset from which one partition is read, and the leader epochs that the reader knows."""

    partition: i32 = 0
    current_leader_epoch: Annotated[i32, since(9), ignorable] = -1
    fetch_offset: i64 = 0
    last_fetched_epoch: Annotated[i32, since(12)] = -1
    log_start_offset: Annotated[i64, since(5), ignorable] = -1
    partition_max_bytes: i32 = 0
    replica_directory_id: Annotated[UUID, since(17), tag(0), ignorable] = ZERO_UUID
    high_watermark: Annotated[i64, since(18), tag(1), ignorable] = (1 << 63) - 1


class FetchTopic(WireStruct):
    """The partitions of one topic. From version 13 on the topic has its id instead of its name."""

    topic: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(WireStruct):
    """Partitions that the broker must remove from the fetch session."""

    topic: Annotated[str, since(7), until(12), ignorable] = ""
    topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
    partitions: Annotated[list[i32], since(7)] = []


class FetchRequest(Message):
    """A consumer or follower asks a broker for records. The broker waits up to `max_wait_ms` for `min_bytes` of them.

    In a fetch session (KIP-227) the request names only the partitions that changed.
    """

    api = Api.FETCH
    versions = range(19)
    flexible = 12
    is_request = True

    cluster_id: Annotated[str | None, since(12), tag(0), ignorable] = None
    replica_id: Annotated[i32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tag(1)] = ReplicaState()
    max_wait_ms: i32 = 0
    min_bytes: i32 = 0
    max_bytes: Annotated[i32, since(3), ignorable] = 0x7FFFFFFF
    isolation_level: Annotated[i8, since(4), ignorable] = 0
    session_id: Annotated[i32, since(7), ignorable] = 0
    session_epoch: Annotated[i32, since(7), ignorable] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = []
    rack_id: Annotated[str, since(11), ignorable] = ""


class EpochEndOffset(WireStruct):
    """The epoch and offset at which the broker's log and the reader's log diverge."""

    epoch: Annotated[i32, since(12)] = -1
    end_offset: Annotated[i64, since(12)] = -1


class SnapshotId(WireStruct):
    """The snapshot that a follower must fetch, because its offset is no longer in the log."""

    end_offset: i64 = -1
    epoch: i32 = -1


class AbortedTransaction(WireStruct):
    """A transaction whose records a `read_committed` consumer skips, from `first_offset` to the abort marker."""

    producer_id: Annotated[i64, since(4)] = 0
    first_offset: Annotated[i64, since(4)] = 0


class PartitionData(WireStruct):
    """The records of one partition. The last batch may be cut off."""

    partition_index: i32 = 0
    error_code: i16 = 0
    high_watermark: i64 = 0
    last_stable_offset: Annotated[i64, since(4), ignorable] = -1
    log_start_offset: Annotated[i64, since(5), ignorable] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tag(2)] = SnapshotId()
    aborted_transactions: Annotated[list[AbortedTransaction] | None, since(4), ignorable] = []
    preferred_read_replica: Annotated[i32, since(11)] = -1
    records: Records | None = None


class FetchableTopicResponse(WireStruct):
    """The results for the partitions of one topic."""

    topic: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
    partitions: list[PartitionData] = []


class FetchResponse(Message):
    """The broker answers with records. In a fetch session it leaves out partitions that did not change."""

    api = Api.FETCH
    versions = range(19)
    flexible = 12
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: Annotated[i16, since(7), ignorable] = 0
    session_id: Annotated[i32, since(7)] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tag(0)] = []
