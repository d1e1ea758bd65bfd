"""The inspector of a proxy in front of Apache Kafka: what brokers tell any client is enough for the page."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from fencepost import Api, FaultProxy, FencepostError, Producer, TransactionalProducer
from tests.conformance.fixtures import kafka
from tests.conformance.kafka import KafkaCluster
from tests.waiting import until

__all__ = ["kafka"]
pytestmark = pytest.mark.timeout(180)
WAIT_S = 30.0


def moment(url: str) -> dict[str, Any]:
    with urlopen(f"{url}moment", timeout=WAIT_S) as answer:
        return dict(json.load(answer))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_real_cluster_is_shown(kafka: KafkaCluster, protocol: str) -> None:
    """Brokers, lanes with committed, aborted and open transactions, the LSO and what holds it back, a group with its lag, and a lost reply
    with the batch that came again."""
    topic, group, name = (f"{kind}-{uuid4().hex[:8]}" for kind in ("inspected", "readers", "txn"))
    with FaultProxy(kafka.bootstrap) as proxy:
        url = proxy.ui().url
        with Producer(bootstrap_servers=proxy.bootstrap, request_timeout_ms=1000, linger_ms=0, client_id="shop") as producer:
            producer.send(topic, b"first").result(WAIT_S)
            proxy.faults.on(Api.PRODUCE).where(topic=topic).drop_reply()
            producer.send(topic, b"second").result(WAIT_S)
        consumer = Consumer(
            {"bootstrap.servers": proxy.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
            | {"group.protocol": protocol}
        )
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.5) is not None, "a record", timeout_s=WAIT_S)
        consumer.commit(asynchronous=False)
        with TransactionalProducer(bootstrap_servers=proxy.bootstrap, transactional_id=name, linger_ms=0) as writer:
            with writer.transaction(timeout=WAIT_S) as tx:
                tx.send(topic, b"committed").result(WAIT_S)
            tx = writer.begin(timeout=WAIT_S)
            tx.send(topic, b"aborted").result(WAIT_S)
            tx.abort(timeout=WAIT_S)
            tx = writer.begin(timeout=WAIT_S)
            tx.send(topic, b"open").result(WAIT_S)

            def parts(seen: dict[str, Any]) -> list[dict[str, Any]]:
                return [part for each in seen["snapshot"]["topics"] if each["name"] == topic for part in each["partitions"] if part["end"]]

            def is_open() -> bool:
                return any(bar["state"] == "open" for part in parts(moment(url)) for bar in part["bars"])

            until(is_open, "the open bar", timeout_s=WAIT_S)
            seen = moment(url)
            tx.abort(timeout=WAIT_S)
        with suppress(FencepostError):
            consumer.close()
    assert "problem" not in seen["snapshot"]
    assert all(each["state"] == "up" for each in seen["snapshot"]["brokers"])
    internal = {each["name"]: each["partitions"] for each in seen["snapshot"]["topics"] if each["internal"]}
    assert {len(internal[each]) > 0 for each in ("__consumer_offsets", "__transaction_state")} == {True}
    assert all(part["leader"] >= 0 and part["end"] > 0 and not part["batches"] for parts in internal.values() for part in parts)
    assert [each["outcome"] for each in seen["exchanges"] if "MEMBER_ID_REQUIRED" in each["codes"]] == ["ok"] * (protocol == "classic")
    bars = [bar for part in parts(seen) for bar in part["bars"]]
    assert sorted(bar["state"] for bar in bars) == ["aborted", "committed", "open"]
    (held,) = [part["held"] for part in parts(seen) if part["held"]]
    assert (held["txn"], held["state"]) == (name, "Ongoing")
    (readers,) = [each for each in seen["snapshot"]["groups"] if each["id"] == group]
    assert readers["type"] == protocol
    assert (readers["state"], [each["topic"] for each in readers["offsets"]]) == ("Stable", [topic])
    assert readers["members"][0]["partitions"]
    assert [each["kind"] for each in seen["findings"] if each["topic"] == topic and each["kind"] == "lost reply"] == ["lost reply"]
