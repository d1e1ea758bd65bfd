"""What a broker will not do for this producer, said with its cause and the setting or permission that it is about: permissions that are
missing and topics that are not there, for both producers. What does not fit at an address is in `test_security_errors`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, Fatal, FencepostError, Persisted, Producer, RecordRefused, TopicUnavailable
from fencepost.producer.wire import Api, ErrorCode

SECONDS = 20.0
"""What "within seconds" is on a machine that is very busy, and far below max_block_ms; on a quiet one it is a fraction of one."""

TOPIC, CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
WHO = "sasl_username, or the name in ssl_certfile"


class Story(NamedTuple):
    """How a stub is made to refuse, and what is said of it. `ends`: whether the producer is at its end by it."""

    arrange: Callable[[BrokerStub], object]
    kind: type[FencepostError]
    words: list[str]
    ends: bool = False


STORIES = {
    "no DESCRIBE on the topic": Story(
        lambda stub: stub.faults.on(Api.METADATA).where(topic="t").error(TOPIC).forever(),
        RecordRefused,
        ["TOPIC_AUTHORIZATION_FAILED", "no DESCRIBE permission on the topic", WHO],
    ),
    "no WRITE on the topic": Story(
        lambda stub: stub.faults.on(Api.PRODUCE).where(topic="t").error(TOPIC).forever(),
        RecordRefused,
        ["TOPIC_AUTHORIZATION_FAILED", "no WRITE permission on the topic", WHO],
    ),
    "no IDEMPOTENT_WRITE": Story(
        lambda stub: stub.faults.on(Api.INIT_PRODUCER_ID).error(CLUSTER).forever(),
        Fatal,
        ["InitProducerId was refused with CLUSTER_AUTHORIZATION_FAILED", "no IDEMPOTENT_WRITE", WHO, "enable_idempotence=False"],
        ends=True,
    ),
    "IDEMPOTENT_WRITE is withdrawn": Story(
        lambda stub: stub.faults.on(Api.PRODUCE).error(CLUSTER).forever(),
        Fatal,
        ["CLUSTER_AUTHORIZATION_FAILED", "no permission to write idempotently", WHO, "enable_idempotence=False"],
        ends=True,
    ),
    "an illegal name": Story(
        lambda stub: stub.faults.on(Api.METADATA).where(topic="t").error(ErrorCode.INVALID_TOPIC_EXCEPTION).forever(),
        RecordRefused,
        ["INVALID_TOPIC_EXCEPTION", "the topic's name is illegal"],
    ),
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["Producer", "AsyncProducer"])
@pytest.mark.parametrize("name", STORIES)
def test_a_missing_permission_is_said_within_seconds(name: str, asynchronous: bool) -> None:
    """`send` or the record's future raises an error with the code, the permission, the principal that needs it, and NO: the record is not
    in the log. The next `send` raises a fatal error again."""
    story = STORIES[name]
    with BrokerStub() as stub:
        stub.create_topic("t")
        story.arrange(stub)
        began = time.monotonic()
        errors = asyncio.run(refused_async(stub)) if asynchronous else refused(stub)
        assert time.monotonic() - began < SECONDS
        assert stub.end_offset("t", 0) == 0
    first, second = errors
    assert isinstance(first, story.kind), first
    assert isinstance(second, story.kind), second
    assert getattr(first, "persisted", Persisted.NO) is Persisted.NO
    for error in errors:
        assert [word for word in story.words if word not in str(error)] == [], error


def refused(stub: BrokerStub) -> list[FencepostError]:
    """What two records in turn come to."""
    errors = []
    producer = Producer(bootstrap_servers=stub.bootstrap)
    try:
        for _ in range(2):
            with pytest.raises(FencepostError) as error:
                producer.send("t", b"x").result(20)
            errors.append(error.value)
    finally:
        producer.close(5)
    return errors


async def refused_async(stub: BrokerStub) -> list[FencepostError]:
    errors = []
    producer = AsyncProducer(bootstrap_servers=stub.bootstrap)
    try:
        for _ in range(2):
            with pytest.raises(FencepostError) as error:
                async with asyncio.timeout(20):
                    await (await producer.send("t", b"x"))
            errors.append(error.value)
    finally:
        await producer.close(5)
    return errors


def test_a_permission_that_is_granted_later_is_used() -> None:
    """A missing permission on a topic is not the end of the producer: other topics go on, and this one does once it may."""
    with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap) as producer:
        missing = stub.faults.on(Api.PRODUCE).where(topic="t").error(TOPIC).forever()
        assert isinstance(producer.send("t", b"x").exception(20), RecordRefused)
        assert producer.send("u", b"x").result(20).offset == 0
        missing.remove()
        assert producer.send("t", b"x").result(20).offset == 0


UNKNOWN = ["topic 'missing'", "UNKNOWN_TOPIC_OR_PARTITION", "allow_auto_create_topics", "auto.create.topics.enable"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["Producer", "AsyncProducer"])
def test_an_unknown_topic(asynchronous: bool) -> None:
    """The producer waits for the topic for max_block_ms, because it may be about to be created. Then the error names this time, the
    brokers' answer and the ways to create a topic."""
    with BrokerStub(auto_create_topics=False) as stub:
        settings: dict[str, Any] = {"bootstrap_servers": stub.bootstrap, "max_block_ms": 400}
        stub.create_topic("there")  # so that it is about the answer, and not about the connection

        async def send() -> None:
            async with AsyncProducer(**settings) as producer:
                await producer.partitions_for("there", 20)
                await producer.send("missing", b"x")

        with pytest.raises(TopicUnavailable) as late:
            if asynchronous:
                asyncio.run(send())
            else:
                with Producer(**settings) as producer:
                    producer.partitions_for("there", timeout=20)
                    producer.send("missing", b"x")
    said = str(late.value)
    assert [word for word in [*UNKNOWN, "max_block_ms=400"] if word not in said] == [], said


def test_a_wait_for_an_unknown_topic_is_logged_soon(caplog: pytest.LogCaptureFixture) -> None:
    """With the default max_block_ms a wait takes a minute: the log says after two seconds, once, what is waited for and why in vain; a
    topic that appears late is sent to all the same."""

    def warnings() -> list[str]:
        return [each.getMessage() for each in caplog.records if "a call still waits for" in each.getMessage()]

    async def send(stub: BrokerStub) -> int:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap) as producer:
            sending = asyncio.ensure_future(producer.send("missing", b"x"))
            async with asyncio.timeout(20):
                while not warnings():
                    await asyncio.wait([sending], timeout=0.05)
                    assert not sending.done()
            stub.create_topic("missing")
            async with asyncio.timeout(20):
                return (await (await sending)).offset

    with BrokerStub(auto_create_topics=False) as stub:
        assert asyncio.run(send(stub)) == 0
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            producer.send("missing", b"x").result(20)
    [said] = warnings()
    assert [word for word in [*UNKNOWN, "max_block_ms"] if word not in said] == [], said
