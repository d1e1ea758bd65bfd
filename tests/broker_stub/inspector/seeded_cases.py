"""Ten things that go wrong on a stub, each made on purpose, for the page to explain.

    python -m tests.broker_stub.inspector.seeded_cases DIR

writes a share file of each. A case is a function that gets a stub and leaves it as it is after the mishap. Its row in `CASES` has the kind
of finding that explains it, and the view in which it is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from msgspec.structs import replace

from fencepost import Api, BrokerStub, FencepostError, Producer, TransactionalProducer
from fencepost.broker_stub.inspector.findings import findings
from fencepost.broker_stub.inspector.rows import Rows
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.stub_calls import Talker, batch, produce_request
from tests.waiting import until

PATIENCE_S: Final = 20.0
BEFORE_VERIFICATION: Final = 11
"""The version of Produce that a broker takes without asking the coordinator, if the config says so."""
FAST: Final[dict[str, Any]] = {"linger_ms": 0, "retry_backoff_ms": 20}


def transactional(stub: BrokerStub, name: str, *, client_id: str) -> TransactionalProducer:
    return TransactionalProducer(stub.settings, transactional_id=name, client_id=client_id, **FAST)


def lost_reply(stub: BrokerStub) -> None:
    """The broker appends a batch, and its reply never arrives."""
    stub.create_topic("orders")
    with Producer(stub.settings, **FAST, client_id="shop") as producer:
        producer.send("orders", b"first").result(PATIENCE_S)
        stub.faults.on(Api.PRODUCE).drop_reply()
        producer.send("orders", b"second").result(PATIENCE_S)
        producer.send("orders", b"third").result(PATIENCE_S)


def fenced_zombie(stub: BrokerStub) -> None:
    """A process is replaced by another one with its transactional id, and goes on."""
    stub.create_topic("orders")
    with suppress(FencepostError), transactional(stub, "orders-1", client_id="old-process") as old:
        tx = old.begin(timeout=PATIENCE_S)
        tx.send("orders", b"of the zombie").result(PATIENCE_S)
        with (
            transactional(stub, "orders-1", client_id="new-process") as new,
            new.transaction(timeout=PATIENCE_S) as other,
        ):
            other.send("orders", b"of its successor").result(PATIENCE_S)
            with suppress(FencepostError):
                tx.send("orders", b"too late").result(PATIENCE_S)


def hanging_transaction(stub: BrokerStub) -> None:
    """A batch of a transaction reaches the log, and no coordinator knows the transaction."""
    stub.create_topic("orders")
    with Producer(stub.settings, **FAST, client_id="shop") as producer:
        producer.send("orders", b"before").result(PATIENCE_S)
        with Talker(stub, client_id="late-client") as talker:
            request = produce_request("orders", batch(b"late", pid=7001, epoch=3, sequence=0, transactional=True))
            talker.ask(replace(request, transactional_id="gone"), BEFORE_VERIFICATION)
        for number in range(5):
            producer.send("orders", b"after %d" % number).result(PATIENCE_S)


def stale_leader(stub: BrokerStub) -> None:
    """A producer writes to a broker that leads no more."""
    stub.create_topic("orders", replication_factor=2)
    with Producer(stub.settings, **FAST, client_id="shop") as producer:
        producer.send("orders", b"to the first leader").result(PATIENCE_S)
        stub.move_leader("orders", 0)
        producer.send("orders", b"to the next one").result(PATIENCE_S)


def poison_record(stub: BrokerStub) -> None:
    """A record without a key is sent to a compacted topic, which refuses its batch."""
    stub.create_topic("customers", config={"cleanup.policy": "compact"})
    with Producer(stub.settings, linger_ms=200, client_id="shop") as producer:
        futures = [producer.send("customers", b"v", key=None if number == 2 else b"key %d" % number) for number in range(4)]
        for future in futures:
            with suppress(FencepostError):
                future.result(PATIENCE_S)


def expired_batch(stub: BrokerStub) -> None:
    """No reply to a batch ever arrives, until the producer gives up. The batch is in the log all the same."""
    stub.create_topic("orders")
    with Producer(stub.settings, linger_ms=0, retry_backoff_ms=20, delivery_timeout_ms=1500, client_id="shop") as producer:
        producer.send("orders", b"first").result(PATIENCE_S)
        lost = stub.faults.on(Api.PRODUCE).after_append().forever().drop()
        with suppress(FencepostError):
            producer.send("orders", b"second").result(PATIENCE_S)
        lost.remove()
    until(lambda: any(each["kind"] == "expired batch" for each in found(stub)), "no more attempts of the batch")


def quota(stub: BrokerStub) -> None:
    """A client writes more than its quota."""
    stub.create_topic("orders")
    stub.quota(client_id="shop", producer_byte_rate=20_000)
    with Producer(stub.settings, **FAST, client_id="shop") as producer:
        for _ in range(3):
            producer.send("orders", bytes(90_000)).result(PATIENCE_S)


def wrong_acks(stub: BrokerStub) -> None:
    """A leader acknowledges a record before its follower has it, and dies."""
    stub.create_topic("orders", replication_factor=2)
    with Producer(stub.settings, **FAST, acks=1, enable_idempotence=False, client_id="careless") as producer:
        producer.send("orders", b"replicated").result(PATIENCE_S)
        leader = stub.leader("orders", 0)
        until(lambda: stub.cluster.topics.named("orders").partitions[0].logs[3 - leader].log_end_offset == 1, "the follower has it")  # type: ignore[union-attr]
        stub.sever(1, 2)
        producer.send("orders", b"acknowledged and gone").result(PATIENCE_S)
        stub.stop_broker(leader, clean=False)


def rebalance_in_a_transaction(stub: BrokerStub) -> None:
    """A group goes on without the member whose offsets a transaction commits."""
    stub.create_topic("incoming")
    stub.create_topic("outgoing")
    with Producer(stub.settings, **FAST, client_id="source") as producer:
        producer.send("incoming", b"order 1").result(PATIENCE_S)
    first = _member(stub, "worker-1")
    member = first.consumer_group_metadata()
    with transactional(stub, "pipeline-1", client_id="worker-1") as producer, suppress(FencepostError):
        tx = producer.begin(timeout=PATIENCE_S)
        tx.send("outgoing", b"invoice 1").result(PATIENCE_S)
        first.close()
        second = _member(stub, "worker-2")
        try:
            tx.send_offsets([TopicPartition("incoming", 0, 1)], member, timeout=PATIENCE_S)
        except FencepostError:
            tx.abort(timeout=PATIENCE_S)
        finally:
            second.close()


def _member(stub: BrokerStub, client_id: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": stub.bootstrap, "group.id": "billing", "client.id": client_id, "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False}
    )
    consumer.subscribe(["incoming"])
    until(lambda: consumer.poll(0.2) is not None, "a record for the member")
    return consumer


def aborted_batch(stub: BrokerStub) -> None:
    """A program aborts a transaction after it has written."""
    stub.create_topic("orders")
    with transactional(stub, "orders-1", client_id="shop") as producer:
        with producer.transaction(timeout=PATIENCE_S) as tx:
            tx.send("orders", b"good")
        tx = producer.begin(timeout=PATIENCE_S)
        for number in range(3):
            tx.send("orders", b"bad %d" % number).result(PATIENCE_S)
        tx.abort(timeout=PATIENCE_S)
        with producer.transaction(timeout=PATIENCE_S) as tx:
            tx.send("orders", b"good again")


class Case(NamedTuple):
    """`kind`: of the finding that explains it. `view`: where it is seen besides. `options`: of its stub."""

    make: Callable[[BrokerStub], None]
    kind: str
    view: str
    options: dict[str, Any] = {}


CASES: Final = {
    "lost reply": Case(lost_reply, "lost reply", "exchanges"),
    "fenced zombie": Case(fenced_zombie, "fenced zombie", "exchanges"),
    "hanging transaction": Case(
        hanging_transaction,
        "hanging transaction",
        "topics",
        {"config": {"transaction.partition.verification.enable": "false"}},
    ),
    "stale leader": Case(stale_leader, "stale leader", "exchanges", {"brokers": 2}),
    "poison record": Case(poison_record, "poison record", "exchanges"),
    "expired batch": Case(expired_batch, "expired batch", "exchanges"),
    "quota": Case(quota, "quota", "exchanges"),
    "wrong acks": Case(wrong_acks, "acknowledged and gone", "exchanges", {"brokers": 2}),
    "rebalance in a transaction": Case(
        rebalance_in_a_transaction,
        "rebalance in a transaction",
        "exchanges",
        {"config": {"group.initial.rebalance.delay.ms": "0"}},
    ),
    "aborted batch": Case(aborted_batch, "aborted batch", "topics"),
}


@contextmanager
def busy_cluster() -> Iterator[BrokerStub]:
    """A cluster with something in each view: lost replies, a moved leader, committed, aborted and open transactions, a group, a rule."""
    with BrokerStub(brokers=3, config={"group.initial.rebalance.delay.ms": "0"}) as stub:
        stub.create_topic("orders", partitions=3)
        stub.create_topic("invoices", partitions=1)
        with Producer(stub.settings, **FAST, client_id="web-shop") as producer:
            for number in range(24):
                if number % 8 == 3:
                    stub.faults.on(Api.PRODUCE).drop_reply()
                for record in [producer.send("orders", b"%d" % each, key=b"%d" % number) for each in range(1 + number % 5)]:
                    record.result(PATIENCE_S)
        with transactional(stub, "billing-1", client_id="billing") as billing:
            for number in range(6):
                tx = billing.begin(timeout=PATIENCE_S)
                for each in range(1 + number % 3):
                    tx.send("invoices", b"%d" % each).result(PATIENCE_S)
                    tx.send("orders", b"%d" % each, partition=0).result(PATIENCE_S)
                if number == 2:
                    tx.abort(timeout=PATIENCE_S)
                else:
                    tx.commit(timeout=PATIENCE_S)
            stub.move_leader("orders", 1)
            with Producer(stub.settings, **FAST, client_id="web-shop") as producer:
                stub.faults.on(Api.PRODUCE).where(topic="orders", partition=1).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                producer.send("orders", b"moved", partition=1).result(PATIENCE_S)
            rebalance_in_a_transaction(stub)
            tx = billing.begin(timeout=PATIENCE_S)
            tx.send("invoices", b"open").result(PATIENCE_S)
            with Producer(stub.settings, **FAST, client_id="web-shop") as producer:
                for _ in range(3):
                    producer.send("invoices", b"behind").result(PATIENCE_S)
            stub.faults.on(Api.METADATA).where(client_id="slow").forever().delay(500)
            yield stub
            tx.abort(timeout=PATIENCE_S)


def found(stub: BrokerStub) -> list[dict[str, Any]]:
    """What the page finds on that stub."""
    rows = Rows(stub.cluster.topic_name)
    rows.update(stub.journal.requests())
    return findings(stub.snapshot(), rows.every)


def main() -> None:
    """Writes a share file of each case, and says what the page finds."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        with BrokerStub(**case.options) as stub:
            case.make(stub)
            file = stub.share(directory / f"{name.replace(' ', '-')}.html")
            print(
                f"{file}\n" + "".join(f"    {each['level']}: {each['kind']}: {each['title']}\n" for each in found(stub)), end="", flush=True
            )


if __name__ == "__main__":
    main()
