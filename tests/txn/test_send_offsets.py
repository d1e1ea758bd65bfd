"""Offsets of a transaction as callers send them, on the stub: shared by threads, bounded in time, and while coordinators move."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import Misuse
from fencepost.producer.wire import Api
from fencepost.txn.coordinator.send_admission import NoTransaction
from fencepost.txn.errors import IllegalCall, TransactionTimeout
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.transaction import Transaction
from tests.txn.stub_helpers import LIMIT_S, SETTINGS, committed, ends

GROUP = GroupMetadata("g")
PARTITIONS = 8


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=PARTITIONS)
        yield stub


def group_at(stub: BrokerStub) -> list[int]:
    """How far the group has read each partition; -1001 where no offset is committed."""
    consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": GROUP.group_id})
    try:
        asked = [TopicPartition("t", partition) for partition in range(PARTITIONS)]
        return [partition.offset for partition in consumer.committed(asked, timeout=LIMIT_S)]
    finally:
        consumer.close()


def test_threads_share_a_transaction(stub: BrokerStub) -> None:
    """Each sends records and the offsets of its own partition; the commit waits for all of them."""

    def work(tx: Transaction, partition: int, offset: int) -> None:
        tx.send("t", b"row", partition=partition)
        tx.send_offsets({("t", partition): offset}, GROUP, LIMIT_S)

    with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
        for turn in (1, 2):
            tx = producer.begin(LIMIT_S)
            threads = [threading.Thread(target=work, args=(tx, partition, 10 * turn + partition)) for partition in range(PARTITIONS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LIMIT_S)
            tx.commit(LIMIT_S)
    assert group_at(stub) == [20 + partition for partition in range(PARTITIONS)]
    assert all(committed(stub, "t", partition) == [b"row"] * 2 for partition in range(PARTITIONS))


def test_a_coordinator_that_does_not_answer(stub: BrokerStub) -> None:
    """The call ends at its deadline, can be made again, and the commit waits for the answer."""
    with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
        held = stub.faults.on(Api.TXN_OFFSET_COMMIT).hold()
        tx = producer.begin(LIMIT_S)
        with pytest.raises(TransactionTimeout, match="send_offsets"):
            tx.send_offsets({("t", 0): 5}, GROUP, 0.05)
        held.wait(1, LIMIT_S)
        again = threading.Thread(target=tx.send_offsets, args=({("t", 0): 6}, GROUP, LIMIT_S))
        again.start()
        commit = threading.Thread(target=tx.commit, args=(LIMIT_S,))
        held.release()
        held.remove()
        again.join(LIMIT_S)
        commit.start()
        commit.join(LIMIT_S)
    assert ends(stub) == [True]
    assert group_at(stub)[0] == 6


def test_calls_that_do_not_fit(stub: BrokerStub) -> None:
    """Outside a transaction, after its end and inside a delivery callback; without offsets there is nothing to do, but a wrong group is
    wrong all the same."""
    with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
        with pytest.raises(IllegalCall, match="send_offsets: the producer is not registered yet; what can be called now: init, begin"):
            producer.send_offsets({("t", 0): 5}, GROUP)
        heard: list[BaseException] = []

        def callback(_: object) -> None:
            try:
                tx.send_offsets({("t", 0): 5}, GROUP)
            except Misuse as misuse:
                heard.append(misuse)

        with producer.transaction(LIMIT_S) as tx:
            tx.send_offsets({}, GROUP)
            tx.send_offsets([], GROUP)
            with pytest.raises(TypeError, match="a name alone"):
                tx.send_offsets({}, "g")
            tx.send("t", b"row", on_delivery=callback).result(LIMIT_S)
        assert "inside a delivery callback" in str(heard[0])
        with pytest.raises(NoTransaction):
            tx.send_offsets({("t", 0): 5}, GROUP)
        assert stub.journal.requests(Api.TXN_OFFSET_COMMIT) == []


@pytest.mark.parametrize("version", [1, 2])
def test_coordinators_move_and_brokers_restart(version: int) -> None:
    """The coordinators of the transaction and of the group move. Each commit still moves the group to its offsets, and nothing is
    doubled."""
    with BrokerStub(brokers=3, transaction_version=version) as stub:
        stub.create_topic("t", partitions=PARTITIONS)
        with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
            for turn in range(12):
                with producer.transaction(LIMIT_S) as tx:
                    tx.send("t", b"%d" % turn, partition=0)
                    if turn % 4 == 3:
                        stub.restart_broker(1 + turn // 4)
                    tx.send_offsets({("t", 0): turn + 1}, GROUP)
                    if turn % 4 == 1:
                        for topic in ("__consumer_offsets", "__transaction_state"):
                            for partition in range(50):
                                stub.move_leader(topic, partition)
        assert group_at(stub)[0] == 12
        assert committed(stub, "t") == [b"%d" % turn for turn in range(12)]
