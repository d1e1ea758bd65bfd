"""Retention on the cluster's clock and on demand, as clients see it."""

from __future__ import annotations

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.producer import Producer
from tests.broker_stub.stub_calls import Inside, numbered

MEBIBYTE = 1 << 20


def test_old_segments_go_at_the_next_check() -> None:
    """Every log.retention.check.interval.ms, the first time after 30 seconds, as Kafka's log manager does."""
    world = Inside(config={"log.retention.check.interval.ms": 60_000})
    world.topic(retention_ms="1000")
    for sequence in range(3):
        world.produce(numbered(7, sequence))
    found = world.cluster.find("t", 0)
    assert found is not None
    world.pass_time(29_999)
    assert found.log.log_start_offset == 0
    world.pass_time(1)
    assert (found.log.log_start_offset, found.log.size) == (3, 0)
    world.produce(numbered(7, 3))
    world.pass_time(59_999)
    assert found.log.size > 0
    world.pass_time(1)
    assert (found.log.log_start_offset, found.log.size) == (4, 0)
    assert world.produce(numbered(7, 4)).base_offset == 4


def test_a_topic_that_changes_its_retention() -> None:
    """The next check obeys the new value."""
    world = Inside()
    world.topic(retention_ms="-1")
    topic = world.topic_named()
    world.produce(numbered(7, 0))
    world.pass_time(10**10)
    assert topic.partitions[0].log.size > 0
    world.cluster.configure(topic, {"retention.ms": "1"})
    world.pass_time(300_000)
    assert topic.partitions[0].log.size == 0


def test_on_demand() -> None:
    """`clean_logs` does it at once, and clients read on from the first offset that is left."""
    with BrokerStub(clock=VirtualClock()) as stub:
        stub.create_topic("t", config={"retention.bytes": MEBIBYTE, "segment.bytes": MEBIBYTE})
        with Producer(bootstrap_servers=stub.bootstrap, acks="all") as producer:
            for _ in range(40):
                producer.send("t", bytes(100_000))
            producer.flush()
        assert stub.clean_logs() > 0
        records = stub.records("t", 0)
        assert [record.offset for record in records] == list(range(records[0].offset, 40))
        assert MEBIBYTE <= sum(len(record.value or b"") for record in records) < 3 * MEBIBYTE
        assert stub.clean_logs() == 0


def test_segments_go_while_clients_only_write() -> None:
    """Nothing else has a deadline then: the requests themselves let the broker see that the check is due."""
    clock = VirtualClock()
    with BrokerStub(clock=clock) as stub, Producer(bootstrap_servers=stub.bootstrap) as producer:
        stub.create_topic("t", config={"retention.bytes": MEBIBYTE, "segment.bytes": MEBIBYTE})
        for _ in range(3):
            producer.send("t", bytes(900_000))
            producer.flush()
        clock._now_ms += 30_000  # without `advance`, which looks at the timers
        producer.send("t", bytes(900_000))
        producer.flush()
        log = stub.cluster.topics.named("t").partitions[0].log  # type: ignore[union-attr]
        assert log.log_start_offset > 0
