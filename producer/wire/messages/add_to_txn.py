"""AddPartitionsToTxn and AddOffsetsToTxn: a producer names a transaction's partitions to the coordinator before it writes to them."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, ignorable, since, until


class AddPartitionsToTxnTopic(WireStruct):
    """The partitions of one topic in the request."""

    name: str = ""
    partitions: list[i32] = []


class AddPartitionsToTxnTransaction(WireStruct):
    """One transaction in a broker's request. With `verify_only` the coordinator only checks that its partitions were added."""

    transactional_id: Annotated[str, since(4)] = ""
    producer_id: Annotated[i64, since(4)] = 0
    producer_epoch: Annotated[i16, since(4)] = 0
    verify_only: Annotated[bool, since(4)] = False
    topics: Annotated[list[AddPartitionsToTxnTopic], since(4)] = []


class AddPartitionsToTxnRequest(Message):
    """A producer (up to version 3) tells the transaction coordinator to add partitions to its transaction.

    From version 4 on brokers send it to the coordinator, for several transactions at once.
    """

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
    """Whether one partition is part of the transaction; if not, the error."""

    partition_index: i32 = 0
    partition_error_code: i16 = 0


class AddPartitionsToTxnTopicResult(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResult(WireStruct):
    """The results for the partitions of one transaction."""

    transactional_id: Annotated[str, since(4)] = ""
    topic_results: Annotated[list[AddPartitionsToTxnTopicResult], since(4)] = []


class AddPartitionsToTxnResponse(Message):
    """The coordinator answers with one result per partition, from version 4 on grouped by transaction."""

    api = Api.ADD_PARTITIONS_TO_TXN
    versions = range(6)
    flexible = 3
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, since(4), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = []


class AddOffsetsToTxnRequest(Message):
    """A producer tells the transaction coordinator to add the `__consumer_offsets` partition of a group to its transaction.

    Under transaction version 2 producers do not send it, because TxnOffsetCommit adds the partition.
    """

    api = Api.ADD_OFFSETS_TO_TXN
    versions = range(5)
    flexible = 3
    is_request = True

    transactional_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message):
    """The coordinator answers whether it added the partition."""

    api = Api.ADD_OFFSETS_TO_TXN
    versions = range(5)
    flexible = 3
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
