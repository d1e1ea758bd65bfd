"""EndTxn and WriteTxnMarkers: a producer ends its transaction at the coordinator, and the coordinator at the partitions' leaders.

Version 0 of WriteTxnMarkers is not supported. Only brokers up to Kafka 3.9 accept it, and only from each other.
"""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, i64, ignorable, since


class EndTxnRequest(Message):
    """A producer tells the transaction coordinator to commit or abort its transaction. From version 5 on (KIP-890) each end raises the
    epoch.
    """

    api = Api.END_TXN
    versions = range(6)
    flexible = 3
    is_request = True

    transactional_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    committed: bool = False


class EndTxnResponse(Message):
    """The coordinator answers whether it decided the end. From version 5 on it also sends the identity for the next transaction."""

    api = Api.END_TXN
    versions = range(6)
    flexible = 3
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id: Annotated[i64, since(5), ignorable] = -1
    producer_epoch: Annotated[i16, since(5), ignorable] = -1


class WritableTxnMarkerTopic(WireStruct):
    """The partitions of one topic that get the marker."""

    name: str = ""
    partition_indexes: list[i32] = []


class WritableTxnMarker(WireStruct):
    """The marker of one transaction. `transaction_result` is true for a commit, and false for an abort."""

    producer_id: i64 = 0
    producer_epoch: i16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: i32 = 0
    transaction_version: Annotated[i8, since(2), ignorable] = 0


class WriteTxnMarkersRequest(Message):
    """A coordinator tells a partition's leader to write markers. An administrator sends it to end a hanging transaction."""

    api = Api.WRITE_TXN_MARKERS
    versions = range(1, 3)
    flexible = 1
    is_request = True

    markers: list[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(WireStruct):
    """Whether the marker is in one partition; if not, the error."""

    partition_index: i32 = 0
    error_code: i16 = 0


class WritableTxnMarkerTopicResult(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(WireStruct):
    """The results for the partitions of one transaction."""

    producer_id: i64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Message):
    """The leader answers with one result per marker and partition."""

    api = Api.WRITE_TXN_MARKERS
    versions = range(1, 3)
    flexible = 1
    is_request = False

    markers: list[WritableTxnMarkerResult] = []
