"""ListTransactions: the transactions of a coordinator, filtered by state, producer id, age and transactional id."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, since


class ListTransactionsRequest(Message):
    """A client asks a broker for the transactions that it coordinates. An empty filter lets all transactions pass."""

    api = Api.LIST_TRANSACTIONS
    versions = range(3)
    flexible = 0
    is_request = True

    state_filters: list[str] = []
    producer_id_filters: list[i64] = []
    duration_filter: Annotated[i64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2)] = None


class TransactionState(WireStruct):
    """One transaction."""

    transactional_id: str = ""
    producer_id: i64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message):
    """The broker answers with the transactions that passed, and with the state filters that it does not know."""

    api = Api.LIST_TRANSACTIONS
    versions = range(3)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []
