"""Common mistakes of new users: the error names what is wrong, and what to do instead."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import pydoc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, BulkFuture, Misuse, Producer, ProducerClosed, RecordFuture, RecordTooLarge, TopicUnavailable
from fencepost.producer.errors import ConfigError
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.shared.participant import Participant
from tests.producer.stub_helpers import QUICK, quick

TRANSACTIONAL: dict[str, Any] = {"transactional_id": "first-day"}


@pytest.mark.parametrize(
    "kind",
    [
        Producer,
        AsyncProducer,
        partial(TransactionalProducer, **TRANSACTIONAL),
        partial(AsyncTransactionalProducer, **TRANSACTIONAL),
        Participant,
    ],
)
def test_a_producer_cannot_be_pickled_and_says_so(kind: Callable[..., Any]) -> None:
    """A Spark task or a worker of multiprocessing cannot take a producer along. The error says to make one there."""
    producer = kind(bootstrap_servers="127.0.0.1:9")
    with pytest.raises(TypeError, match=r"(Producer|Participant) cannot be pickled") as caught:
        pickle.dumps(producer)
    assert "make one where it is used" in str(caught.value)
    if isinstance(producer, Producer | TransactionalProducer):
        producer.close()


@pytest.mark.parametrize("settings", [{"buffer_memory": 100_000}, {"buffer_memory": 100_000, "max_request_size": 100_000}])
def test_the_setting_that_limits_a_record_is_named(settings: dict[str, Any]) -> None:
    """A small buffer_memory lowers max_request_size: the error names the one that was set, not the one that was not."""
    with BrokerStub() as stub, quick(stub, **settings) as producer, pytest.raises(RecordTooLarge, match="exceeds buffer_memory=100000;"):
        producer.send("t", bytes(200_000))


def test_a_closed_producer_is_asked_for_partitions() -> None:
    """It is closed, and no record has anything to do with it; also where the topic was known."""
    with BrokerStub() as stub:
        producer = quick(stub)
        producer.partitions_for("t")
        producer.close()
        for topic in ("t", "other"):
            with pytest.raises(ProducerClosed, match="the producer is closed: it asks brokers nothing"):
                producer.partitions_for(topic)

        async def story() -> None:
            closed = AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK)
            await closed.partitions_for("t")
            await closed.close()
            for topic in ("t", "other"):
                with pytest.raises(ProducerClosed, match="the producer is closed: it asks brokers nothing"):
                    await closed.partitions_for(topic)

        asyncio.run(story())


def test_an_asyncio_producer_off_its_loop() -> None:
    """A thread without a loop is told that it is one."""
    with pytest.raises(Misuse, match="no loop runs on this thread; elsewhere use Producer"):
        AsyncProducer(bootstrap_servers="127.0.0.1:9").try_send("t", b"x")


@pytest.mark.parametrize("case", ["setting", "existing topic", "participant"])
def test_a_topic_that_brokers_are_not_asked_to_create(case: str) -> None:
    """Brokers that create topics do so for others: it is not their config that is in the way, and the error says what is."""
    words = "the producer does not ask brokers to create it"
    with BrokerStub() as stub:
        stub.create_topic("there")  # which is asked for first, so that no time goes into connections
        if case == "setting":
            with quick(stub, allow_auto_create_topics=False, max_block_ms=500) as plain:
                plain.partitions_for("there", timeout=20)
                with pytest.raises(TopicUnavailable, match=words):
                    plain.send("absent", b"x")
            return
        settings = {**QUICK, "bootstrap_servers": stub.bootstrap, "max_block_ms": 500, "transactional_id": "a"}
        if case == "existing topic":
            settings["existing_topics"] = ["absent"]
        with TransactionalProducer(settings) as producer:
            tx = producer.begin(20)
            producer.partitions_for("there", timeout=20)
            if case == "existing topic":
                with pytest.raises(TopicUnavailable, match=words):
                    tx.send("absent", b"x")
                return
            participation = tx.share([("absent", 0)])
            with Participant(bootstrap_servers=stub.bootstrap, **{**QUICK, "max_block_ms": 500}) as participant:
                participant.begin(participation)
                participant.partitions_for("there", timeout=20)
                with pytest.raises(TopicUnavailable, match=words):
                    participant.send("absent", b"x", partition=0)


def test_a_transactional_id_that_no_request_carries() -> None:
    """Refused as a setting: it ended the sender with an error of its own. The longest one that there can be works."""
    with pytest.raises(ConfigError, match=r"transactional_id='ä+.*: Kafka's protocol takes at most 32767 bytes"):
        TransactionalProducer(bootstrap_servers="127.0.0.1:9", transactional_id="ä" * 16_384)
    longest = "a" * 32_767
    with (
        BrokerStub() as stub,
        TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=longest, **QUICK) as producer,
        producer.transaction(timeout=20) as tx,
    ):
        tx.send("t", b"x")


@pytest.mark.parametrize("kind", ["record", "bulk", "transaction", "async transaction"])
@pytest.mark.parametrize("take_along", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_belongs_to_a_producer_stays_with_it(kind: str, take_along: Callable[[object], object]) -> None:
    """Futures and transactions cannot be pickled or copied. The error says so, and what to do."""
    with BrokerStub() as stub, quick(stub) as producer:
        settings: dict[str, Any] = {"bootstrap_servers": stub.bootstrap, **TRANSACTIONAL}
        with TransactionalProducer(**settings) as transactional:
            made: dict[str, Callable[[], object]] = {
                "record": lambda: producer.send("t", b"v"),
                "bulk": lambda: producer.send_many("t", [b"v"]),
                "transaction": transactional.transaction,
                "async transaction": AsyncTransactionalProducer(**settings).transaction,
            }
            with pytest.raises(TypeError, match="cannot be pickled or copied: it belongs to a producer of"):
                take_along(made[kind]())


class Number:
    """A number that is neither int nor float, as numpy.int64 is one."""

    def __float__(self) -> float:
        return 20.0


class Unusable:
    """Something like an array: it has a float only if it has one element."""

    def __float__(self) -> float:
        raise TypeError("only length-1 arrays can be converted")


TIMEOUTS: dict[str, Callable[[Producer, Any], object]] = {
    "flush": lambda producer, timeout: producer.flush(timeout),
    "close": lambda producer, timeout: producer.close(timeout),
    "partitions_for": lambda producer, timeout: producer.partitions_for("t", timeout),
    "result": lambda producer, timeout: producer.send("t", b"v").result(timeout),
    "exception": lambda producer, timeout: producer.send("t", b"v").exception(timeout),
    "bulk": lambda producer, timeout: producer.send_many("t", [b"v"]).result(timeout),
}


@pytest.mark.parametrize("call", TIMEOUTS)
def test_timeouts(call: str) -> None:
    """Numbers of any class are seconds. The error for another value names the argument and the value."""
    wrong: list[tuple[Any, type[Exception], str]] = [
        ("x", TypeError, "timeout='x': it must be a number of seconds or None, not str"),
        (True, TypeError, "timeout=True: it must be a number of seconds or None, not bool"),
        ([1], TypeError, r"timeout=\[1\]: it must be a number of seconds or None, not list"),
        (Unusable(), TypeError, r"timeout=.*Unusable.*: it must be a number of seconds or None: only length-1 arrays"),
        (-1, ValueError, "timeout=-1: it must be at least 0 seconds"),
        (float("nan"), ValueError, "timeout=nan: it must be at least 0 seconds"),
        (10**400, ValueError, "timeout=1000.*: it is too large"),
        (10**5000, ValueError, "timeout=<int>: it is too large"),
    ]
    with BrokerStub() as stub, quick(stub) as producer:
        for timeout, error, words in wrong:
            with pytest.raises(error, match=words):
                TIMEOUTS[call](producer, timeout)
        for right in (Number(), Decimal(20), Fraction(20), 20, 20.0, None):
            TIMEOUTS[call](producer, right)


def test_the_timeout_of_a_transaction() -> None:
    """The same in the calls of transactions."""
    with TransactionalProducer(bootstrap_servers="127.0.0.1:9", **TRANSACTIONAL) as producer:
        for timeout in ("x", True):
            with pytest.raises(TypeError, match=f"timeout={timeout!r}: it must be a number of seconds or None"):
                producer.transaction(timeout)  # type: ignore[arg-type]  # the mistake under test
            with pytest.raises(TypeError, match=f"timeout={timeout!r}: it must be a number of seconds or None"):
                producer.begin(timeout)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize("method", ["send", "try_send"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": 5}, "topic must be a str, not int"),
        ({"topic": None}, "topic must be a str, not NoneType"),
        ({"partition": 0.0}, "partition must be an int or None, not float"),
        ({"partition": "0"}, "partition must be an int or None, not str"),
        ({"partition": True}, "partition must be an int or None, not bool"),
        ({"timestamp": 5.0}, "timestamp must be an int or None, not float"),
        ({"partition": numpy.int64(0)}, "partition must be an int or None, not int64$"),
        ({"timestamp": numpy.int32(5)}, "timestamp must be an int or None, not int32$"),
        ({"timestamp": Decimal(5)}, "timestamp must be an int or None, not Decimal"),
        ({"headers": "a"}, "headers must be a list of"),
        ({"headers": {"h": b"1"}}, r"pairs, not dict: pass list\(headers.items\(\)\)"),
        ({"headers": [("h", "1")]}, "pairs, not .'h', '1'.: encode the value first"),
        ({"headers": [(b"h", b"1")]}, "pairs, not .b'h', b'1'.: decode the name first"),
        ({"headers": [("h", 1)]}, "pairs, not .'h', 1.$"),
        ({"headers": ["h"]}, "pairs, not 'h'$"),
        ({"on_delivery": 5}, "on_delivery must be callable, not int"),
    ],
)
def test_arguments_of_another_type(method: str, given: dict[str, Any], words: str) -> None:
    """Compiled or not, the error names the argument, what it must be and what it is."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.partitions_for("t")
        with pytest.raises(TypeError, match=words):
            getattr(producer, method)(**{"topic": "t", "value": b"v", **given})


def test_the_signature_of_a_producer() -> None:
    """Compiled or not, `inspect.signature` and `help` show the settings' type. A subclass has its own."""

    class Own(Producer):
        def __init__(self, host: str) -> None:
            super().__init__(bootstrap_servers=host)

    assert inspect.signature(Producer) == inspect.signature(AsyncProducer)
    for each in (inspect.signature(Producer), inspect.signature(Producer.__init__), pydoc.render_doc(Producer.__init__)):
        assert "ProducerKeywords" in str(each)
    assert list(inspect.signature(Own).parameters) == ["host"]


@pytest.mark.parametrize("kind", [RecordFuture, BulkFuture])
def test_help_for_futures(kind: type) -> None:
    """`help` shows what programs call, and nothing else that can be called."""
    public = {name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    assert public == {"done", "result", "concurrent", "add_done_callback"} | ({"exception"} if kind is RecordFuture else set())
