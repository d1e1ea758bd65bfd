"""A broker whose disk is slow: what waits for it, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.producer import Producer, RecordFuture
from fencepost.producer.wire import Api
from fencepost.txn import TransactionalProducer
from tests.waiting import until

WRITE_MS = 200


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=2, clock=VirtualClock()) as stub:
        stub.create_topic("t", partitions=2, replication_factor=2)
        yield stub


def waits(stub: BrokerStub, future: RecordFuture) -> int:
    """So many milliseconds pass by the stub's clock until the record is acknowledged."""
    (produced,) = until(lambda: stub.journal.requests(Api.PRODUCE), "the request", good=bool)
    for _ in range(100):
        for _ in range(20):  # a follower asks, and is answered
            stub.advance(0)
        if produced.ended_ms is not None:
            future.result(20)
            return produced.ended_ms - produced.at_ms
        stub.advance(50)
    raise AssertionError("it was never acknowledged")


@pytest.mark.parametrize(
    ("slow", "acks", "least", "most"), [("leader", "1", 200, 300), ("leader", "all", 200, 300), ("follower", "1", 0, 50)]
)
def test_a_write_takes_its_time(stub: BrokerStub, slow: str, acks: Any, least: int, most: int) -> None:
    """The leader's disk holds up every acknowledgement; the follower's does not hold up acks=1."""
    leader = stub.leader("t", 0)
    stub.slow_disk(leader if slow == "leader" else 3 - leader, WRITE_MS)
    with Producer(stub.settings, acks=acks, enable_idempotence=False) as producer:
        assert least <= waits(stub, producer.send("t", b"x", partition=0)) <= most


def test_a_slow_follower_holds_up_acks_all(stub: BrokerStub) -> None:
    """The leader waits for it, as for every in-sync replica."""
    stub.slow_disk(3 - stub.leader("t", 0), WRITE_MS)
    with Producer(stub.settings) as producer:
        assert 200 <= waits(stub, producer.send("t", b"x", partition=0)) <= 350


def test_a_slow_follower_leaves_the_isr_and_joins_again(stub: BrokerStub) -> None:
    """It needs longer for a write than replica.lag.time.max.ms, so it leaves. It is not fenced, and joins when it has caught up."""
    leader = stub.leader("t", 0)
    stub.slow_disk(3 - leader, 100_000)
    with Producer(stub.settings, acks=1, enable_idempotence=False) as producer:
        producer.send("t", b"x", partition=0).result(20)
    until(lambda: stub.advance(1_000) and stub.isr("t", 0), "alone", good=lambda isr: isr == [leader])
    assert stub.fenced == []
    stub.slow_disk(3 - leader, 0)
    until(lambda: stub.advance(1_000) and sorted(stub.isr("t", 0)), "in sync", good=lambda isr: isr == [1, 2])
    until(
        lambda: stub.advance(1_000) and [record.value for record in stub.records("t", 0, node=3 - leader)],
        "x",
        good=lambda found: found == [b"x"],
    )


def test_writes_come_one_after_the_other_in_their_order() -> None:
    """Also those that arrive when the disk is fast again. Idempotent batches would be refused out of order."""
    with BrokerStub() as stub:
        stub.create_topic("t")
        stub.slow_disk(1, 30)
        with Producer(stub.settings, linger_ms=0, batch_size=1) as producer:
            futures = [producer.send("t", b"%d" % number) for number in range(5)]
            until(lambda: len(stub.journal.requests(Api.PRODUCE)), "requests", good=lambda found: found > 3)
            stub.slow_disk(1, 0)
            futures += [producer.send("t", b"%d" % number) for number in range(5, 10)]
            assert [future.result(20).offset for future in futures] == list(range(10))
        assert [record.value for record in stub.records("t", 0)] == [b"%d" % number for number in range(10)]


def test_transactions_commit() -> None:
    """The coordinators' writes and the markers take their time, one after the other."""
    with BrokerStub(brokers=3, config={"transaction.state.log.num.partitions": 2}) as stub:
        stub.create_topic("t", replication_factor=3, config={"min.insync.replicas": 2})
        for node in (1, 2, 3):
            stub.slow_disk(node, 5)
        with TransactionalProducer(stub.settings, transactional_id="x") as producer:
            for number in range(3):
                with producer.transaction():
                    producer.send("t", b"%d" % number)
            producer.begin()
            producer.send("t", b"aborted")
            producer.abort()
        until(lambda: [record.value for record in stub.records("t", 0)], "committed", good=lambda found: found == [b"0", b"1", b"2"])
