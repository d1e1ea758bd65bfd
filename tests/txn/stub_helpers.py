"""For tests of a transactional producer and a stub: the EndTxn requests that the stub received, and the committed records."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.faults.rules import Fault
from fencepost.producer.wire import Api
from fencepost.producer.wire.messages.end_txn import EndTxnRequest
from tests.producer.stub_helpers import LIMIT_S as LIMIT_S
from tests.producer.stub_helpers import QUICK
from tests.reading import read_values

SETTINGS: dict[str, Any] = {**QUICK, "transactional_id": "a"}


def ends(stub: BrokerStub) -> list[bool]:
    """Every EndTxn that the coordinator received, in order, with repeats: True for a commit."""
    requests = [exchange.request for exchange in stub.journal.requests(Api.END_TXN)]
    return [request.committed for request in requests if isinstance(request, EndTxnRequest)]


def committed(stub: BrokerStub, topic: str, partition: int = 0) -> list[bytes]:
    """What a `read_committed` consumer reads from a partition now. A consumer that is blocked gets no further records."""
    return read_values(stub.bootstrap, topic, [partition])


def removed_after(fault: Fault, hits: int) -> threading.Thread:
    """A thread that removes the fault when it has been hit so often."""

    def remove() -> None:
        fault.wait(hits, LIMIT_S)
        fault.remove()

    removing = threading.Thread(target=remove, daemon=True)
    removing.start()
    return removing


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    """A stub with the topic "t", which has one partition."""
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=1)
        yield stub
