"""Offsets in transactions on a real Kafka, in both transaction versions, with groups of confluent-kafka's and kafka-python's consumers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest

from fencepost.broker_stub import FaultProxy
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.coordinator.state_machine import State
from fencepost.txn.errors import MustAbort
from fencepost.txn.group_metadata import GroupMetadata, read_group
from tests.conformance.txn_site import PARTITIONS, WAIT_S, Site, older, site
from tests.drawn import drawn
from tests.waiting import until

__all__ = ["older", "site"]

pytestmark = pytest.mark.timeout(300)


@contextlib.contextmanager
def member(site: Site, **settings: Any) -> Iterator[confluent_kafka.Consumer]:
    """A consumer that has joined the group and has every partition."""
    given: dict[str, Any] = {
        "bootstrap.servers": site.bootstrap,
        "group.id": f"group-{site.name}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 50,
        **settings,
    }
    consumer = confluent_kafka.Consumer(given)
    consumer.subscribe([site.topic])
    try:
        until(lambda: join(consumer), "the consumer has its partitions", timeout_s=WAIT_S)
        yield consumer
    finally:
        consumer.close()


def join(consumer: confluent_kafka.Consumer) -> bool:
    """Join the group, and take no record."""
    assignment = consumer.assignment()
    if len(assignment) < PARTITIONS:
        assert consumer.poll(0.05) is None, "a record came before the consumer was asked for one"
    return len(assignment) == PARTITIONS


def group_at(site: Site) -> list[int]:
    """The group's committed offsets of the topic's partitions; -1001 if none is committed."""
    return site.group(f"group-{site.name}")


NOWHERE = -1001


def test_offsets_count_with_the_commit_and_not_with_an_abort(site: Site) -> None:
    """A consumer's offsets are committed with the results, also without records. An abort leaves the group's offsets unchanged."""
    with site.producer() as producer, member(site) as consumer:
        with producer.transaction(WAIT_S) as tx:
            for partition in range(PARTITIONS):
                tx.send(site.topic, b"%d" % partition, partition=partition)
        assert group_at(site) == [NOWHERE] * PARTITIONS
        read = 0
        while read < 2:
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None
            read += 1
        assigned = consumer.assignment()
        positions = sorted(position.offset for position in consumer.position(assigned))
        with pytest.raises(ZeroDivisionError), producer.transaction(WAIT_S) as tx:
            tx.send_offsets(consumer.position(assigned), consumer.consumer_group_metadata())
            raise ZeroDivisionError
        assert group_at(site) == [NOWHERE] * PARTITIONS
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"made of it", partition=0)
            tx.send_offsets(consumer.position(assigned), consumer.consumer_group_metadata())
        assert sorted(group_at(site)) == positions
        with producer.transaction(WAIT_S) as tx:
            tx.send_offsets({(site.topic, 2): 1}, consumer.consumer_group_metadata())
            tx.send_offsets({(site.topic, 2): 7, (site.topic, 0): 9}, consumer.consumer_group_metadata())
        assert [group_at(site)[partition] for partition in (0, 2)] == [9, 7]
    assert positions[0] == NOWHERE, "one partition has not been read"


def test_a_former_member_commits_no_offsets(site: Site) -> None:
    """A consumer that has left, and one of another generation, commit no offsets. The transaction must be aborted, and the producer
    continues.

    The group keeps the offsets that its members committed.
    """
    with site.producer() as producer:
        with member(site) as zombie:
            put_out = zombie.consumer_group_metadata()
        with member(site) as consumer:
            mine = read_group(consumer.consumer_group_metadata())
            for stale, code in (
                (put_out, ErrorCode.UNKNOWN_MEMBER_ID),
                (GroupMetadata(mine.group_id, mine.generation_id - 1, mine.member_id), ErrorCode.ILLEGAL_GENERATION),
                (GroupMetadata(f"no-{mine.group_id}", 1, "nobody"), ErrorCode.ILLEGAL_GENERATION),
            ):
                tx = producer.begin(WAIT_S)
                tx.send(site.topic, b"the zombie's", partition=0)
                with pytest.raises(MustAbort, match=code.name) as refused:
                    tx.send_offsets({(site.topic, 0): 5}, stale)
                assert refused.value.code == code
                with pytest.raises(MustAbort):
                    tx.commit(WAIT_S)
                tx.abort(WAIT_S)
            with producer.transaction(WAIT_S) as tx:
                tx.send_offsets({(site.topic, 0): 3}, mine)
    assert group_at(site)[0] == 3
    assert site.committed() == []


@drawn(2)
def test_a_member_removed_while_processing_commits_no_offsets(site: Site) -> None:
    """Consumers that have not polled for too long lose their membership. confluent-kafka's keeps its generation, kafka-python's has none
    left.

    They cannot commit offsets of partitions that another member has now, and consumers see none of their records.
    """
    patience = {"session.timeout.ms": 6000, "max.poll.interval.ms": 6000, "heartbeat.interval.ms": 200}
    theirs = kafka_python.KafkaConsumer(
        site.topic,
        bootstrap_servers=site.bootstrap,
        group_id=f"group-{site.name}-python",
        **{name.replace(".", "_"): value for name, value in patience.items()},
    )
    with site.producer() as producer, member(site, **patience) as consumer, contextlib.closing(theirs):
        until(lambda: theirs.poll(2000) or theirs.assignment(), "kafka-python's has its partitions, too", timeout_s=WAIT_S)
        until(lambda: not theirs.group_metadata().member_id, "the group has put kafka-python's out", timeout_s=WAIT_S)
        until(lambda: not read_group(consumer.consumer_group_metadata()).member_id, "and confluent-kafka's", timeout_s=WAIT_S)
        for metadata in (theirs.group_metadata(), consumer.consumer_group_metadata()):
            tx = producer.begin(WAIT_S)
            tx.send(site.topic, b"the zombie's", partition=0)
            with pytest.raises(MustAbort, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
                tx.send_offsets({(site.topic, 0): 5}, metadata)
            tx.abort(WAIT_S)
    assert group_at(site) == site.group(f"group-{site.name}-python") == [NOWHERE] * PARTITIONS
    assert site.committed() == []


def test_an_instance_that_was_taken_over_is_refused(site: Site) -> None:
    """Of two consumers with one group.instance.id, the older one's offsets are refused."""
    with site.producer() as producer, member(site, **{"group.instance.id": "one"}) as consumer:
        mine = read_group(consumer.consumer_group_metadata())
        assert mine.group_instance_id == "one"
        tx = producer.begin(WAIT_S)
        with pytest.raises(MustAbort, match="FENCED_INSTANCE_ID"):
            tx.send_offsets({(site.topic, 0): 5}, GroupMetadata(mine.group_id, mine.generation_id, "another", "one"))
        tx.abort(WAIT_S)
        with producer.transaction(WAIT_S) as tx:
            tx.send_offsets({(site.topic, 0): 5}, mine)
    assert group_at(site)[0] == 5


def test_kafka_pythons_consumer(site: Site) -> None:
    """`send_offsets` accepts its offsets and metadata as they are, and the group's coordinator checks them."""
    consumer = kafka_python.KafkaConsumer(
        site.topic,
        bootstrap_servers=site.bootstrap,
        group_id=f"group-{site.name}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    try:
        with site.producer() as producer:
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"something to find", partition=1)
            # Not a short timeout: the consumer does not recover from one that passes while it joins.
            assert consumer.poll(int(WAIT_S * 1000)), "nothing was found"
            tx = producer.begin(WAIT_S)
            tx.send_offsets(
                {kafka_python.TopicPartition(site.topic, 1): kafka_python.OffsetAndMetadata(4, "theirs", -1)}, consumer.group_metadata()
            )
            tx.commit(WAIT_S)
    finally:
        consumer.close()
    assert group_at(site) == [NOWHERE, 4, NOWHERE]


@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT, Api.END_TXN])
def test_a_lost_reply_of_each_request(site: Site, api: Api) -> None:
    """The broker carries the request out, and the reply is lost. The producer repeats it; the group has the last commit's offsets."""
    group = GroupMetadata(f"group-{site.name}")
    with FaultProxy(site.bootstrap) as proxy, site.producer(proxy.bootstrap) as producer:
        lost = (
            proxy.faults.on(api).where(group=group.group_id).after_append()
            if api is not Api.END_TXN
            else proxy.faults.on(api).after_append()
        )
        rule = lost.times(1).disconnect()
        for turn in range(3):
            with producer.transaction(WAIT_S) as tx:
                tx.send(site.topic, b"%d" % turn, partition=0)
                tx.send_offsets({(site.topic, 0): turn + 1, (site.topic, 1): 10 * turn}, group)
            assert group_at(site) == [turn + 1, 10 * turn, NOWHERE]
        assert rule.hits == (0 if api is Api.ADD_OFFSETS_TO_TXN and producer._manager.version2 else 1)
        assert producer._manager.machine.state in (State.READY, State.RENEWING)
    assert site.committed() == [b"0", b"1", b"2"]
