"""AddPartitionsToTxn (24), versions 0 to 5.

Adds the partitions to the producer's transaction, which begins with the first of them. If one does not exist, or the client may not
write to it, the others are OPERATION_NOT_ATTEMPTED. A producer that is no longer the id's is PRODUCER_FENCED, before version 2
INVALID_PRODUCER_EPOCH. From version 4 on brokers send it, for several transactions. They may also only verify that partitions are part of
the transaction: TRANSACTION_ABORTABLE if they are not. Brokers need CLUSTER_ACTION, clients WRITE on the transactional id and on the
topics. Where a request names one id twice, the partitions of the last one count and the results name those of the first, as in Kafka.

Leaves out: nothing that is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.cluster.topics import INTERNAL
from fencepost.broker_stub.handlers.txn_lookups import told
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.broker_stub.transactions.states import TopicPartition
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.add_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BATCHED_SINCE = 4
FENCED_SINCE = 2

Codes = dict[TopicPartition, int]


@handles(AddPartitionsToTxnRequest, range(6))
def add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | Instead:
    return _Adding(call, request).result()


class _Adding:
    """One request, answered when all of its transactions are."""

    def __init__(self, call: Call, request: AddPartitionsToTxnRequest) -> None:
        self._call = call
        self._deferred: DeferredReply[AddPartitionsToTxnResponse] = DeferredReply(call)
        self._batched = call.version >= BATCHED_SINCE
        self._transactions = request.transactions if self._batched else [_only(request)]
        self._first = {each.transactional_id: each.topics for each in reversed(self._transactions)}
        self._last = {each.transactional_id: each.topics for each in self._transactions}
        self._results: list[AddPartitionsToTxnResult] = []
        code = call.error or (call.refusal(Operation.CLUSTER_ACTION, Resource.CLUSTER) if self._batched else ErrorCode.NONE)
        if code and self._batched:
            self._deferred(AddPartitionsToTxnResponse(error_code=code))
        elif not self._transactions:
            self._deferred(AddPartitionsToTxnResponse())
        for each in self._transactions if not (code and self._batched) else ():
            self._add(each, code)

    def result(self) -> AddPartitionsToTxnResponse | Instead:
        return self._deferred.result()

    def _add(self, asked: AddPartitionsToTxnTransaction, code: int) -> None:
        call, name = self._call, asked.transactional_id
        topics = self._last[name]
        partitions = [(topic.name, index) for topic in topics for index in topic.partitions]
        if not code and not self._batched:
            code = call.refusal(Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
        codes = dict.fromkeys(partitions, code) if code else self._refused(partitions)
        if codes:
            self._answered(name, _once(codes) if self._batched else _results(topics, codes))
            return
        identity, wanted = Identity(asked.producer_id, asked.producer_epoch), frozenset(partitions)
        transactions, node_id = call.transactions, call.broker.node_id
        if asked.verify_only:
            self._answered(name, _results(topics, transactions.verify(name, node_id, identity, wanted)))
            return
        version = 2 if self._batched else 0
        transactions.add(name, node_id, identity, wanted, version=version, then=partial(self._added, name))

    def _refused(self, partitions: Sequence[TopicPartition]) -> Codes:
        """The errors of partitions that cannot be added; empty if all can."""
        codes = {each: self._refusal(*each) for each in partitions}
        if not any(codes.values()):
            return {}
        return {each: code or ErrorCode.OPERATION_NOT_ATTEMPTED for each, code in codes.items()}

    def _refusal(self, topic: str, partition: int) -> int:
        call = self._call
        code = call.fault_for(topic, partition)
        if not code and not self._batched:
            refused = topic in INTERNAL or not call.may(Operation.WRITE, Resource.TOPIC, topic)
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if refused else ErrorCode.NONE
        if not code and call.cluster.find(topic, partition) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code

    def _added(self, name: str, code: int) -> None:
        topics, code = self._first[name], told(code, self._call.version, fenced_since=FENCED_SINCE)
        self._answered(name, _results(topics, {(topic.name, index): code for topic in topics for index in topic.partitions}))

    def _answered(self, name: str, results: list[AddPartitionsToTxnTopicResult]) -> None:
        self._results.append(AddPartitionsToTxnResult(transactional_id=name, topic_results=results))
        if len(self._results) < len(self._transactions):
            return
        if self._batched:
            self._deferred(AddPartitionsToTxnResponse(results_by_transaction=self._results))
        else:
            self._deferred(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def _only(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _once(codes: Mapping[TopicPartition, int]) -> list[AddPartitionsToTxnTopicResult]:
    """Each topic and each partition once."""
    results: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (name, index), code in codes.items():
        results.setdefault(name, []).append(AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code))
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=partitions) for name, partitions in results.items()]


def _results(topics: Sequence[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, int]) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
