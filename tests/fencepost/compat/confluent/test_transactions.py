"""Transactions of `fencepost.compat.confluent.Producer`: the calls, their order, and the flags of their errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fencepost import Api, BrokerStub, ErrorCode
from fencepost.compat.confluent import Producer
from fencepost.compat.confluent.held_messages import HeldMessages
from fencepost.compat.confluent.message import Message
from fencepost.compat.confluent.underlying import Underlying
from fencepost.txn import TransactionalProducer
from tests.conformance.fixtures import kafka as kafka
from tests.conformance.kafka import KafkaCluster
from tests.gil import needs_gil
from tests.waiting import until

pytestmark = needs_gil


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as broker:
        broker.create_topic("t")
        yield broker


def made(bootstrap: str, transactional_id: str = "id", **properties: Any) -> Producer:
    """A producer of transactions."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **named})


def refused(call: Callable[[], object]) -> tuple[int, bool, bool, bool]:
    """The code of a call's KafkaException, and its flags: retriable, fatal, requires an abort."""
    with pytest.raises(KafkaException) as raised:
        call()
    error = raised.value.args[0]
    return error.code(), error.retriable(), error.fatal(), error.txn_requires_abort()


def values(stub: BrokerStub, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in stub.records(topic, 0)]


def test_commit_and_abort(stub: BrokerStub) -> None:
    """Messages of a committed transaction are visible, those of an aborted one are not. `commit_transaction` calls the callbacks."""
    heard: list[tuple[Any, bytes | None]] = []
    with made(stub.bootstrap, linger_ms=50) as producer:
        assert isinstance(producer.underlying, TransactionalProducer)
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(10):
            producer.produce("t", str(number), on_delivery=lambda error, message: heard.append((error, message.value())))
        producer.commit_transaction(30)
        assert heard == [(None, str(number).encode()) for number in range(10)]
        assert len(producer) == 0
        heard.clear()
        producer.begin_transaction()
        producer.produce("t", "never", on_delivery=lambda error, message: heard.append((error, message.value())))
        producer.abort_transaction(30)
        ((error, value),) = heard
        # It may have been acknowledged before the abort.
        assert error is None or error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
        assert value == b"never"
        producer.begin_transaction()
        producer.produce("t", "last")
        producer.commit_transaction()
    assert values(stub) == [str(number).encode() for number in range(10)] + [b"last"]


def test_a_message_for_a_new_topic(stub: BrokerStub) -> None:
    """The commit waits for messages whose topic was not known when they were produced, and an abort drops them."""
    with made(stub.bootstrap) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("new", b"1")
        producer.produce("new", b"2")
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce("other", b"dropped")
        producer.abort_transaction(30)
        producer.begin_transaction()
        producer.produce("other", b"kept")
        producer.commit_transaction(30)
    assert values(stub, "new") == [b"1", b"2"]
    assert values(stub, "other") == [b"kept"]


def test_a_commit_waits_for_a_new_topic(stub: BrokerStub) -> None:
    """A commit whose time passes while a message waits for its topic commits nothing. The same call later commits the message, too."""
    with made(stub.bootstrap) as producer:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", "before")
        assert producer.flush(10) == 0
        metadata = stub.faults.on(Api.METADATA).hold()
        producer.produce("new", "waits")
        for _ in range(3):
            assert refused(lambda: producer.commit_transaction(0.0)) == (KafkaError._TIMED_OUT, True, False, False)
        assert values(stub) == []
        metadata.release()
        producer.commit_transaction(30)
    assert (values(stub), values(stub, "new")) == ([b"before"], [b"waits"])


def test_a_message_of_an_aborted_transaction(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was about to be sent when its transaction was aborted fails. It gets into no other transaction, and spoils none."""
    about_to, go_on = Event(), Event()
    real = Underlying.send

    def slow(underlying: Underlying, message: Message, *more: Any) -> None:
        about_to.set()
        assert go_on.wait(20)
        real(underlying, message, *more)

    heard: list[Any] = []
    with made(stub.bootstrap) as producer:
        producer.init_transactions(30)
        producer.begin_transaction()
        monkeypatch.setattr(Underlying, "send", slow)
        producer.produce("new", "aborted", on_delivery=lambda error, message: heard.append(error.code()))
        assert about_to.wait(20)
        producer.abort_transaction(30)
        producer.begin_transaction()
        producer.produce("t", "second")
        go_on.set()
        assert producer.flush(20) == 0
        producer.commit_transaction(30)
    assert heard == [KafkaError._STATE]
    assert (values(stub), values(stub, "new")) == ([b"second"], [])


def test_a_message_while_a_transaction_is_committed(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """`produce` refuses a message that would have to wait for its topic while the transaction is being committed: nothing is accepted that
    the commit would leave out."""
    about_to, go_on = Event(), Event()

    def slow(held: HeldMessages, topic: str, partition: int | None) -> bool:
        about_to.set()
        assert go_on.wait(20)
        return False

    codes: list[int] = []
    with made(stub.bootstrap) as producer:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", "committed")
        assert producer.flush(10) == 0
        monkeypatch.setattr(HeldMessages, "lacks", slow)
        late = Thread(target=lambda: codes.append(refused(lambda: producer.produce("new", "late"))[0]))
        late.start()
        assert about_to.wait(20)
        end = stub.faults.on(Api.END_TXN).hold()
        committing = Thread(target=producer.commit_transaction, args=(30,))
        committing.start()
        until(lambda: end.holding == 1, "the commit was asked for")
        go_on.set()
        late.join(20)
        end.release()
        committing.join(30)
    assert codes == [KafkaError._STATE]
    assert values(stub) == [b"committed"]


def test_a_message_that_fails_before_it_is_sent() -> None:
    """A message of a missing topic fails outside our producer, and still the transaction can only be aborted."""
    with BrokerStub(auto_create_topics=False) as broker:
        broker.create_topic("t")
        with made(broker.bootstrap, topic_metadata_propagation_max_ms=200) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.produce("t", b"good")
            producer.produce("missing", b"bad")
            assert refused(lambda: producer.commit_transaction(30)) == (KafkaError._STATE, False, False, True)
            assert refused(lambda: producer.commit_transaction(30)) == (KafkaError._STATE, False, False, True)
            producer.abort_transaction(30)
            producer.begin_transaction()
            producer.produce("t", b"second")
            producer.commit_transaction(30)
        assert values(broker) == [b"second"]


def test_a_message_that_the_broker_refuses(stub: BrokerStub) -> None:
    """After a failed delivery the commit fails with the delivery's code and `txn_requires_abort`; after the abort a new one succeeds."""
    stub.create_topic("small", config={"max.message.bytes": 200})
    with made(stub.bootstrap) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("small", b"v" * 500)
        assert refused(producer.commit_transaction) == (KafkaError.MSG_SIZE_TOO_LARGE, False, False, True)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.produce("small", b"v")
        producer.commit_transaction()
    assert values(stub, "small") == [b"v"]


def test_the_order_of_calls(stub: BrokerStub) -> None:
    """A call that does not fit fails with _STATE, and without transactional.id with _NOT_CONFIGURED. Nothing changes."""
    state = (KafkaError._STATE, False, False, False)
    with made(stub.bootstrap) as producer:
        for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
            assert refused(call) == state
        assert refused(lambda: producer.produce("t", b"v")) == state
        producer.init_transactions()
        assert refused(producer.init_transactions) == state
        for call in (producer.commit_transaction, producer.abort_transaction):
            assert refused(call) == state
        assert refused(lambda: producer.send_offsets_to_transaction([TopicPartition("t", 0, 1)], object())) == state
        assert refused(lambda: producer.produce("t", b"v")) == state
        producer.begin_transaction()
        assert refused(producer.begin_transaction) == state
        assert refused(lambda: producer.set_sasl_credentials("a", "b")) == state
        producer.commit_transaction()
    with Producer({"bootstrap.servers": stub.bootstrap}) as plain:
        for name in ("init_transactions", "begin_transaction", "commit_transaction", "abort_transaction"):
            assert refused(getattr(plain, name))[0] == KafkaError._NOT_CONFIGURED


def test_a_call_that_times_out(stub: BrokerStub) -> None:
    """`init_transactions` that timed out is retriable. Until it is made again, other calls fail with _CONFLICT, which is retriable, too."""
    stub.faults.on(Api.INIT_PRODUCER_ID).drop_reply().times(3)
    with made(stub.bootstrap, socket_timeout_ms=300) as producer:
        assert refused(lambda: producer.init_transactions(0.1)) == (KafkaError._TIMED_OUT, True, False, False)
        for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
            assert refused(call) == (KafkaError._CONFLICT, True, False, False)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.commit_transaction(30)
    assert values(stub) == [b"v"]


def test_a_commit_without_an_answer(stub: BrokerStub) -> None:
    """A commit whose answer is lost is retriable: made again, it succeeds, and the messages are there once."""
    with made(stub.bootstrap, socket_timeout_ms=1000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        stub.faults.on(Api.END_TXN).drop_reply()
        code, retriable, fatal, abort = refused(lambda: producer.commit_transaction(0.2))
        assert (code, retriable, fatal, abort) == (KafkaError._TIMED_OUT, True, False, False)
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.abort_transaction(30)
    assert values(stub) == [b"v"]


def take_over(first: Producer, second: Producer) -> None:
    """The second producer registers the transactional id while the first one has a message in an open transaction."""
    first.init_transactions()
    first.begin_transaction()
    first.produce("t", b"first")
    assert first.flush(10) == 0
    second.init_transactions()


def test_fenced(stub: BrokerStub) -> None:
    """A second producer with the same id fences the first one: _FENCED, fatal."""
    with made(stub.bootstrap) as first, made(stub.bootstrap) as second:
        take_over(first, second)
        code, _, fatal, _ = refused(lambda: first.commit_transaction(30))
        assert (code, fatal) == (KafkaError._FENCED, True)
        second.begin_transaction()
        second.produce("t", b"second")
        second.commit_transaction()
    assert values(stub) == [b"second"]


def test_a_zombie_is_told_so_by_every_call(stub: BrokerStub) -> None:
    """A zombie that writes has to abort, as in Java's client. The abort finds out that it was fenced, and from then on each call says so,
    as in librdkafka: a program that begins again does not hear that a transaction is open."""
    with made(stub.bootstrap) as first, made(stub.bootstrap) as second:
        take_over(first, second)
        first.produce("t", b"of a zombie")
        assert first.flush(10) == 0
        code, _, fatal, abort = refused(lambda: first.commit_transaction(30))
        assert (code, fatal, abort) == (KafkaError.INVALID_PRODUCER_EPOCH, False, True)
        calls = (
            lambda: first.abort_transaction(30),
            first.begin_transaction,
            lambda: first.commit_transaction(30),
            lambda: first.abort_transaction(30),
            lambda: first.init_transactions(30),
            lambda: first.produce("t", b"later"),
        )
        for call in calls:
            code, _, fatal, _ = refused(call)
            assert (code, fatal) == (KafkaError._FENCED, True)
    assert values(stub) == []


def test_not_permitted(stub: BrokerStub) -> None:
    """A coordinator that refuses this principal is fatal."""
    stub.faults.on(Api.INIT_PRODUCER_ID).error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with made(stub.bootstrap) as producer:
        code, retriable, fatal, _ = refused(lambda: producer.init_transactions(10))
        assert (retriable, fatal) == (False, True)
        assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_transaction_that_closes(stub: BrokerStub) -> None:
    """`close` aborts the open transaction."""
    with made(stub.bootstrap) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
    assert values(stub) == []


def test_produce_in_a_transaction_never_waits(stub: BrokerStub) -> None:
    """In a transaction, too, `produce` raises BufferError at once when the buffer is full."""
    stub.faults.on(Api.PRODUCE).delay(ms=300)
    with made(stub.bootstrap, queue_buffering_max_kbytes=4) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        began = time.monotonic()
        with pytest.raises(BufferError):
            for _ in range(100):
                producer.produce("t", b"v" * 500)
        assert time.monotonic() - began < 5
        assert producer.flush(20) == 0
        producer.commit_transaction()


def copy_once(bootstrap: str, source: str, target: str) -> int:
    """Copy a topic in transactions, with the offsets of the group; returns how many messages it copied."""
    group = f"group-{uuid4()}"
    copied = 0
    properties = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(properties)
    producer = made(bootstrap, f"copy-{uuid4()}")
    try:
        consumer.subscribe([source])
        producer.init_transactions(60)
        while copied < 20:
            messages = consumer.consume(7, timeout=5)
            assert messages
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, message.value(), message.key(), headers=message.headers())
                producer.poll(0)
            producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            copied += len(messages)
        assert [each.offset for each in consumer.committed([TopicPartition(source, 0)], timeout=30)] == [20]
    finally:
        producer.close()
        consumer.close()
    return copied


def fill(bootstrap: str, topic: str) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(20):
            producer.produce(topic, str(number), partition=0)
        assert producer.flush(60) == 0


def test_read_process_write(stub: BrokerStub) -> None:
    """Offsets and messages become visible together, with confluent-kafka's consumer."""
    fill(stub.bootstrap, "source")
    assert copy_once(stub.bootstrap, "source", "target") == 20
    assert [int(value or b"") for value in values(stub, "target")] == list(range(20))


def test_offsets_without_any(stub: BrokerStub) -> None:
    """Positions without an offset are left out; if none is left, nothing is sent."""
    with made(stub.bootstrap) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition("t", 0)], object())
        with pytest.raises(TypeError):
            producer.send_offsets_to_transaction({}, object())
        producer.commit_transaction()


def test_with_kafka(kafka: KafkaCluster) -> None:
    """The same on Apache Kafka: a commit, an abort, and offsets with the messages."""
    source, target = f"source-{uuid4()}", f"target-{uuid4()}"
    fill(kafka.bootstrap, source)
    assert copy_once(kafka.bootstrap, source, target) == 20
    with made(kafka.bootstrap, f"abort-{uuid4()}") as producer:
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(target, b"aborted")
        assert producer.flush(60) == 0
        producer.abort_transaction(60)
    properties = {"bootstrap.servers": kafka.bootstrap, "group.id": str(uuid4()), "auto.offset.reset": "earliest"}
    consumer = Consumer({**properties, "isolation.level": "read_committed"})
    seen: list[bytes] = []

    def read() -> bool:
        seen.extend(message.value() or b"" for message in consumer.consume(100, timeout=1))
        return len(seen) >= 20

    try:
        consumer.subscribe([target])
        until(read, "the copies", timeout_s=60)
        assert consumer.consume(1, timeout=1) == []
    finally:
        consumer.close()
    assert sorted(map(int, seen)) == list(range(20))
