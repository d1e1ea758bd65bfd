"""DescribeTransactions (65), version 0.

State, timeout, start and identity of transactional ids that this broker coordinates, and the partitions of the open transaction. While it
ends, these are the partitions without a marker yet. An unused id is TRANSACTIONAL_ID_NOT_FOUND. Needs DESCRIBE on the id. Topics that the
client may not DESCRIBE are left out.

Leaves out: nothing that is known.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.broker_stub.transactions.states import State, by_topic
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@handles(DescribeTransactionsRequest, range(1))
def describe_transactions(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=[_described(call, name) for name in request.transactional_ids])


def _described(call: Call, name: str) -> TransactionState:
    code = call.error or call.refusal(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name)
    if not code and not name:
        code = ErrorCode.INVALID_REQUEST
    if code:
        return TransactionState(transactional_id=name, error_code=code)
    shard = call.transactions.shard_for(name, call.broker.node_id)
    if shard is None:
        return TransactionState(transactional_id=name, error_code=call.transactions.refusal(name, call.broker.node_id))
    known = shard.ids.get(name)
    if known is None or known.pending is State.DEAD:
        return TransactionState(transactional_id=name, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    txn = known.txn
    left = shard.without_marker(name)
    return TransactionState(
        transactional_id=name,
        transaction_state=txn.state.wire_name,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=txn.start_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        topics=[
            TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(txn.partitions if left is None else left).items()
            if call.may(Operation.DESCRIBE, Resource.TOPIC, topic)
        ],
    )
