"""EndTxn and WriteTxnMarkers: the end of a transaction, sent to its coordinator, and by the coordinator to the partitions' leaders.

Version 0 of WriteTxnMarkers is not supported. Only brokers up to Kafka 3.9 accept it, and only from each other."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, i64, ignorable, since


class EndTxnRequest(Message):
    """Commits or aborts the transaction of a producer. From version 5 on (KIP-890) its epoch goes up with every end."""

    api = Api.END_TXN
    versions = range(6)
    flexible = 3
    is_request = True

    transactional_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    committed: bool = False


class EndTxnResponse(Message):
    """Whether the end is decided, and from version 5 on the identity for the next transaction."""

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
    """The end of one transaction: true is a commit."""

    producer_id: i64 = 0
    producer_epoch: i16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: i32 = 0
    transaction_version: Annotated[i8, since(2), ignorable] = 0


class WriteTxnMarkersRequest(Message):
    """Writes markers. Coordinators send it to the partitions' leaders, and administrators to end a hanging transaction."""

    api = Api.WRITE_TXN_MARKERS
    versions = range(1, 3)
    flexible = 1
    is_request = True

    markers: list[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(WireStruct):
    """Whether the marker is in one partition."""

    partition_index: i32 = 0
    error_code: i16 = 0


class WritableTxnMarkerTopicResult(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(WireStruct):
    """The partitions of one transaction."""

    producer_id: i64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Message):
    """One answer per marker and partition."""

    api = Api.WRITE_TXN_MARKERS
    versions = range(1, 3)
    flexible = 1
    is_request = False

    markers: list[WritableTxnMarkerResult] = []
