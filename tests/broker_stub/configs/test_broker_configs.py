"""What a broker config changes, beside what the stub does without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.log import PartitionLog
from fencepost.broker_stub.transactions.states import State
from fencepost.producer import wire
from fencepost.producer.wire.codes import Api, ErrorCode
from tests.broker_stub.groups.group_calls import Groups
from tests.broker_stub.groups.offsets_calls import code_of, offset_commit, partition_of
from tests.broker_stub.replication.test_replication import cut_off as cut_followers_off
from tests.broker_stub.replication.test_replication import followers
from tests.broker_stub.stub_calls import Inside, Talker, batch, numbered, produce_request
from tests.broker_stub.transactions.test_coordinators import alone, cut_off, mended
from tests.broker_stub.transactions.txn_calls import Transactions

Config = dict[str, Any]
DAY_MS = 86_400_000
ONE_REPLICA = {"transaction.state.log.replication.factor": "1"}


def joining(session_ms: int) -> Callable[[Config], int]:
    """The code for a member with that session timeout."""

    def ask(config: Config) -> int:
        world = Groups(config=config)
        joining = world.member("a").join(session_ms=session_ms)
        world.now()
        return int(joining.answer.error_code)

    return ask


def internal_topic(topic: str, show: Callable[[Any], int]) -> Callable[[Config], int]:
    return lambda config: show(Inside(brokers=3, config=config).cluster.internal_topic(topic))


def replicas_of_a_new_topic(config: Config) -> int:
    with BrokerStub(brokers=3, config=config) as stub:
        stub.create_topic("t")
        return len(stub.cluster.topics.named("t").partitions[0].replicas)  # type: ignore[union-attr]


def commit_with_metadata(config: Config) -> int:
    world = Groups(config=config)
    world.topic()
    return code_of(world.start(offset_commit(1, metadata="m" * 20), 9))


def commit_that_waits(config: Config) -> bool:
    """Whether it still waits after a second, while a follower lacks it."""
    world = Groups(brokers=3, config=config)
    world.topic()
    partition = partition_of(world)
    world.cluster.broker_links.sever(partition.leader, next(node for node in partition.replicas if node != partition.leader))
    waiting = world.start(offset_commit(7), 9)
    world.pass_time(1_000)
    return waiting.waits


def offset_after(*pauses_ms: int) -> Callable[[Config], int]:
    """A committed offset after these pauses, each followed by a question."""

    def ask(config: Config) -> int:
        world = Groups(config=config)
        world.topic()
        assert world.commit("t", 7) == ErrorCode.NONE
        found = 7
        for pause_ms in pauses_ms:
            world.pass_time(pause_ms)
            found = world.committed("t")
        return found

    return ask


def sequence_after_an_hour(config: Config) -> int:
    """The code for a sequence that does not follow, after an hour: an expired producer may start anywhere."""
    world = Inside(config=config)
    world.topic()
    world.produce(numbered(7, 0))
    world.pass_time(3_600_000)
    return int(world.produce(numbered(7, 50)).error_code)


def tenths_of_a_minute_throttled(config: Config) -> int:
    """How long a large record is throttled under a quota of 1,000 bytes a second."""
    with BrokerStub(clock=VirtualClock(), config=config) as stub, Talker(stub) as talker:
        stub.create_topic("t")
        stub.cluster.quotas.change(frozenset({("client-id", "talker")}), {"producer_byte_rate": 1000})
        answer: Any = talker.ask(produce_request("t", batch(bytes(20_000))), 12)
        return int(answer.throttle_time_ms // 6_000)


def in_sync_after_five_seconds(config: Config) -> int:
    world = Inside(brokers=3, config=config)
    world.topic(replicas=3)
    partition = world.cluster.find("t", 0)
    assert partition is not None
    cut_followers_off(world, partition, *followers(partition))
    world.produce(batch(b"x"), acks=1)
    world.pass_time(5_000)
    return len(partition.isr)


def fetched(ms: int, *, look: Callable[[PartitionLog], int], fault: str = "") -> Callable[[Config], int]:
    """What a follower has of three records that long after the last one, with a fault in its first fetch after them."""

    def ask(config: Config) -> int:
        world = Inside(brokers=2, config=config)
        world.topic(replicas=2)
        world.cluster.tick()
        (follower,) = followers(world.topic_named().partitions[0])
        if fault:
            getattr(world.cluster.faults.on(wire.Api.FETCH).where(client_id=f"broker-{follower}-fetcher-0").times(1), fault)()
        for _ in range(3):
            world.produce(batch(b"x" * 1000), acks=1)
            world.cluster.tick()
        world.pass_time(ms)
        return look(world.topic_named().partitions[0].logs[follower])

    return ask


def fetches_of_a_copy(config: Config) -> int:
    """How many fetches a new replica needs for a hundred records of a hundred bytes in two partitions, with what comes before and after."""
    world = Inside(brokers=2, config=config)
    world.topic(replicas=2, partitions=2)
    world.cluster.tick()
    world.cluster.stop_broker(2)
    for number in range(100):
        world.produce(batch(b"x" * 100), partition=number % 2)
    fault = world.cluster.faults.on(wire.Api.FETCH).where(client_id="broker-2-fetcher-0").forever().delay(0)
    world.cluster.start_broker(2)
    world.pass_time(0)
    return fault.hits


def high_watermark(log: PartitionLog) -> int:
    return log.high_watermark


def end_offset(log: PartitionLog) -> int:
    return log.log_end_offset


def leader_after(ms: int) -> Callable[[Config], bool]:
    """Whether a leaderless topic has a leader that long after it allows unclean elections."""

    def ask(config: Config) -> bool:
        world = Inside(brokers=2, config=config)
        world.topic(replicas=2)
        partition = world.cluster.find("t", 0)
        assert partition is not None
        first = partition.leader
        world.cluster.stop_broker(3 - first)
        assert world.produce(batch(b"one")).error_code == 0
        world.cluster.stop_broker(first)
        world.cluster.start_broker(3 - first)
        world.cluster.configure(world.topic_named(), {"unclean.leader.election.enable": "true"})
        world.pass_time(ms)
        return partition.leader > 0

    return ask


def timed_out_transaction(config: Config) -> bool:
    """Whether a transaction is aborted two seconds after its timeout of one."""
    world = Transactions(config=config)
    world.given(timeout_ms=1_000)
    world.write(0)
    world.pass_time(3_000)
    return world.state is not State.ONGOING


def long_timeout(config: Config) -> int:
    return int(Transactions(config=config).init(timeout_ms=2_000).answer[0])


def forgotten_id(config: Config) -> bool:
    """Whether an id that expired is forgotten five seconds later: then its next producer has epoch 0."""
    world = Transactions(config={"transactional.id.expiration.ms": 1_000, **config})
    world.given()
    world.pass_time(5_000)
    world.pass_time(1)
    return int(world.init().answer[2]) == 0


def unverified_record(config: Config) -> int:
    """The code for a record of a transaction that its coordinator does not know (transaction version 1)."""
    world = Transactions(config=config, transaction_version=1)
    world.given()
    return int(world.write(0, version=11).answer)


def ended_without_a_marker(config: Config) -> tuple[Transactions, int, int]:
    """A transaction has ended, and one partition lacks its marker: that one's leader, and another partition."""
    world = Transactions(brokers=2, partitions=2, replicas=1, config={**ONE_REPLICA, **config})
    world.given()
    late, leader = alone(world)
    assert world.write(0, partition=late).answer == ErrorCode.NONE
    cut_off(world, leader)
    _, pid, epoch = world.end().answer
    world.identity = type(world.identity)(pid, epoch)
    return world, leader, 1 - late


def waits_for_the_marker(config: Config) -> bool:
    """Whether a record of the next transaction still waits after 50 ms."""
    world, _, other = ended_without_a_marker(config)
    waiting = world.write(0, partition=other)
    world.pass_time(50)
    return waiting.waits


def waits_after_the_marker(config: Config) -> bool:
    """Whether it still waits after 100 ms, when the marker can be written."""
    world, leader, other = ended_without_a_marker({"add.partitions.to.txn.retry.backoff.max.ms": 1_000, **config})
    mended(world, leader)
    waiting = world.write(0, partition=other)
    assert waiting.waits
    for _ in range(5):
        world.pass_time(20)
    return waiting.waits


def highest_version(config: Config) -> int:
    """Of InitProducerId, that brokers offer."""
    world = Inside(config=config)
    offered: Any = world.ask(wire.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3, node=1)
    return next(int(each.max_version) for each in offered.api_keys if each.api_key == Api.INIT_PRODUCER_ID)


def fenced_after_five_seconds(config: Config) -> bool:
    """Whether a broker that the controller does not hear from is fenced by then."""
    world = Inside(brokers=2, config=config)
    world.cluster.broker_links.sever(1, 0)
    world.pass_time(5_000)
    return world.cluster.brokers[1].fenced


def closed_when_idle(config: Config) -> bool:
    with BrokerStub(clock=VirtualClock(), config=config) as stub, Talker(stub) as talker:
        talker.metadata("t")
        stub.advance(60_000)
        return talker.is_closed(within=0.5)


def refused_without_acls(config: Config) -> int:
    with BrokerStub(config=config) as stub, Talker(stub) as anonymous:
        stub.create_topic("t")
        return int(anonymous.produce("t", batch()).error_code)


CASES: dict[str, tuple[Any, Callable[[Config], Any], Any, Any]] = {
    "add.partitions.to.txn.retry.backoff.ms": (200, waits_after_the_marker, False, True),
    "add.partitions.to.txn.retry.backoff.max.ms": (10, waits_for_the_marker, True, False),
    "authorizer.class.name": (
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        refused_without_acls,
        ErrorCode.NONE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ),
    "broker.session.timeout.ms": (1_000, fenced_after_five_seconds, False, True),
    "connections.max.idle.ms": (30_000, closed_when_idle, False, True),
    "default.replication.factor": (1, replicas_of_a_new_topic, 3, 1),
    "group.max.session.timeout.ms": (10_000, joining(20_000), ErrorCode.NONE, ErrorCode.INVALID_SESSION_TIMEOUT),
    "group.min.session.timeout.ms": (30_000, joining(20_000), ErrorCode.NONE, ErrorCode.INVALID_SESSION_TIMEOUT),
    "offset.metadata.max.bytes": (10, commit_with_metadata, ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    "offsets.commit.timeout.ms": (500, commit_that_waits, True, False),
    "offsets.retention.check.interval.ms": (1, offset_after(7 * DAY_MS - 60_000, 120_000), 7, -1),
    "offsets.retention.minutes": (1, offset_after(DAY_MS, DAY_MS), 7, -1),
    "offsets.topic.replication.factor": (
        1,
        internal_topic("__consumer_offsets", lambda topic: len(topic.partitions[0].replicas)),
        3,
        1,
    ),
    "quota.window.num": (3, tenths_of_a_minute_throttled, 1, 3),
    "quota.window.size.seconds": (5, tenths_of_a_minute_throttled, 1, 0),
    "producer.id.expiration.ms": (1_000, sequence_after_an_hour, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.NONE),
    "replica.fetch.backoff.ms": (10, fetched(100, look=end_offset, fault="disconnect"), 1, 3),
    "replica.fetch.max.bytes": (1_000, fetches_of_a_copy, 2, 11),
    "replica.fetch.min.bytes": (2_000, fetched(0, look=end_offset), 3, 2),
    "replica.fetch.response.max.bytes": (1_000, fetches_of_a_copy, 2, 11),
    "replica.fetch.wait.max.ms": (10, fetched(100, look=high_watermark), 2, 3),
    "replica.socket.timeout.ms": (0, fetched(1_000, look=end_offset, fault="drop"), 1, 3),
    "replica.lag.time.max.ms": (1_000, in_sync_after_five_seconds, 3, 1),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (100, timed_out_transaction, False, True),
    "transaction.max.timeout.ms": (1_000, long_timeout, ErrorCode.NONE, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    "transaction.partition.verification.enable": ("false", unverified_record, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (100, forgotten_id, False, True),
    "transaction.state.log.num.partitions": (3, internal_topic("__transaction_state", lambda topic: len(topic.partitions)), 50, 3),
    "transaction.state.log.replication.factor": (
        1,
        internal_topic("__transaction_state", lambda topic: len(topic.partitions[0].replicas)),
        3,
        1,
    ),
    "unclean.leader.election.interval.ms": (10, leader_after(100), False, True),
    "unstable.api.versions.enable": ("true", highest_version, 5, 6),
}


@pytest.mark.parametrize("name", CASES)
def test_a_broker_config_has_its_effect(name: str) -> None:
    """Each case looks at the same thing without the config and with it."""
    value, look, by_default, then = CASES[name]
    assert (look({}), look({name: value})) == (by_default, then)
