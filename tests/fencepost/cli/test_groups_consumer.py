"""`fencepost groups describe` with a group of the consumer protocol: its members, and where they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost import Producer
from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.fencepost.cli.group_stub import commit, groups, member
from tests.waiting import until

NEWER = {"group.protocol": "consumer"}
OFTEN = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    """Two members of "newer" share the four partitions of "t". Three of the ten records of partition 0 are committed."""
    with BrokerStub(config=OFTEN) as running:
        running.create_topic("t", partitions=4)
        with Producer(bootstrap_servers=running.bootstrap) as producer:
            for _ in range(10):
                producer.send("t", b"x", partition=0)
        commit(running, "newer", {("t", 0): 3})
        with member(running, "newer", "shop", **NEWER), member(running, "newer", "desk", **NEWER, **{"group.instance.id": "two"}):
            until(lambda: is_settled(running), "both members have two partitions", timeout_s=30)
            yield running


def is_settled(stub: BrokerStub) -> bool:
    (found,) = groups(stub, "describe", "newer", "--json").objects
    return found["state"] == "Stable" and [len(each["partitions"]) for each in found["members"]] == [2, 2]


def test_its_members(stub: BrokerStub) -> None:
    """Each with its client, its subscription and its partitions, and how far behind it is."""
    (found,) = groups(stub, "describe", "newer", "--json").objects
    members = found.pop("members")
    assert found == {
        "group": "newer",
        "state": "Stable",
        "type": "consumer",
        "protocol": "consumer",
        "assignor": "uniform",
        "coordinator": 1,
    }
    assert [(each["client_id"], each["instance_id"], each["host"], each["subscribed"], each["pattern"]) for each in members] == [
        ("shop", None, "127.0.0.1", ["t"], None),
        ("desk", "two", "127.0.0.1", ["t"], None),
    ]
    places = sorted((place for each in members for place in each["partitions"]), key=lambda place: place["partition"])
    assert [place["partition"] for place in places] == [0, 1, 2, 3]
    assert places[0] == {"topic": "t", "partition": 0, "offset": 3, "end": 10, "lag": 7}
    rows = [line.split() for line in groups(stub, "describe", "newer").out.splitlines() if "127.0.0.1" in line]
    assert [row[1:5] for row in rows] == 2 * [["-", "shop", "127.0.0.1", "t"]] + 2 * [["two", "desk", "127.0.0.1", "t"]]


def test_a_pattern(stub: BrokerStub) -> None:
    """It stands in the place of the topics' names."""
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "by-pattern", "group.protocol": "consumer"})
    consumer.subscribe(["^t.*"])
    try:
        until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 4, "the consumer has the topic", timeout_s=30)
        (found,) = groups(stub, "describe", "by-pattern", "--json").objects
    finally:
        consumer.close()
    assert [(each["subscribed"], each["pattern"]) for each in found["members"]] == [([], "(^t.*)")]  # as librdkafka sends it


def test_no_permission(stub: BrokerStub) -> None:
    """It is said at once, with the group's name."""
    stub.faults.on(Api.CONSUMER_GROUP_DESCRIBE).error(ErrorCode.GROUP_AUTHORIZATION_FAILED).times(1)
    ran = groups(stub, "describe", "newer")
    assert ran.code == 2
    assert "group 'newer': CONSUMER_GROUP_DESCRIBE was refused with GROUP_AUTHORIZATION_FAILED" in ran.err
