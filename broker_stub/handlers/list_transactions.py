"""ListTransactions (66), versions 0 to 2.

The transactional ids that this broker coordinates and that the client may DESCRIBE. Filters are states, producer ids, the time that a
transaction has been running (from version 1 on), and a pattern for the whole id (from version 2 on). A transaction that has not begun
counts from 1970.
The response names unknown states, which match nothing.

Leaves out: Java's patterns. Patterns are Python's, which differ in what tests rarely use. An invalid one is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

import re

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.broker_stub.transactions.states import State, Txn
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

NAMED = {state.wire_name: state for state in State}


@handles(ListTransactionsRequest, range(3))
def list_transactions(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    if call.error:
        return ListTransactionsResponse(error_code=call.error)
    if call.transactions.is_loading(call.broker.node_id):
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
    except re.error:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    found = [
        TransactionState(transactional_id=name, producer_id=known.txn.producer_id, transaction_state=known.txn.state.wire_name)
        for shard in call.transactions.shards_of(call.broker.node_id)
        for name, known in shard.ids.items()
        if known.pending is not State.DEAD
        and _passes(known.txn, request, call.broker.now_ms())
        and pattern.fullmatch(name)
        and call.may(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name)
    ]
    unknown = [name for name in request.state_filters if name not in NAMED]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _passes(txn: Txn, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and txn.state.wire_name not in request.state_filters:
        return False
    if request.producer_id_filters and txn.producer_id not in request.producer_id_filters:
        return False
    return request.duration_filter < 0 or now_ms - txn.start_ms > request.duration_filter
