"""For tests of the ledger: a stub, and a takeover, which waits until a transaction has its markers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.txn.producer import TransactionalProducer

WAIT_S = 30.0


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    """A stub with two brokers."""
    with BrokerStub(brokers=2) as stub:
        yield stub


def producer_of(stub: BrokerStub, name: str) -> TransactionalProducer:
    return TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=name, linger_ms=0)


def take_over(stub: BrokerStub, name: str) -> None:
    """Wait for the markers of the last transaction: commit and abort return before the coordinator has written them."""
    with producer_of(stub, name) as producer:
        producer.init(WAIT_S)
