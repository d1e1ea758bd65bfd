"""Faults of every kind between the producer and a real Kafka: each record is in the log once. Without idempotence it is not."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.broker_stub.faults.rules import Fault, Faults
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer import Producer
from fencepost.producer.wire.codes import Api, ErrorCode
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.ledger import Account, Ledger
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.tap import Tap
from tests.drawn import drawn
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

ROWS = 10_000
WAIT_S = 120.0
CUTS = 10

Trouble = Callable[[Faults], list[Fault]]

TROUBLES: dict[str, Trouble] = {
    "lost replies": lambda faults: [faults.on(Api.PRODUCE).after_append().drop().on_call(call) for call in (1, 20, 45, 70)],
    "disconnects in the middle of an answer": lambda faults: [faults.on(Api.PRODUCE).reply().disconnect().probability(0.08, seed=2)],
    "disconnects before the request": lambda faults: [faults.on(Api.PRODUCE).before().disconnect().probability(0.08, seed=3)],
    "disconnects after the append": lambda faults: [faults.on(Api.PRODUCE).after_append().disconnect().probability(0.08, seed=4)],
    "late answers": lambda faults: [faults.on(Api.PRODUCE).reply().delay(150).probability(0.08, seed=5)],
    "late requests": lambda faults: [faults.on(Api.PRODUCE).before().delay(150).probability(0.08, seed=6)],
    "requests that arrive twice": lambda faults: [faults.on(Api.PRODUCE).before().duplicate().probability(0.2, seed=7)],
    "appended, but not confirmed in time": lambda faults: [
        faults.on(Api.PRODUCE).after_append().error(ErrorCode.REQUEST_TIMED_OUT).probability(0.08, seed=8),
        faults.on(Api.PRODUCE).after_append().error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND).probability(0.08, seed=9),
    ],
    "refused for now": lambda faults: [
        faults.on(Api.PRODUCE).before().error(ErrorCode.NOT_LEADER_OR_FOLLOWER).probability(0.05, seed=10),
        faults.on(Api.PRODUCE).before().error(ErrorCode.NOT_ENOUGH_REPLICAS).probability(0.05, seed=11),
        faults.on(Api.PRODUCE).before().error(ErrorCode.UNKNOWN_TOPIC_ID).probability(0.05, seed=12),
    ],
    "everything, and the questions get lost too": lambda faults: [
        faults.on(Api.PRODUCE).after_append().drop().on_call(10),
        faults.on(Api.PRODUCE).after_append().drop().on_call(60),
        faults.on(Api.PRODUCE).reply().disconnect().probability(0.04, seed=14),
        faults.on(Api.PRODUCE).before().disconnect().probability(0.04, seed=15),
        faults.on(Api.PRODUCE).after_append().error(ErrorCode.REQUEST_TIMED_OUT).probability(0.04, seed=16),
        faults.on(Api.PRODUCE).before().duplicate().probability(0.1, seed=17),
        faults.on(Api.DESCRIBE_PRODUCERS).after_append().disconnect().probability(0.5, seed=18),
        faults.on(Api.METADATA).before().disconnect().probability(0.2, seed=19),
        faults.on(Api.INIT_PRODUCER_ID).reply().disconnect().times(1),
    ],
}


@pytest.fixture
def proxy(kafka: KafkaCluster) -> Iterator[FaultProxy]:
    with FaultProxy(kafka.bootstrap) as proxy:
        yield proxy


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = f"faults-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(name, partitions=3)
    return name


@drawn(3)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_each_record_is_there_once_after_any_fault(kafka: KafkaCluster, proxy: FaultProxy, topic: str, trouble: str) -> None:
    """The log holds every record once, in order, at its reported offset. The faults did happen."""
    faults = TROUBLES[trouble](proxy.faults)
    ledger, tap = send_all(proxy, topic)
    account = read(kafka, topic, ledger)
    print(f"{trouble}: {[fault.hits for fault in faults]} times; {tap.sent} batches, {tap.resent} sent again: {account.verdict()}")
    assert account.faults() == dict.fromkeys(account.faults(), 0)
    assert ledger.acked == account.found == ROWS
    assert account.sum == ledger.sum
    assert sum(fault.hits for fault in faults) > 0


def test_once_while_links_are_cut(kafka: KafkaCluster, proxy: FaultProxy, topic: str) -> None:
    """Every connection is cut ten times during the send: no record is lost or duplicated."""
    cut = []

    def cut_some(ledger: Ledger) -> None:
        for number in range(1, CUTS + 1):
            await_acked(ledger, ledger.rows * number // (CUTS + 2))
            until(lambda: proxy.stats()["open"] > 0, "a connection", timeout_s=WAIT_S)
            cut.append(proxy.cut_connections())

    ledger, tap = send_all(proxy, topic, beside=cut_some)
    account = read(kafka, topic, ledger)
    print(f"{sum(cut)} connections cut; {tap.sent} batches, {tap.resent} sent again: {account.verdict()}")
    assert account.faults() == dict.fromkeys(account.faults(), 0)
    assert ledger.acked == account.found == ROWS
    assert len(cut) == CUTS
    assert sum(cut) >= CUTS // 2  # a connection may have ended by itself just before the cut
    assert tap.resent > 0


@pytest.mark.parametrize("trouble", ["disconnects in the middle of an answer", "requests that arrive twice"])
def test_without_idempotence_the_same_trouble_doubles(kafka: KafkaCluster, proxy: FaultProxy, topic: str, trouble: str) -> None:
    """The faults are effective: a producer without idempotence leaves duplicates."""
    TROUBLES[trouble](proxy.faults)
    ledger, _ = send_all(proxy, topic, enable_idempotence=False)
    account = read(kafka, topic, ledger)
    print(f"without idempotence, {trouble}: {account.verdict()}")
    assert (account.lost, account.strange) == (0, 0)
    assert account.doubled > 0


def send_all(proxy: FaultProxy, topic: str, *, beside: Callable[[Ledger], None] | None = None, **settings: Any) -> tuple[Ledger, Tap]:
    """Send all rows through the proxy with small batches; `beside` runs at the same time in its own thread."""
    ledger = Ledger(ROWS, seed=7)
    with Producer(
        bootstrap_servers=proxy.bootstrap, batch_size=4096, linger_ms=1, request_timeout_ms=1000, buffer_memory=1 << 20, **settings
    ) as producer:
        tap = Tap(producer)
        other = threading.Thread(target=beside or (lambda ledger: None), args=(ledger,))
        other.start()
        for row in range(ROWS):
            ledger.send(producer, topic, row)
        producer.flush(WAIT_S)
        other.join(WAIT_S)
    return ledger, tap


def await_acked(ledger: Ledger, rows: int) -> None:
    until(lambda: ledger.acked >= rows, "acknowledgements", timeout_s=WAIT_S)


def read(kafka: KafkaCluster, topic: str, ledger: Ledger) -> Account:
    account = Account(ledger)
    for message in read_topic(kafka.bootstrap, topic):
        account.take_message(message)
    return account
