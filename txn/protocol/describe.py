"""Asks a transactional id's coordinator for its state (DescribeTransactions, Kafka 3.0)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from fencepost.txn.protocol.cluster_client import ClusterClient, the_one
from fencepost.txn.protocol.requests import STATE_VERSIONS, state_request


async def describe_transaction(client: ClusterClient, transactional_id: str) -> TransactionState | None:
    """The state; None if no coordinator knows the id. Raises Unanswered and NotPermitted."""
    answer: DescribeTransactionsResponse = await client.ask_coordinator(transactional_id, state_request(transactional_id), STATE_VERSIONS)
    subject = f"transactional id {transactional_id!r}"
    said = the_one(answer.transaction_states, subject)
    if said.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    client.refuse(Api.DESCRIBE_TRANSACTIONS, said.error_code, subject, key=transactional_id)
    return said
