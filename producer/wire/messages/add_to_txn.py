"""AddPartitionsToTxn and AddOffsetsToTxn: a transaction's partitions, sent before they are written to."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, ignorable, since, until


class AddPartitionsToTxnTopic(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[i32] = []


class AddPartitionsToTxnTransaction(WireStruct):
    """One of a broker's transactions, whose partitions are to be added or only to be verified."""

    transactional_id: Annotated[str, since(4)] = ""
    producer_id: Annotated[i64, since(4)] = 0
    producer_epoch: Annotated[i16, since(4)] = 0
    verify_only: Annotated[bool, since(4)] = False
    topics: Annotated[list[AddPartitionsToTxnTopic], since(4)] = []


class AddPartitionsToTxnRequest(Message):
    """Adds partitions to a transaction. Clients use it up to version 3. From version 4 on brokers send it to each other, for several
    transactions."""

    api = Api.ADD_PARTITIONS_TO_TXN
    versions = range(6)
    flexible = 3
    is_request = True

    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = []
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[i64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[i16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = []


class AddPartitionsToTxnPartitionResult(WireStruct):
    """Whether one partition is part of the transaction now."""

    partition_index: i32 = 0
    partition_error_code: i16 = 0


class AddPartitionsToTxnTopicResult(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResult(WireStruct):
    """The partitions of one transaction."""

    transactional_id: Annotated[str, since(4)] = ""
    topic_results: Annotated[list[AddPartitionsToTxnTopicResult], since(4)] = []


class AddPartitionsToTxnResponse(Message):
    """One answer per partition, from version 4 on by transaction."""

    api = Api.ADD_PARTITIONS_TO_TXN
    versions = range(6)
    flexible = 3
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, since(4), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = []


class AddOffsetsToTxnRequest(Message):
    """Adds the partition with a group's offsets. With transaction version 2 it is not used: TxnOffsetCommit adds the partition."""

    api = Api.ADD_OFFSETS_TO_TXN
    versions = range(5)
    flexible = 3
    is_request = True

    transactional_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message):
    """Whether it was added."""

    api = Api.ADD_OFFSETS_TO_TXN
    versions = range(5)
    flexible = 3
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
