"""Offsets that expire, and groups that expire with them: the same steps on Apache Kafka and the stub, with brokers that check often."""

from __future__ import annotations

import pytest

from fencepost.broker_stub import BrokerStub
from tests.conformance.fixtures import ClusterFactory
from tests.conformance.group_member import subscription
from tests.conformance.targets import KafkaTarget, StubTarget
from tests.conformance.world import Target, World
from tests.once import once_is_enough

pytestmark = [pytest.mark.timeout(300), once_is_enough("asks Kafka itself")]

CONFIG = {"offsets.retention.check.interval.ms": 100}


def tell(target: Target) -> dict[str, str]:
    w = World(target)
    try:
        _tell(w)
        return w.notes
    finally:
        w.close()


def _tell(w: World) -> None:
    stays, goes = w.topic(), w.topic()

    nobody = w.group()
    w.commit(nobody, {stays: {0: 1}}, label="nobody commits")
    w.commit(nobody, {goes: {0: 2}}, version=2, retention_ms=1, label="nobody commits what expires")
    w.until_uncommitted(nobody, goes)
    w.committed(nobody, None, label="nobody has")
    w.records_of(nobody, label="nobody")

    alone = w.group()
    w.commit(alone, {goes: {0: 2}}, version=2, retention_ms=1, label="alone commits what expires")
    w.until_uncommitted(alone, goes)
    w.describe_groups(alone, label="alone is gone")
    w.records_of(alone, label="alone")

    members = w.group()
    w.commit(members, {stays: {0: 1}}, label="so that the group is not found without offsets")
    member = w.member(members)
    member.invite()
    member.send_join(protocols=[("range", subscription(stays.name))])
    assert member.receive_join().error_code == 0
    assert member.sync({member.id: b"all"}).error_code == 0
    w.commit(members, {stays: {0: 3}, goes: {0: 4}}, member=member, version=2, retention_ms=1, label="a member commits what expires")
    w.until_uncommitted(members, goes)
    w.committed(members, None, label="the members have what they read")
    member.leave(label="the member leaves")
    w.until_uncommitted(members, stays)
    w.describe_groups(members, label="the members' group is gone")
    w.records_of(members, label="members")

    waiting, txn = w.group(), w.begun()
    w.commit(waiting, {stays: {0: 1}}, label="before the transaction")
    w.commit_in_txn(txn, waiting, {stays: {0: 5}}, version=5, label="in a transaction")
    w.commit(waiting, {stays: {0: 6}, goes: {0: 7}}, version=2, retention_ms=1, label="beside it, what expires")
    w.until_uncommitted(waiting, goes)
    w.committed(waiting, None, label="about which the transaction decides")
    w.end(txn, commit=False, label="abort")
    w.until_uncommitted(waiting, stays)
    w.records_of(waiting, label="waiting")


def test_offsets_and_groups_expire_as_on_kafka(kafka_cluster: ClusterFactory) -> None:
    """The stub ends with the same offsets and the same records as Kafka.

    The offsets have no reader, a time from the client, a subscribed member, or are in an open transaction. Some groups end without any
    offset.
    """
    on_kafka = tell(KafkaTarget(kafka_cluster(config=CONFIG)))
    with BrokerStub(config=CONFIG) as stub:
        assert tell(StubTarget(stub)) == on_kafka
