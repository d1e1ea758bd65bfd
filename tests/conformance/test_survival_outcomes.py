"""A broker is away for longer than the delivery deadline. The producer's outcome of each record is true, and the producer works again
afterwards.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from functools import partial

import pytest

from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer import DeliveryError, DeliveryTimeout, Persisted, Producer, RecordFuture
from fencepost.producer.wire.codes import Api
from tests.conformance.fixtures import ClusterFactory
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.ledger import Ledger
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.tap import Tap
from tests.drawn import drawn
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)

WAIT_S = 120.0
ROUNDS = 10 if os.environ.get("FENCEPOST_SURVIVAL") == "full" else 2
ROWS = 5_000


@drawn(2, of="long stories of survival")
def test_what_is_said_of_expired_records_is_true(kafka_cluster: ClusterFactory) -> None:
    """YES rows are in the log, NO rows are not, acknowledged rows are there once, MAYBE rows at most once.

    The order holds, and the next rows are acknowledged.
    """
    cluster = kafka_cluster()
    topic = f"outcomes-{secrets.token_hex(4)}"
    Admin(cluster.bootstrap).create(topic, partitions=2)
    ledger = Ledger(ROUNDS * 2 * ROWS, seed=8)
    failures: dict[int, DeliveryError] = {}
    with (
        FaultProxy(cluster.bootstrap) as proxy,
        # Batches whose first attempt lost its answer expire, too. The producer does not wait for a second attempt.
        Producer(bootstrap_servers=proxy.bootstrap, batch_size=8192, request_timeout_ms=1000, delivery_timeout_ms=1500) as producer,
    ):
        tap = Tap(producer)
        row = 0
        for number in range(ROUNDS):
            row = send(producer, topic, ledger, failures, row)
            producer.flush(WAIT_S)
            row = send_into_the_dark(cluster, proxy, producer, topic, ledger, failures, row, kill=number % 2 == 0)
        settled = ledger.acked + ledger.failed
        assert settled == ledger.sent
        afterwards = [producer.send(topic, b"afterwards", partition=p) for p in (0, 1)]
        assert all(future.result(WAIT_S).offset >= 0 for future in afterwards)
    found = Counter[int]()
    last: dict[int, int] = {}
    for message in read_topic(cluster.bootstrap, topic):
        value, partition = message.value(), message.partition()
        assert partition is not None
        if value is None or value == b"afterwards":
            continue
        read = int(value[:10])
        assert value == ledger.value(read)
        assert read > last.get(partition, -1), "out of order, or twice"
        last[partition] = read
        found[read] += 1
    said = Counter("acknowledged" if row not in failures else failures[row].persisted.name for row in range(ledger.sent))
    there = Counter("acknowledged" if row not in failures else failures[row].persisted.name for row in found)
    print(
        f"outcomes: {dict(said)}; in the log: {dict(there)}; "
        f"epoch {tap.highest_epoch}, {tap.questions} DescribeProducers; {dict(tap.codes)}"
    )
    assert set(found.values()) <= {1}
    assert there["acknowledged"] == said["acknowledged"]
    assert there["YES"] == said["YES"]
    assert there["NO"] == 0
    assert said["NO"] > 0
    assert said["MAYBE"] + said["YES"] > 0
    assert {type(error) for error in failures.values()} <= {DeliveryTimeout}
    assert all(error.persisted in Persisted for error in failures.values())


def send(producer: Producer, topic: str, ledger: Ledger, failures: dict[int, DeliveryError], row: int) -> int:
    """Send so many rows from this one on; return the next one."""
    for each in range(row, row + ROWS):
        key, value = ledger.sending(each)
        producer.send(topic, value, key=key, on_delivery=partial(settled, ledger, failures, each))
    return row + ROWS


def settled(ledger: Ledger, failures: dict[int, DeliveryError], row: int, future: RecordFuture) -> None:
    error = future.exception()
    if error is not None:
        failures[row] = error
    ledger.settled(row, future)


def send_into_the_dark(
    cluster: KafkaCluster,
    proxy: FaultProxy,
    producer: Producer,
    topic: str,
    ledger: Ledger,
    failures: dict[int, DeliveryError],
    row: int,
    *,
    kill: bool,
) -> int:
    """Send rows whose answers are dropped, stop the broker until all have an outcome, and start it again."""
    fault = proxy.faults.on(Api.PRODUCE).where(topic=topic).reply().drop().forever()
    before = len(failures) + ledger.acked
    row = send(producer, topic, ledger, failures, row)
    fault.wait(1, timeout=WAIT_S)
    cluster.kill_broker(1) if kill else cluster.stop_broker(1)
    fault.remove()
    until(lambda: ledger.acked + ledger.failed == before + ROWS, "outcomes", timeout_s=WAIT_S)
    cluster.start_broker(1)
    return row
