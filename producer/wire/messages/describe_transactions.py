"""DescribeTransactions: a coordinator's state of a transaction. DescribeProducers shows a partition's state of it."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64


class DescribeTransactionsRequest(Message):
    """A client asks the coordinator of each transactional id for its transaction."""

    api = Api.DESCRIBE_TRANSACTIONS
    versions = range(1)
    flexible = 0
    is_request = True

    transactional_ids: list[str] = []


class TopicData(WireStruct):
    """The partitions of one topic that are part of a transaction."""

    topic: str = ""
    partitions: list[i32] = []


class TransactionState(WireStruct):
    """One transaction. While it ends, it has only the partitions whose marker is not written yet. Times are in milliseconds since 1970."""

    error_code: i16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: i32 = 0
    transaction_start_time_ms: i64 = 0
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    topics: list[TopicData] = []


class DescribeTransactionsResponse(Message):
    """The coordinator answers with one result per transactional id."""

    api = Api.DESCRIBE_TRANSACTIONS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    transaction_states: list[TransactionState] = []
