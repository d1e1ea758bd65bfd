"""For tests of a transactional producer and a stub: the EndTxn requests that the stub received, and the committed records."""

from __future__ import annotations

from typing import Any

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api
from fencepost.producer.wire.messages.end_txn import EndTxnRequest
from tests.producer.stub_helpers import QUICK
from tests.reading import read_values

LIMIT_S = 60.0
SETTINGS: dict[str, Any] = {**QUICK, "transactional_id": "a"}


def ends(stub: BrokerStub) -> list[bool]:
    """Every EndTxn that the coordinator got, in order, repeats included: whether it was to commit."""
    requests = [exchange.request for exchange in stub.journal.requests(Api.END_TXN)]
    return [request.committed for request in requests if isinstance(request, EndTxnRequest)]


def committed(stub: BrokerStub, topic: str, partition: int = 0) -> list[bytes]:
    """What a reader with read_committed finds in a partition now; one that is held up finds nothing more."""
    return read_values(stub.bootstrap, topic, [partition])
