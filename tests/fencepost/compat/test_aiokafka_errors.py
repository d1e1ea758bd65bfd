"""The errors of `fencepost.compat.aiokafka`: aiokafka's classes, for what each of them means there, with fencepost's error underneath."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable
from typing import Any

import aiokafka.errors
import pytest

from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.compat.aiokafka import AIOKafkaProducer, errors, own_errors
from fencepost.compat.aiokafka.translation import translated
from fencepost.producer import errors as ours
from fencepost.producer.errors import with_code
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.codes import error_name
from fencepost.txn import errors as txn_errors
from fencepost.txn.coordinator.send_admission import NoTransaction
from tests.fencepost.compat.aiokafka_producers import made
from tests.later import Jump, jump
from tests.producer.stub_helpers import run_story, values

__all__ = ["jump"]

FAILED: dict[str, Any] = {"topic": "t", "partition": 0, "persisted": ours.Persisted.NO}

ROWS: list[tuple[ours.FencepostError, str]] = [
    (ours.ProducerClosed("x"), "ProducerClosed"),
    (ours.BufferFull("x"), "KafkaTimeoutError"),
    (ours.UnknownPartition("x"), "UnknownTopicOrPartitionError"),
    (ours.TopicUnavailable("x"), "UnknownTopicOrPartitionError"),
    (ours.RecordTooLarge("x"), "MessageSizeTooLargeError"),
    (ours.AuthenticationFailed("x"), "AuthenticationFailedError"),
    (ours.NoUsableBroker("x"), "KafkaConnectionError"),
    (ours.Fenced("x"), "ProducerFenced"),
    (ours.ProducerForked("x"), "IllegalStateError"),
    (ours.Misuse("x"), "IllegalStateError"),
    (ours.Fatal("x"), "KafkaError"),
    (ours.DeliveryTimeout("x", **FAILED), "KafkaTimeoutError"),
    (ours.DeliveryTimeout("x", **FAILED, code=7), "RequestTimedOutError"),
    (ours.RecordRefused("x", **FAILED, code=29), "TopicAuthorizationFailedError"),
    (ours.RecordRefused("x", **FAILED, code=45), "OutOfOrderSequenceNumber"),
    (ours.RecordRefused("x", **FAILED, code=47), "ProducerFenced"),
    (ours.RecordRefused("x", **FAILED, code=90), "ProducerFenced"),
    (ours.RecordRefused("x", **FAILED, code=87), "UnknownError"),
    (ours.DeliveryUnknown("x", **FAILED), "KafkaError"),
    (ours.DeliveryFatal("x", **FAILED), "KafkaError"),
    (txn_errors.DeliveryAborted("x", **FAILED), "KafkaError"),
    (NoTransaction("x"), "IllegalOperation"),
    (txn_errors.IllegalCall("x"), "IllegalOperation"),
    (txn_errors.TransactionTimeout("x"), "KafkaTimeoutError"),
    (txn_errors.MustAbort("x"), "KafkaError"),
    (txn_errors.MustAbort("x", code=30), "GroupAuthorizationFailedError"),
    (txn_errors.IdentityLost("x"), "InvalidProducerIdMapping"),
    (txn_errors.NotPermitted("x"), "KafkaError"),
    (with_code(txn_errors.NotPermitted("x"), 53), "TransactionalIdAuthorizationFailed"),
    (with_code(txn_errors.NotPermitted("x"), 2030), "UnknownError"),
    (with_code(ours.Fenced("x"), 90), "ProducerFenced"),
    (txn_errors.TransactionAborted("x"), "KafkaError"),
    (txn_errors.CommitOutcomeUnknown("x"), "KafkaError"),
]


@pytest.mark.parametrize(("error", "name"), ROWS, ids=lambda row: row if isinstance(row, str) else type(row).__name__)
def test_each_error_is_one_of_aiokafkas(error: ours.FencepostError, name: str) -> None:
    """An instance of aiokafka's class, with the words and the error of fencepost."""
    made_error = translated(error)
    assert isinstance(made_error, getattr(aiokafka.errors, name))
    assert str(error) in str(made_error)
    assert made_error.underlying is error
    assert made_error.__cause__ is error
    assert ("AssertionError" in [each.__name__ for each in type(made_error).__mro__]) is isinstance(
        error, ours.UnknownPartition | txn_errors.IllegalCall
    )


def test_a_wrong_setting_stays_a_value_error() -> None:
    """As aiokafka's are."""
    error = ours.ConfigError("x")
    assert translated(error) is error
    assert isinstance(error, ValueError)


def test_the_errors_are_aiokafkas_own() -> None:
    """Every name of aiokafka.errors, so a program may import its errors from either."""
    names = [name for name in aiokafka.errors.__all__ if name != "for_code"]
    assert len(names) > 50
    assert [name for name in names if getattr(errors, name) is not getattr(aiokafka.errors, name)] == []


def test_the_errors_without_aiokafka_are_like_them() -> None:
    """Same names, bases, error codes, and the same answer to whether the call may be repeated."""
    checked = 0
    for name, cls in vars(own_errors).items():
        if not isinstance(cls, type) or not issubclass(cls, Exception):
            continue
        theirs = getattr(aiokafka.errors, name)
        bases = [each.__name__ for each in theirs.__mro__ if each.__name__ not in ("KafkaProtocolError",)]
        assert [each.__name__ for each in cls.__mro__] == bases, name
        for attribute in ("errno", "retriable", "invalid_metadata"):
            assert getattr(cls, attribute, None) == getattr(theirs, attribute, None), (name, attribute)
        if name != "BrokerResponseError":
            assert str(cls("text")) == str(theirs("text"))
        checked += 1
    assert checked > 40
    codes = {cls.errno for cls in own_errors.BrokerResponseError.__subclasses__()}
    assert {cls.message for cls in own_errors.BrokerResponseError.__subclasses__()} == {error_name(code) for code in codes}
    for code in codes:
        assert own_errors.for_code(code).__name__ == aiokafka.errors.for_code(code).__name__
    assert own_errors.for_code(12_345) is own_errors.UnknownError


def test_send_refuses_what_aiokafkas_refuses(jump: Jump) -> None:
    """The errors of `send`, before the record is accepted; and nothing of it is in the log."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.send_and_wait("t", b"first")
            for wrong, kind in (
                ({"value": None}, AssertionError),
                ({"value": "text"}, TypeError),
                ({"value": 5}, TypeError),
                ({"value": b"v", "key": "text"}, TypeError),
                ({"value": b"v", "headers": [("a",)]}, TypeError),
                ({"value": b"v", "headers": "ab"}, TypeError),
                ({"value": b"v", "headers": [("\ud800", b"")]}, ValueError),
                ({"value": b"v", "timestamp_ms": "now"}, TypeError),
                ({"value": b"v", "timestamp_ms": -1}, ValueError),
                ({"value": b"v", "partition": 9}, AssertionError),
                ({"value": b"v", "partition": 9}, aiokafka.errors.UnknownTopicOrPartitionError),
                ({"value": b"v", "partition": -1}, AssertionError),
                ({"value": b"v" * 2_000_000}, aiokafka.errors.MessageSizeTooLargeError),
                ({"value": b"v", "topic": "no/such"}, ValueError),
                ({"value": b"v", "topic": 5}, TypeError),
            ):
                with pytest.raises(kind):
                    await producer.send(**{"topic": "t", **wrong})  # type: ignore[arg-type]  # wrong on purpose
            refused = stub.faults.on(Api.METADATA).forever().error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            waiting = [asyncio.create_task(call) for call in (producer.send("other", b"v"), producer.partitions_for("other"))]
            while refused.hits < 2:
                await asyncio.sleep(0.001)
            jump(10_000)
            with pytest.raises(aiokafka.errors.UnknownTopicOrPartitionError, match="did not become available within"):
                await waiting[0]
            with pytest.raises(aiokafka.errors.UnknownTopicOrPartitionError):
                await waiting[1]
            refused.remove()

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"first"]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "TopicAuthorizationFailedError"),
        (ErrorCode.MESSAGE_TOO_LARGE, "MessageSizeTooLargeError"),
        (ErrorCode.INVALID_TIMESTAMP, "InvalidTimestampError"),
        (ErrorCode.CORRUPT_MESSAGE, "CorruptRecordException"),
    ],
)
def test_a_refused_record_has_the_brokers_error(jump: Jump, code: ErrorCode, name: str) -> None:
    """In `send_and_wait`, in the future, and in the future of a batch; `underlying` says that the record is not in the log."""

    async def ended(call: Awaitable[Any]) -> asyncio.Future[Any]:
        """The call, when it has its outcome. What is to be tried again waits for that until its time has passed."""
        calling, before = asyncio.ensure_future(call), fault.hits
        while not calling.done():
            await asyncio.sleep(0.001)
            if fault.hits > before and not producers[0].underlying.stats().requests_in_flight:
                jump(4_000)
                before = fault.hits
        return calling

    producers: list[AIOKafkaProducer] = []

    async def story() -> None:
        async with made(stub, request_timeout_ms=2_000, retry_backoff_ms=60_000) as producer:
            producers.append(producer)
            await producer.partitions_for("t")
            kind = getattr(aiokafka.errors, name)
            with pytest.raises(kind) as refused:
                (await ended(producer.send_and_wait("t", b"v"))).result()
            assert refused.value.underlying.persisted is ours.Persisted.NO
            assert refused.value.underlying.code == code
            future = await ended(await producer.send("t", b"v"))
            assert isinstance(future.exception(), kind)
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"v")
            with pytest.raises(kind):
                (await ended(await producer.send_batch(batch, "t", partition=0))).result()
            fault.remove()

    with BrokerStub() as stub:
        stub.create_topic("t")
        fault = stub.faults.on(Api.PRODUCE).before().forever().error(code)
        run_story(story())
        assert values(stub, "t") == []


def test_a_record_without_an_acknowledgement_times_out(jump: Jump) -> None:
    """After linger and twice the request's timeout. It may be in the log, and `underlying` says so."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.partitions_for("t")
            fault = stub.faults.on(Api.PRODUCE).forever().drop_reply()
            waiting = asyncio.create_task(producer.send_and_wait("t", b"v"))
            while not fault.hits:
                await asyncio.sleep(0.001)
            for _ in range(4):
                jump(10_000)
                await asyncio.sleep(0.001)
            with pytest.raises(aiokafka.errors.KafkaTimeoutError) as late:
                await waiting
            assert late.value.underlying.persisted is not ours.Persisted.NO
            fault.remove()

    with BrokerStub() as stub:
        run_story(story())


def test_a_full_buffer_times_out() -> None:
    """`send` waits for room, up to `request_timeout_ms`, and then raises KafkaTimeoutError."""

    async def story() -> None:
        async with made(stub, request_timeout_ms=1_000, max_request_size=30 << 20) as producer:
            await producer.partitions_for("t")
            held = stub.faults.on(Api.PRODUCE).before().forever().hold()
            with pytest.raises(aiokafka.errors.KafkaTimeoutError, match="buffer_memory"):
                for _ in range(40):
                    await producer.send("t", b"v" * (1 << 20))
            held.remove()

    with BrokerStub() as stub:
        run_story(story())


def test_a_small_max_request_size_limits_records() -> None:
    """Also one that is too small for a request of fencepost's."""

    async def story() -> None:
        async with made(stub, max_request_size=200) as producer:
            await producer.send_and_wait("t", b"v" * 100)
            for wrong in ({"value": b"v" * 118}, {"value": b"v" * 90, "key": b"k" * 20, "headers": [("a", b"b" * 10)]}):
                with pytest.raises(aiokafka.errors.MessageSizeTooLargeError, match="max_request_size=200"):
                    await producer.send("t", **wrong)

    with BrokerStub() as stub:
        run_story(story())
        assert len(values(stub, "t")) == 1


def test_start_raises_if_no_broker_answers() -> None:
    """KafkaConnectionError, with the addresses and the reasons; and `stop` may be called after it."""

    async def story() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=["127.0.0.1:1", "localhost:1"])
        with pytest.raises(aiokafka.errors.KafkaConnectionError, match=r"127\.0\.0\.1:1.*localhost:1.*refused"):
            await producer.start()
        await producer.stop()

    run_story(story())


def test_start_raises_if_the_login_is_refused() -> None:
    """KafkaConnectionError, as aiokafka, and AuthenticationFailedError as well."""

    async def story() -> None:
        login = {"sasl_plain_username": "u", "sasl_plain_password": "wrong"}
        producer = made(stub, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", **login)
        with pytest.raises(aiokafka.errors.KafkaConnectionError) as refused:
            await producer.start()
        assert isinstance(refused.value, aiokafka.errors.AuthenticationFailedError)
        assert "wrong" not in str(refused.value)
        await producer.stop()

    with BrokerStub(sasl=Sasl(users={"u": "p"}, mechanisms=["PLAIN"])) as stub:
        run_story(story())


WITHOUT = """
import asyncio, sys

sys.modules["aiokafka"] = None  # it is not installed

import fencepost

assert not [name for name in sys.modules if name.startswith("fencepost.compat")]

from fencepost import BrokerStub
from fencepost.compat.aiokafka import AIOKafkaProducer, RecordMetadata, TopicPartition
from fencepost.compat.aiokafka.errors import KafkaError, MessageSizeTooLargeError, UnknownTopicOrPartitionError


async def main(bootstrap):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        at = await producer.send_and_wait("t", b"v")
        assert isinstance(at, RecordMetadata) and at.topic_partition == TopicPartition("t", 0)
        large, elsewhere = {"value": b"v" * 2_000_000}, {"value": b"v", "partition": 5}
        for wrong, kind in ((large, MessageSizeTooLargeError), (elsewhere, UnknownTopicOrPartitionError)):
            try:
                await producer.send("t", **wrong)
            except kind as error:
                assert isinstance(error, KafkaError), error
                print(error)
            else:
                raise AssertionError("not refused")


with BrokerStub() as stub:
    asyncio.run(main(stub.bootstrap))
"""


def test_without_aiokafka() -> None:
    """It works, with errors and tuples of the same names."""
    env = {**os.environ, "FENCEPOST_EXPECT": ""}
    ran = subprocess.run([sys.executable, "-P", "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "[Error 10] MessageSizeTooLargeError: a record of up to 2000082 bytes exceeds max_request_size=1048576; it was not accepted",
        "[Error 3] UnrecognizedPartition: topic 't' has no partition 5: it has 1, numbered from 0",
    ]


def test_importing_fencepost_imports_no_compat() -> None:
    """`import fencepost` and its producers load neither this package nor aiokafka."""
    program = "import sys, fencepost; fencepost.AsyncProducer; print([n for n in sys.modules if 'compat' in n or 'aiokafka' in n])"
    ran = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    loaded = [name for name in ran.stdout.strip("[]\n").split(", ") if "fencepost.compat" in name or "aiokafka" in name]
    assert (ran.returncode, loaded) == (0, [])
