"""Keys go to the partitions that librdkafka's partitioners choose: both producers write the same keys, and the log says where they are."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer as TheirProducer

from fencepost import BrokerStub
from fencepost.compat.confluent import Producer
from fencepost.compat.confluent.partitioners import PARTITIONERS
from tests.gil import needs_gil

pytestmark = needs_gil

KEYS: list[bytes | None] = [None, b"", b"a", b"key", b"\x00", b"\xff" * 21, *(b"key-%d" % number for number in range(60))]
PARTITIONS = 7
ANY: dict[str, set[bytes | None]] = {
    "random": set(KEYS),
    "consistent_random": {None, b""},
    "murmur2_random": {None},
    "fnv1a_random": {None},
}
"""For each partitioner the keys that go to any partition."""


def placed(producer: Any, broker: BrokerStub, topic: str) -> dict[bytes, int]:
    """Write every key; the partition of each, by value."""
    broker.create_topic(topic, partitions=PARTITIONS)
    for key in KEYS:
        producer.produce(topic, value=repr(key), key=key)
    assert producer.flush(20) == 0
    return {record.value or b"": partition for partition in range(PARTITIONS) for record in broker.records(topic, partition)}


@pytest.mark.parametrize("name", PARTITIONERS)
def test_the_same_partitions(name: str) -> None:
    """For every key that the partitioner does not place at random, both choose the same partition."""
    with BrokerStub() as broker:
        properties = {"bootstrap.servers": broker.bootstrap, "partitioner": name}
        theirs = placed(TheirProducer(properties), broker, "theirs")
        with Producer(properties) as producer:
            ours = placed(producer, broker, "ours")
    assert len(theirs) == len(ours) == len(KEYS)
    fixed = [repr(key).encode() for key in KEYS if key not in ANY.get(name, set())]
    assert {key: ours[key] for key in fixed} == {key: theirs[key] for key in fixed}
    if name == "random":
        assert len(set(ours.values())) > 1
