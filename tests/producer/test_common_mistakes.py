"""Common mistakes of new users: the error names what is wrong, and what to do instead."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, Misuse, Producer, ProducerClosed, RecordTooLarge, TopicUnavailable
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
        if case == "setting":
            with quick(stub, allow_auto_create_topics=False, max_block_ms=500) as plain, pytest.raises(TopicUnavailable, match=words):
                plain.send("absent", b"x")
            return
        settings = {**QUICK, "bootstrap_servers": stub.bootstrap, "max_block_ms": 500, "transactional_id": "a"}
        if case == "existing topic":
            settings["existing_topics"] = ["absent"]
        with TransactionalProducer(settings) as producer:
            tx = producer.begin(20)
            if case == "existing topic":
                with pytest.raises(TopicUnavailable, match=words):
                    tx.send("absent", b"x")
                return
            participation = tx.share([("absent", 0)])
            with Participant(bootstrap_servers=stub.bootstrap, **{**QUICK, "max_block_ms": 500}) as participant:
                participant.begin(participation)
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
