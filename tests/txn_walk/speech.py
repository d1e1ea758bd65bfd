"""The requests of clients in their versions, and how clients read the responses. It sends nothing."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencepost.producer import wire
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import add_to_txn, end_txn, txn_offsets
from tests.txn_walk.site import TOPIC

Identity = tuple[int, int]
"""A producer id and its epoch."""

LOST: Final = None
"""The value in place of a response that was lost."""

OK: Final = ErrorCode.NONE
AGAIN: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
"""After these codes the client sends the request again, unchanged."""

UNCERTAIN: Final = AGAIN - {ErrorCode.CONCURRENT_TRANSACTIONS}
"""After these codes the request may have been carried out."""

REFUSED: Final = frozenset(
    (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
)
"""With these codes a broker refuses a client that may not do this, or no longer."""

ADD_VERSION: Final = 3


class Speech(NamedTuple):
    """The versions of InitProducerId, Produce, EndTxn and TxnOffsetCommit. `bumps`: whether they are those of transaction version 2."""

    init: int
    produce: int
    end: int
    offsets: int
    bumps: bool


def init(name: str, expected: Identity | None, timeout_ms: int) -> wire.Message:
    pid, epoch = expected or (-1, -1)
    return wire.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=pid, producer_epoch=epoch)


def add_partition(name: str, identity: Identity, index: int) -> wire.Message:
    return add_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[add_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[index])],
    )


def add_group(name: str, identity: Identity) -> wire.Message:
    return add_to_txn.AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=identity[0], producer_epoch=identity[1], group_id=group_of(name)
    )


def produce(name: str, index: int, records: bytes) -> wire.Message:
    data = wire.PartitionProduceData(index=index, records=records)
    topics = [wire.TopicProduceData(name=TOPIC, partition_data=[data])]
    return wire.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1_000, topic_data=topics)


def commit_offset(name: str, identity: Identity, offset: int) -> wire.Message:
    committed = txn_offsets.TxnOffsetCommitRequestPartition(committed_offset=offset)
    return txn_offsets.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group_of(name),
        producer_id=identity[0],
        producer_epoch=identity[1],
        topics=[txn_offsets.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[committed])],
    )


def end(name: str, identity: Identity, *, commit: bool) -> wire.Message:
    return end_txn.EndTxnRequest(transactional_id=name, producer_id=identity[0], producer_epoch=identity[1], committed=commit)


def group_of(name: str) -> str:
    """Each transactional id commits for its own group, so that the commits of a group come one after the other."""
    return f"group of {name}"


def written(answer: Any) -> Any:
    """The only partition of a Produce."""
    return answer.responses[0].partition_responses[0]


def code_of(answer: Any) -> int:
    """The error code of a response of any type. A lost response counts as a timeout."""
    if answer is LOST:
        return ErrorCode.REQUEST_TIMED_OUT
    if hasattr(answer, "responses"):
        return int(written(answer).error_code)
    if hasattr(answer, "topics"):
        return int(answer.topics[0].partitions[0].error_code)
    if hasattr(answer, "results_by_topic_v3_and_below"):
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    return int(answer.error_code)
