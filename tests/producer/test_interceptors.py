"""Interceptors: what they may change, which outcomes they get, and that their errors break no send."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import (
    AsyncProducer,
    BufferFull,
    ConfigError,
    Misuse,
    Persisted,
    Producer,
    ProducerRecord,
    RecordMetadata,
    RecordRefused,
    RecordTooLarge,
    UndeliveredRecords,
)
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import QUICK, quick, values


class Told:
    """Remembers what it was told of outcomes, and where."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[RecordMetadata, Exception | None]] = []
        self.threads: set[str] = set()

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.outcomes.append((metadata, error))
        self.threads.add(threading.current_thread().name)


class Tag:
    """Appends to the value and the headers."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.append((self.mark, b"1"))
        record.value = record.value + self.mark
        return record


def test_a_chain_changes_a_record_before_serializers_see_it() -> None:
    """Each gets what the one before it made; a function that returns nothing has changed what it was given; the caller's own headers list
    is left alone."""

    def mark(record: ProducerRecord) -> None:
        record.headers.append(("seen", record.value.encode()))

    mine: list[tuple[str, bytes | None]] = [("own", None)]
    with BrokerStub() as stub, quick(stub, interceptors=[Tag("a"), Tag("b"), mark], value_serializer="string") as producer:
        producer.send("t", "x", headers=mine).result(20)
        (record,) = stub.records("t", 0)
        assert record.value == b"xab"
        assert list(record.headers) == [("own", None), ("a", b"1"), ("b", b"1"), ("seen", b"xab")]
        assert mine == [("own", None)]


def test_everything_may_be_changed() -> None:
    """Topic, key, value, partition, headers and timestamp, by an altogether new record."""

    def elsewhere(record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(topic="other", value=b"v", key=b"k", partition=1, headers=[("h", b"x")], timestamp=123)

    with BrokerStub(default_partitions=2) as stub, quick(stub, interceptors=elsewhere) as producer:
        assert producer.send("t", b"x").result(20) == RecordMetadata("other", 1, 0, 123)
        (record,) = stub.records("other", 1)
        assert (record.key, record.value, list(record.headers), record.timestamp) == (b"k", b"v", [("h", b"x")], 123)


def test_what_an_interceptor_raises_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback; the record goes on as it was before, without half of a change, to the other interceptors and to the
    broker. So it is with one that returns something else than a record."""

    def broken(record: ProducerRecord) -> None:
        record.value = b"half"
        raise RuntimeError("no")

    def wrong(record: ProducerRecord) -> Any:
        return b"not a record"

    def headless(record: ProducerRecord) -> None:
        record.headers = None  # type: ignore[assignment]  # it is refused

    class Deaf:
        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
            raise RuntimeError("no more")

    told = Told()
    with BrokerStub() as stub, quick(stub, interceptors=[broken, wrong, headless, Deaf(), told]) as producer:
        producer.send("t", b"whole").result(20)
        producer.flush(20)
        assert values(stub, "t") == [b"whole"]
    assert len(told.outcomes) == 1
    logged = [(record.getMessage(), str(record.exc_info[1])) for record in caplog.records if record.exc_info]
    assert [message.split(";")[0].split(",")[0] for message, _ in logged] == [
        "an interceptor's on_send raised",
        "an interceptor's on_send raised",
        "an interceptor's on_send raised",
        "an interceptor's on_acknowledgement raised",
    ]
    assert [error for _, error in logged] == [
        "no",
        "on_send returned bytes: it must return a ProducerRecord, or None to keep its argument",
        "on_send set headers to None: headers must be a list",
        "no more",
    ]


def test_acknowledgements_come_before_the_records_own_callback() -> None:
    """On the sender thread, with metadata or the error; in the order of the chain."""
    order: list[str] = []

    class Witness:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
            order.append(f"{self.name} {metadata.offset} {error} {headers}")

    told = Told()
    with BrokerStub() as stub, quick(stub, interceptors=[Witness("a"), Witness("b"), told]) as producer:
        producer.send("t", b"x", headers=[("h", b"1")], on_delivery=lambda future: order.append("own")).result(20)
        producer.flush(20)
    assert order == ["a 0 None [('h', b'1')]", "b 0 None [('h', b'1')]", "own"]
    assert all(name.startswith("fencepost-sender") for name in told.threads)


def test_a_failed_delivery_is_told_and_not_swallowed() -> None:
    """The interceptor gets the failure with topic and partition. The caller has not looked at it, so flush raises it."""
    told = Told()
    with BrokerStub() as stub:
        producer = quick(stub, interceptors=[told])
        producer.send("t", b"ok").result(20)
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        future = producer.send("t", b"x")
        with pytest.raises(UndeliveredRecords):
            producer.flush(20)
        metadata, error = told.outcomes[-1]
        assert metadata == RecordMetadata("t", 0, -1, -1)
        assert isinstance(error, RecordRefused)
        assert error.persisted is Persisted.NO
        assert isinstance(future.exception(0), RecordRefused)
        producer.close(20)


@pytest.mark.parametrize("settings", [{"interceptors": [Told()]}, {"telemetry": True}], ids=["interceptors", "telemetry"])
def test_a_failure_that_is_read_before_it_is_told(settings: dict[str, Any]) -> None:
    """The program reads the failure while the interceptors of an earlier record of the batch are still told. It has read it."""
    if "telemetry" in settings:
        pytest.importorskip("opentelemetry")
    is_read = threading.Event()
    with BrokerStub() as stub:
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with quick(stub, linger_ms=5_000, **settings) as producer:
            producer.send("t", b"x", partition=0, on_delivery=lambda _: is_read.wait(20))
            future = producer.send("t", b"y", partition=0)
            assert isinstance(future.exception(20), RecordRefused)
            is_read.set()
            producer.flush(20)


def test_a_record_that_is_not_accepted_is_told_in_the_call() -> None:
    """What send raises, too large a record or a serializer's own error, reaches the interceptors before the caller, once."""
    told = Told()
    with BrokerStub() as stub, quick(stub, interceptors=[told], value_serializer="string", max_request_size=2_000) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send("t", "x" * 3_000, partition=0)
        with pytest.raises(TypeError):
            producer.send("t", 5)
        with pytest.raises(TypeError, match="on_delivery must be callable"):
            producer.send("t", "x", on_delivery=5)  # type: ignore[arg-type]  # it is refused
    (large, first), (_, second), _ = told.outcomes
    assert large == RecordMetadata("t", 0, -1, -1)
    assert isinstance(first, RecordTooLarge)
    assert isinstance(second, TypeError)
    assert told.threads == {threading.current_thread().name}


def test_try_send_and_a_full_buffer() -> None:
    """try_send passes the chain as well, and says so where the buffer is full."""
    told = Told()
    with BrokerStub() as stub, quick(stub, interceptors=[told, Tag("!")], value_serializer="string", buffer_memory=3_000) as producer:
        producer.send("t", "first").result(20)
        held = stub.faults.on(Api.PRODUCE).before().forever().hold()
        producer.try_send("t", "x" * 2_000)
        with pytest.raises(BufferFull):
            producer.try_send("t", "x" * 2_000)
        assert isinstance(told.outcomes[-1][1], BufferFull)
        held.remove()
        held.release()
        producer.flush(20)
        assert values(stub, "t") == [b"first!", b"x" * 2_000 + b"!"]


def test_on_asyncio() -> None:
    """An AsyncProducer calls interceptors for send, for try_send, and for sends that wait for a topic or for room. Acknowledgements come on
    the loop."""
    told = Told()

    async def story(stub: BrokerStub) -> None:
        settings: dict[str, Any] = {**QUICK, "interceptors": [Tag("a"), told], "value_serializer": "string"}
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **settings) as producer:
            await (await producer.send("t", "1"))
            await producer.try_send("t", "2")
            with pytest.raises(TypeError):
                await producer.send("t", 5)
            with pytest.raises(TypeError):
                producer.try_send("t", 5)

    with BrokerStub() as stub:
        asyncio.run(asyncio.wait_for(story(stub), 60))
        assert values(stub, "t") == [b"1a", b"2a"]
        assert [type(error) for _, error in told.outcomes] == [type(None), type(None), TypeError, TypeError]
    assert told.threads == {threading.current_thread().name}


def test_rows_of_send_many_pass_the_chain() -> None:
    """Every row, in any form, is a record for on_send. on_acknowledgement is not called, because the result has the rows' outcomes."""

    def shout(record: ProducerRecord) -> None:
        record.value = record.value.upper()
        record.headers.append(("n", b"1"))

    told = Told()
    rows: list[Any] = [b"a", (b"k", b"b"), (b"k", b"c", [("h", None)], 5, 0), {"value": b"d", "key": b"k"}]
    with BrokerStub() as stub, quick(stub, interceptors=[shout, told]) as producer:
        assert producer.send_many("t", rows).result(20).acknowledged == 4
        assert producer.send_many("t", iter(rows)).result(20).acknowledged == 4
        found = stub.records("t", 0)
        assert [(record.key, record.value) for record in found[:4]] == [(None, b"A"), (b"k", b"B"), (b"k", b"C"), (b"k", b"D")]
        assert [list(record.headers) for record in found[:3]] == [[("n", b"1")], [("n", b"1")], [("h", None), ("n", b"1")]]
        assert found[2].timestamp == 5
        with pytest.raises((TypeError, ValueError), match="row 0"):
            producer.send_many("t", [(b"k",)])
    assert told.outcomes == []


def test_bulks_that_interceptors_cannot_follow() -> None:
    """A row cannot go to another topic, and columns have no records: both are refused, not passed by."""

    def elsewhere(record: ProducerRecord) -> None:
        record.topic = "other"

    with BrokerStub() as stub, quick(stub, interceptors=[elsewhere]) as producer:
        with pytest.raises(Misuse, match=r"send_many\('t'\) to 'other'"):
            producer.send_many("t", [b"x"])
        with pytest.raises(Misuse, match="send_arrow makes no record that interceptors could see"):
            producer.send_arrow("t", None)


@pytest.mark.parametrize("wrong", ["audit.Audit", 5, [Told], [object()]])
def test_what_is_no_interceptor_is_refused(wrong: object) -> None:
    """Names and classes, as Kafka takes them, are refused with what to give instead."""
    with pytest.raises(ConfigError, match=r"interceptor.classes: .* is not an interceptor"):
        Producer({"bootstrap.servers": "a:1", "interceptor.classes": wrong})


def test_without_interceptors_nothing_is_asked() -> None:
    """No chain, no wrapped callback, and the question whether anything stands before the record is answered no."""
    with BrokerStub() as stub, quick(stub) as plain, quick(stub, interceptors=[Tag("x")]) as tagged:
        assert plain._interceptors is None
        assert not plain._serializes
        assert tagged._interceptors is not None
        own = logging.getLogger("x").debug
        assert tagged._interceptors.watched(ProducerRecord(topic="t"), own) is own, "no interceptor wants to hear of acknowledgements"


def test_not_even_a_cancellation_reaches_the_records_own_callback(caplog: pytest.LogCaptureFixture) -> None:
    """What on_acknowledgement raises is contained, CancelledError and SystemExit too: the others are told, and so is the record's own
    callback."""

    class Rude:
        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
            raise asyncio.CancelledError

    told = Told()
    called: list[object] = []
    with BrokerStub() as stub, quick(stub, interceptors=[Rude(), told]) as producer:
        future = producer.send("t", b"x", on_delivery=called.append)
        producer.flush(20)
        assert called == [future]
        assert len(told.outcomes) == 1
    assert "on_acknowledgement raised" in caplog.text
