"""Settings that do not fit what is found at an address, for a transactional producer: `begin` says so within seconds, as `send` does."""

from __future__ import annotations

import asyncio
import time

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import NoUsableBroker
from fencepost.producer.wire import Api
from fencepost.txn import AsyncTransactionalProducer, TransactionalProducer, TransactionTimeout
from tests.credentials import USERS, ours
from tests.later import Jump, jump, limit_passes
from tests.producer.network.test_security_errors import SECONDS, STORIES, WRONG
from tests.producer.pki import Pki, pki
from tests.producer.stub_helpers import QUICK, until

__all__ = ["jump", "pki"]


@pytest.mark.parametrize("name", STORIES)
def test_what_does_not_fit_is_said_within_seconds(pki: Pki, name: str) -> None:
    """`begin` raises long before max_block_ms, with the address, the cause and the setting and without the password; the next one, too."""
    story, kind, words = STORIES[name]
    server, settings = story(pki)
    with server as found:
        address = found.bootstrap if isinstance(found, BrokerStub) else found
        with TransactionalProducer(bootstrap_servers=address, transactional_id="a", **settings) as producer:
            for _ in range(2):
                began = time.monotonic()
                with pytest.raises(NoUsableBroker) as refused:
                    producer.begin()
                assert time.monotonic() - began < SECONDS
                said = str(refused.value)
                assert type(refused.value) is kind, said
                assert said.startswith(f"{address}: ")
                assert [word for word in words if word not in said] == [], said
                assert WRONG not in said


def test_an_asyncio_producer_says_the_same(pki: Pki) -> None:
    """`await begin` raises as soon."""
    story, kind, words = STORIES["a certificate of an unknown CA"]
    server, settings = story(pki)

    async def begin(address: str) -> str:
        async with AsyncTransactionalProducer(bootstrap_servers=address, transactional_id="a", **settings) as producer:
            with pytest.raises(kind) as refused:
                async with asyncio.timeout(SECONDS):
                    await producer.begin()
            return str(refused.value)

    with server as found:
        said = asyncio.run(begin(found.bootstrap))
    assert [word for word in words if word not in said] == [], said


def test_a_refusal_is_not_the_end_of_the_producer() -> None:
    """Once the broker takes the password, the same producer begins and commits."""
    with BrokerStub(sasl=dict(USERS)) as stub:
        users = stub.acceptor.sasl.users  # type: ignore[union-attr]
        right, users["alice"] = users["alice"], "another"
        settings = {"security_protocol": "SASL_PLAINTEXT", **ours("PLAIN"), **QUICK}
        with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", **settings) as producer:
            with pytest.raises(NoUsableBroker, match="refused user 'alice'"):
                producer.begin()
            users["alice"] = right
            with producer.transaction() as tx:
                tx.send("t", b"x")
            producer.begin().abort()


def test_an_open_transaction_stays_open(caplog: pytest.LogCaptureFixture) -> None:
    """Credentials that are withdrawn while it is open end nothing: a commit waits for its time and says what it met, and goes on once they
    hold again."""
    with BrokerStub(sasl=dict(USERS)) as stub:
        users = stub.acceptor.sasl.users  # type: ignore[union-attr]
        settings = {"security_protocol": "SASL_PLAINTEXT", **ours("PLAIN"), **QUICK}
        with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", **settings) as producer:
            tx = producer.begin()
            producer.send("t", b"x").result(20)
            right, users["alice"] = users["alice"], "another"
            stub.cut_connections()
            # Before that the commit may be on its way, and in doubt.
            until(lambda: "refused user 'alice'" in caplog.text, "the refusal")
            with pytest.raises(TransactionTimeout, match="refused user 'alice'"):
                tx.commit(timeout=3.0)
            users["alice"] = right
            tx.commit()
        assert len(stub.journal.requests(Api.END_TXN)) >= 1


def test_a_timeout_names_the_failed_connections(jump: Jump) -> None:
    """The error says what became of the connections."""
    with TransactionalProducer(bootstrap_servers="127.0.0.1:1", transactional_id="a") as producer:
        tried = producer._inner._sender.engine.trouble
        late = limit_passes(jump, 60_000, producer._inner, lambda: producer.begin(30.0), lambda: "Connection refused" in tried())
    assert isinstance(late, TransactionTimeout)
    assert "no coordinator has been asked yet; 127.0.0.1:1: Connection refused" in str(late)
