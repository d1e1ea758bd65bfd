"""Every public call that takes a `timeout`, given what can be none: it is refused, named, before anything has happened."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from fencepost import build_info
from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, BulkFuture, Producer, RecordFuture
from fencepost.producer.config.reader import read_settings
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn import (
    AsyncJob,
    AsyncPipeline,
    AsyncTransactionalPool,
    AsyncTransactionalProducer,
    GroupMetadata,
    IteratorSource,
    Job,
    Pipeline,
    TransactionalPool,
    TransactionalProducer,
)
from fencepost.txn.async_producer import AsyncTransaction
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.recovery.resume import AsyncResumed, Resumed, resume, resume_async
from fencepost.txn.shared.participant import Participant
from fencepost.txn.transaction import Transaction
from tests.producer.stub_helpers import QUICK, quick, values
from tests.txn.stub_helpers import LIMIT_S, SETTINGS, committed, stub

__all__ = ["stub"]

WORDS = r"^timeout=|^float or None object expected; got "
"""Of a compiled method's own check the second."""

BAD: list[tuple[Any, type[Exception]]] = [
    ("5", TypeError),
    *([] if build_info().compiled else [(True, TypeError)]),  # a compiled method takes it for 1.0
    (b"5", TypeError),
    ([5], TypeError),
    (float("nan"), ValueError),
    (-1, ValueError),
    (-0.001, ValueError),
    (float("-inf"), ValueError),
]
TP = ("t", 0)
GROUP = GroupMetadata("g")
CALLS: dict[type[Any], dict[str, tuple[Any, ...]]] = {
    Producer: {"partitions_for": ("t",), "flush": (), "close": ()},
    AsyncProducer: {"partitions_for": ("t",), "flush": (), "close": ()},
    RecordFuture: {"result": (), "exception": ()},
    BulkFuture: {"result": ()},
    TransactionalProducer: {
        **dict.fromkeys(("init", "transaction", "begin", "commit", "abort", "prepare", "replaced", "flush", "close"), ()),
        "send_offsets": ({TP: 1}, GROUP),
        "partitions_for": ("t",),
        "run": (lambda tx: None,),
    },
    Transaction: {"send_offsets": ({TP: 1}, GROUP), "share": ([TP],), "prepare": (), "commit": (), "abort": ()},
    Participant: {"begin": ("",), "finish": (), "abandon": (), "close": (), "flush": (), "partitions_for": ("t",)},
    Ledger: {"ensure": (), "read": ("s",), "standing": ("s",), "list": (), "look": (), "reset": ("s",)},
    Resumed: {"commit": (), "abort": (), "status": ()},
    AsyncResumed: {"commit": (), "abort": (), "status": ()},
    TransactionalPool: {"init": (), "transaction": (), "check": (), "close": ()},
    Pipeline: {"run": (), "run_until_idle": ()},
    Job: {"run": ()},
}
CALLS[AsyncJob] = CALLS[Job]
CALLS[AsyncTransactionalPool] = CALLS[TransactionalPool]
CALLS[AsyncPipeline] = CALLS[Pipeline]
CALLS[AsyncTransactionalProducer] = CALLS[TransactionalProducer]
CALLS[AsyncTransaction] = CALLS[Transaction]


def refused(call: Callable[..., Any], *arguments: Any) -> None:
    for bad, error in BAD:
        with pytest.raises(error, match=WORDS):
            call(*arguments, timeout=bad)


async def refused_on_loop(call: Callable[..., Any], *arguments: Any) -> None:
    for bad, error in BAD:
        with pytest.raises(error, match=WORDS):
            answer = call(*arguments, timeout=bad)
            if inspect.isawaitable(answer):
                await answer


def refuses(made: object) -> None:
    for name, arguments in CALLS[type(made)].items():
        refused(getattr(made, name), *arguments)


async def refuses_on_loop(made: object) -> None:
    for name, arguments in CALLS[type(made)].items():
        await refused_on_loop(getattr(made, name), *arguments)


@pytest.mark.parametrize("made", CALLS, ids=lambda made: made.__name__)
def test_the_table_has_every_call(made: type[Any]) -> None:
    """What takes a timeout is in the table above; compiled, methods do not tell what they take."""
    if not inspect.isfunction(Producer.flush):
        pytest.skip("compiled")
    takes = {
        name
        for name, call in inspect.getmembers(made, inspect.isfunction)
        if not name.startswith("_") and "timeout" in inspect.signature(call).parameters
    }
    assert takes == set(CALLS[made])


def test_a_producer(stub: BrokerStub) -> None:
    """It goes on as if it had not been called, `close` included, and a future that is settled refuses as one that is not."""
    with quick(stub, linger_ms=60_000) as producer:
        producer.partitions_for("t")
        future, bulk = producer.send("t", b"1"), producer.send_many("t", [b"2"])
        for made in (producer, future, bulk):
            refuses(made)
        assert not future.done()
        producer.flush(LIMIT_S)
        for made in (future, bulk):
            refuses(made)
        assert producer.send("t", b"3").result(LIMIT_S).offset == 2


def test_an_asyncio_producer(stub: BrokerStub) -> None:
    """An asyncio producer refuses a wrong timeout in each call, and then sends as if it had not been called."""

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK) as producer:
            await refuses_on_loop(producer)
            assert (await (await producer.send("t", b"1"))).offset == 0

    asyncio.run(story())
    assert values(stub, "t") == [b"1"]


def test_transactions(stub: BrokerStub) -> None:
    """The transaction that is open stays open, with all that is in it, and what was shared stays shared."""
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, **SETTINGS) as producer:
        tx = producer.begin(LIMIT_S)
        tx.send("t2", b"1")
        refuses(producer)
        refuses(tx)
        with Participant(bootstrap_servers=stub.bootstrap, **QUICK) as participant:
            participant.begin(tx.share([TP]), LIMIT_S)
            refuses(participant)
            participant.send("t", b"2", partition=0)
            tx.returned(participant.finish(LIMIT_S))
        tx.commit(LIMIT_S)
    assert (committed(stub, "t2"), committed(stub, "t")) == ([b"1"], [b"2"])


def test_asyncio_transactions(stub: BrokerStub) -> None:
    """A wrong timeout leaves the open transaction of an asyncio producer open, with all that is in it."""

    async def story() -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, **SETTINGS) as producer:
            tx = await producer.begin(LIMIT_S)
            await tx.send("t", b"1")
            await refuses_on_loop(producer)
            await refuses_on_loop(tx)
            await tx.commit(LIMIT_S)

    asyncio.run(story())
    assert committed(stub, "t") == [b"1"]


def test_what_is_prepared(stub: BrokerStub) -> None:
    """A prepared transaction is neither ended nor asked about."""
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, on_open_transaction="abort", **SETTINGS) as producer:
        tx = producer.begin(LIMIT_S)
        tx.send("t", b"1")
        token = tx.prepare(LIMIT_S)
    refuses(resume(token, stub.bootstrap))
    asyncio.run(refuses_on_loop(resume_async(token, stub.bootstrap)))
    resume(token, stub.bootstrap).commit(LIMIT_S)
    assert committed(stub, "t") == [b"1"]


def test_pipelines(stub: BrokerStub) -> None:
    """A pipeline refuses a wrong timeout before it makes a connection."""
    settings: Any = {"bootstrap_servers": stub.bootstrap, "source": "t", "group": "g", "transform": lambda message: None}
    refuses(Pipeline(**settings))
    asyncio.run(refuses_on_loop(AsyncPipeline(**settings)))
    assert stub.journal.requests() == []


def test_jobs(stub: BrokerStub) -> None:
    """A job refuses a wrong timeout before it makes a connection."""
    source = IteratorSource(lambda position: iter(()))
    refuses(Job("j", source, bootstrap_servers=stub.bootstrap, topic="t"))
    asyncio.run(refuses_on_loop(AsyncJob("j", source, bootstrap_servers=stub.bootstrap, topic="t")))
    assert stub.journal.requests() == []


def test_pools(stub: BrokerStub) -> None:
    """A pool refuses a wrong timeout before it makes a connection, `close` included."""
    settings: Any = {"bootstrap_servers": stub.bootstrap, "transactional_id_prefix": "p"}
    refuses(TransactionalPool(**settings))
    asyncio.run(refuses_on_loop(AsyncTransactionalPool(**settings)))
    assert stub.journal.requests() == []


def test_a_ledger(stub: BrokerStub) -> None:
    """No topic is made."""
    refuses(Ledger(read_settings({"bootstrap_servers": stub.bootstrap}), "ledger"))
    with pytest.raises(KeyError):
        stub.end_offset("ledger", 0)


@pytest.mark.parametrize(("given", "told"), [(None, 7.0), (0, 0.0), (2.5, 2.5), (float("inf"), float("inf"))])
def test_what_is_a_timeout(given: float | None, told: float) -> None:
    """None is the call's own limit; 0 does not wait, infinity waits as long as it takes."""
    assert seconds(given, 7.0) == told
