"""Calls from several threads, of which one is paused at a moment at which the producer closes or is replaced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fencepost import BrokerStub
from fencepost.compat.confluent import Producer
from fencepost.compat.confluent.held_messages import HeldMessages
from fencepost.compat.confluent.underlying import Underlying
from fencepost.producer import Producer as PlainProducer
from tests.gil import needs_gil

WAIT_S = 10.0
pytestmark = [needs_gil, pytest.mark.timeout(60)]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(auto_create_topics=False) as stub:
        stub.create_topic("orders")
        yield stub


class Produced:
    """A `produce` in another thread, and what it raised. `heard`: the errors of its message's callback."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.raised: BaseException | None = None
        self.heard: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(producer, topic), daemon=True)

    def _run(self, producer: Producer, topic: str) -> None:
        try:
            producer.produce(topic, b"late", on_delivery=lambda error, message: self.heard.append(error))
        except Exception as error:  # noqa: BLE001 - the outermost frame of a thread: the test gets the error
            self.raised = error

    def begin(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Wait for it."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


def test_a_message_that_comes_between_the_steps_of_a_close(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `produce` found the producer open, and its topic is not known. It is refused, or its callback is called: no message is lost
    without a word, at any step of the close."""
    steps = ("purge", "end")
    for step in steps:
        producer = Producer({"bootstrap.servers": stub.bootstrap})
        late = Produced(producer, "unknown")
        found_open, go_on = threading.Event(), threading.Event()
        real = getattr(HeldMessages, step)
        hold = HeldMessages.hold

        def held(self: HeldMessages, message: Any, found: Any = found_open, go: Any = go_on, hold: Any = hold) -> None:
            found.set()
            assert go.wait(WAIT_S)
            hold(self, message)

        def stepped(self: HeldMessages, *arguments: Any, real: Any = real, go: Any = go_on, late: Any = late) -> None:
            real(self, *arguments)
            go.set()
            late.end()

        with monkeypatch.context() as patched:
            patched.setattr(HeldMessages, "hold", held)
            patched.setattr(HeldMessages, step, stepped)
            late.begin()
            assert found_open.wait(WAIT_S)
            producer.close()
        if late.raised is None:
            assert [error.code() for error in late.heard] == [KafkaError._PURGE_QUEUE]
        else:
            assert str(late.raised) == "Producer has been closed"


def test_a_message_while_the_producer_is_replaced(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `produce` got our old producer, which `purge` has closed and replaced meanwhile. The message goes to the new one: the program's
    producer is open, and does not say that it is closed."""
    producer = Producer({"bootstrap.servers": stub.bootstrap, "linger.ms": 5000})
    producer.list_topics(timeout=WAIT_S)
    producer.produce("orders", b"first")
    producer.flush(WAIT_S)
    producer.produce("orders", b"purged")
    old: Any = producer.underlying
    late = Produced(producer, "orders")
    refused, go_on = threading.Event(), threading.Event()
    close = Underlying.close

    class Slow(PlainProducer):
        """The old producer, whose refusal takes its time."""

        def try_send(self, *arguments: Any, **options: Any) -> Any:
            try:
                return PlainProducer.try_send(old, *arguments, **options)
            except Exception:
                refused.set()
                assert go_on.wait(WAIT_S)
                raise

    def closed(self: Underlying, timeout_s: float) -> None:
        close(self, timeout_s)
        late.begin()
        assert refused.wait(WAIT_S)

    with Slow(bootstrap_servers=stub.bootstrap) as slow, monkeypatch.context() as patched:
        patched.setattr(producer, "_plain", slow)
        patched.setattr(Underlying, "close", closed)
        producer.purge()
        new: Any = producer.underlying
    producer._plain = new
    go_on.set()
    late.end()
    assert (late.raised, producer.flush(WAIT_S), late.heard) == (None, 0, [None])
    producer.close()
    values = [record.value for record in stub.records("orders", 0)]
    assert (values[0], values[-1], values.count(b"late")) == (b"first", b"late", 1)


def test_two_threads_purge_at_once(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one to end does not end the other's: messages that fail in the second are still purged, and the producer is replaced
    once."""
    producer = Producer({"bootstrap.servers": stub.bootstrap, "linger.ms": 5000})
    producer.produce("orders", b"first")
    producer.flush(WAIT_S)
    heard: list[Any] = []
    for _ in range(3):
        producer.produce("orders", b"purged", on_delivery=lambda error, message: heard.append(error.code()))
    closed: list[bool] = []
    close = Underlying.close
    second = threading.Thread(target=producer.purge, daemon=True)

    def slowly(self: Underlying, timeout_s: float) -> None:
        if second.ident is None:
            second.start()
            second.join(0.3)  # If both can be here at once, both are.
        close(self, timeout_s)
        closed.append(producer._reports.purging)

    with monkeypatch.context() as patched:
        patched.setattr(Underlying, "close", slowly)
        producer.purge()
        second.join(WAIT_S)
    assert closed == [True]
    producer.flush(WAIT_S)
    assert len(heard) == 3
    assert {*heard} <= {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
    producer.close()
