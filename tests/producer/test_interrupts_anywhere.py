"""Ctrl-C at every single point of a call, one after the other: the call ends with it, and leaves a producer that works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import BulkFuture, Producer, ProducerClosed
from tests.producer.stub_helpers import quick, until
from tests.strike import MARKS, Struck, at_every_point, interrupt, struck

PATIENCE_S = 20
ROWS = [b"row"] * 3
SMALL: dict[str, Any] = {"buffer_memory": 3_000, "max_request_size": 2_500}

pytestmark = [*MARKS, pytest.mark.timeout(600)]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(default_partitions=1) as stub:
        stub.create_topic("t", partitions=1)
        yield stub


def works(producer: Producer, topic: str = "t") -> None:
    """For another thread, too: the one that was struck may hold what it should not."""
    offsets: list[int] = []

    def use() -> None:
        offsets.append(producer.send(topic, b"alive").result(PATIENCE_S).offset)
        producer.flush(PATIENCE_S)

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert offsets
    assert not thread.is_alive()
    assert producer._sender.running
    accumulator = producer._accumulator
    assert (accumulator.used, accumulator.waiting, accumulator.hurried()) == (0, 0, False)


def send_and_flush(producer: Producer) -> None:
    producer.send("t", b"x")
    producer.flush()


CALLS: dict[str, Callable[[Producer], object]] = {
    "try_send": lambda producer: producer.try_send("t", b"x"),
    "send": lambda producer: producer.send("t", b"x"),
    "send with a callback": lambda producer: producer.send("t", b"x", on_delivery=lambda future: None),
    "send without room": lambda producer: [producer.send("t", b"x" * 900) for _ in range(5)],
    "send_many": lambda producer: producer.send_many("t", ROWS),
    "send_many without room": lambda producer: producer.send_many("t", [b"x" * 900] * 5),
    "result": lambda producer: producer.send("t", b"x").result(),
    "result of a bulk": lambda producer: producer.send_many("t", ROWS).result(),
    "flush": send_and_flush,
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupted_call_loses_nothing(stub: BrokerStub, name: str) -> None:
    """Wherever Ctrl-C strikes, what was accepted is delivered, the budget comes back, no lock stays taken, and a sender that runs is not
    taken for one that has ended."""
    with quick(stub, **SMALL) as producer:
        producer.partitions_for("t")
        for _ in at_every_point(lambda: CALLS[name](producer)):
            until(lambda: not producer._accumulator.used, "what was accepted is delivered without another call")
            works(producer)


def test_a_topic_that_is_not_known(stub: BrokerStub) -> None:
    """Wherever Ctrl-C strikes while the brokers are asked for a topic, the producer still learns of other topics afterwards."""
    with quick(stub) as producer:
        wanted, later = count(), count()
        for _ in at_every_point(lambda: producer.partitions_for(f"wanted-{next(wanted)}")):
            works(producer, f"later-{next(later)}")


def test_a_bulk_is_told(stub: BrokerStub) -> None:
    """The error's `sent` has the rows that an interrupted bulk had accepted, and gets their outcomes."""
    with quick(stub) as producer:
        producer.partitions_for("t")
        known = 0
        for error in at_every_point(lambda: producer.send_many("t", ROWS)):
            producer.flush(PATIENCE_S)
            bulk = getattr(error, "sent", None)
            if isinstance(bulk, BulkFuture):
                known += bulk.result(PATIENCE_S).acknowledged
            assert stub.end_offset("t", 0) == known


def test_an_interrupted_close_ends_or_can_be_repeated(stub: BrokerStub) -> None:
    """Close, struck anywhere, has done its work or does it when it is called again."""
    for point in count():
        producer = quick(stub)
        producer.send("t", b"x").result(PATIENCE_S)
        try:
            struck(producer.close, point, interrupt)
            break
        except Struck:
            producer.close()
        assert not producer._sender.running
        with pytest.raises(ProducerClosed):
            producer.send("t", b"x")
