"""Every address of a real Kafka changes behind its bootstrap name while records are in flight."""

from __future__ import annotations

import secrets

import pytest

from fencepost.broker_stub import FaultProxy
from fencepost.producer import DeliveryUnknown, Persisted, Producer
from fencepost.producer.wire.codes import Api, ErrorCode
from tests.conformance.fixtures import ClusterFactory
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin, read_topic
from tests.names import names

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60.0
ROWS = 300


def test_every_address_changes(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies are held back after the append. Then every known address is dead, and the name leads to others.

    Each record is in the log once, in order, and none fails.
    """
    topic = f"moved-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(topic, partitions=1)
    addresses = ["127.0.0.2"]
    names(monkeypatch, kafka=addresses)
    with FaultProxy(kafka.bootstrap, host="127.0.0.2") as old:
        port = next(iter(old.addresses.values()))[1]
        with (
            FaultProxy(kafka.bootstrap, host="127.0.0.3", port=port) as new,
            Producer(bootstrap_servers=f"kafka:{port}", batch_size=0, linger_ms=0) as producer,
        ):
            producer.send(topic, b"first").result(WAIT_S)
            held = old.faults.on(Api.PRODUCE).after_append().forever().hold()
            futures = [producer.send(topic, b"%04d" % row) for row in range(ROWS)]
            held.wait(1, WAIT_S)
            addresses[:] = ["127.0.0.3"]
            old.close()
            for future in futures:
                assert future.exception(WAIT_S) is None
            assert new.stats()["connections"] > 0
    found = [message.value() for message in read_topic(kafka.bootstrap, topic)]
    assert found == [b"first", *(b"%04d" % row for row in range(ROWS))]


def test_a_broker_may_send_the_producer_back(kafka: KafkaCluster) -> None:
    """A broker answers Metadata with REBOOTSTRAP_REQUIRED while the reply to a Produce is held back. No released broker does that by
    itself.

    The producer closes every connection, and the broker recognises what is sent again.
    """
    topic = f"sent-back-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(topic, partitions=1)
    with (
        FaultProxy(kafka.bootstrap) as proxy,
        Producer(bootstrap_servers=proxy.bootstrap, batch_size=0, linger_ms=0, metadata_max_age_ms=200) as producer,
    ):
        producer.send(topic, b"first").result(WAIT_S)
        held = proxy.faults.on(Api.PRODUCE).after_append().hold()
        sent_back = proxy.faults.on(Api.METADATA).before().error(ErrorCode.REBOOTSTRAP_REQUIRED)
        futures = [producer.send(topic, b"%d" % row) for row in range(5)]
        held.wait(1, WAIT_S)
        sent_back.wait(1, WAIT_S)
        for future in futures:
            assert future.exception(WAIT_S) is None
    found = [message.value() for message in read_topic(kafka.bootstrap, topic)]
    assert found == [b"first", *(b"%d" % row for row in range(5))]


def test_another_cluster_behind_the_name(kafka: KafkaCluster, kafka_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name leads to another Kafka. The record whose reply was lost fails with MAYBE, and is in the first cluster only.

    Later records are in the second cluster only, under a new producer id.
    """
    topic = f"emigrated-{secrets.token_hex(4)}"
    second = kafka_cluster(brokers=1)
    for cluster in (kafka, second):
        Admin(cluster.bootstrap).create(topic, partitions=1)
    addresses = ["127.0.0.2"]
    names(monkeypatch, kafka=addresses)
    with FaultProxy(kafka.bootstrap, host="127.0.0.2") as old:
        port = next(iter(old.addresses.values()))[1]
        with (
            FaultProxy(second.bootstrap, host="127.0.0.3", port=port),
            Producer(bootstrap_servers=f"kafka:{port}", batch_size=0, linger_ms=0) as producer,
        ):
            producer.send(topic, b"first").result(WAIT_S)
            held = old.faults.on(Api.PRODUCE).after_append().forever().hold()
            doubtful = producer.send(topic, b"doubtful")
            held.wait(1, WAIT_S)
            addresses[:] = ["127.0.0.3"]
            old.close()
            failure = doubtful.exception(WAIT_S)
            assert isinstance(failure, DeliveryUnknown)
            assert failure.persisted is Persisted.MAYBE
            assert producer.send(topic, b"later").result(WAIT_S).offset == 0
    assert [message.value() for message in read_topic(kafka.bootstrap, topic)] == [b"first", b"doubtful"]
    assert [message.value() for message in read_topic(second.bootstrap, topic)] == [b"later"]
