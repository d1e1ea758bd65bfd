"""Groups that change their protocol while they have members (KIP-848): policies, timers, a coordinator that moves, and stock clients.

The answers word by word are in tests/conformance/cases/group_migration.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.configs.topic_configs import MIGRATIONS
from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
from fencepost.broker_stub.groups.state.embedded_protocol import read_assignment, read_version, write_assignment
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.groups.confluent_reader import Reader, pump
from tests.broker_stub.groups.consumer_calls import ConsumerWorld
from tests.broker_stub.groups.group_calls import REBALANCE_MS, SESSION_MS, Member
from tests.broker_stub.groups.numbered_records import fresh_group, numbered_topic, write
from tests.broker_stub.groups.test_consumer_clients import reader_of
from tests.broker_stub.stub_calls import DEADLINE_S
from tests.conformance.group_member import subscription, subscription_v3

PARTITIONS = 4


def world(policy: str = "bidirectional", **config: str) -> ConsumerWorld:
    found = ConsumerWorld(config={"group.consumer.migration.policy": policy, **config})
    found.topic("t", partitions=PARTITIONS)
    return found


class Classic:
    """A member of the classic protocol that says what it owns."""

    def __init__(self, w: ConsumerWorld, name: str, instance: str | None = None) -> None:
        self.member: Member = w.member(name, instance=instance)
        self.owned: tuple[TopicPartition, ...] = ()

    def join(self) -> int:
        data = subscription_v3(["t"], self.owned, generation=self.member.generation)
        answer = self.member.join(protocols={"range": data}).answer
        if not answer.error_code:
            self.member.heard(answer)
        return int(answer.error_code)

    def sync(self, assigned: bytes = b"") -> int:
        answer = self.member.sync({self.member.id: assigned} if assigned else {}).answer
        self.owned = read_assignment(answer.assignment) if not answer.error_code else self.owned
        return int(answer.error_code)

    def settle(self) -> None:
        """Joins and syncs until it need not."""
        for _ in range(5):
            if self.member.heartbeat() == ErrorCode.NONE:
                return
            assert self.join() == ErrorCode.NONE
            assert self.sync() == ErrorCode.NONE
        raise AssertionError("the member joins for ever")


def alone(w: ConsumerWorld, instance: str | None = None) -> Classic:
    """The only member of a classic group, which owns the topic."""
    classic = Classic(w, "c1", instance)
    assert classic.join() == ErrorCode.NONE
    assert classic.sync(write_assignment({"t": range(PARTITIONS)}, 3)) == ErrorCode.NONE
    return classic


def is_classic(w: ConsumerWorld) -> bool:
    shard = w.services.groups.shard_for("g", w.coordinator())
    assert ("g" in shard.groups.groups) != ("g" in shard.consumers.groups)
    return "g" in shard.groups.groups


@pytest.mark.parametrize("policy", [*MIGRATIONS, "BiDirectional"])
def test_each_policy(policy: str) -> None:
    """What becomes of a classic group when a member of the new protocol joins, of a consumer group when a classic one joins, and when only
    classic members are left."""
    w = world(policy)
    alone(w)
    upgrades = policy.lower() in ("upgrade", "bidirectional")
    assert w.consumer("m1", "t").join().error_code == (ErrorCode.NONE if upgrades else ErrorCode.GROUP_ID_NOT_FOUND)
    assert is_classic(w) is not upgrades
    w = world(policy)
    first = w.joined("m1", "t")
    classic = Classic(w, "c1")
    assert classic.join() == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy == "disabled" else ErrorCode.NONE)
    assert not is_classic(w)
    first.leave()
    if policy != "disabled":
        assert is_classic(w) is (policy.lower() in ("downgrade", "bidirectional"))
        assert classic.member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_no_partition_is_owned_twice() -> None:
    """Classic members and members of the new protocol come and go. No two members own the same partition."""
    w = world()
    old = alone(w)
    first, second = w.joined("m1", "t"), w.joined("m2", "t")
    other = Classic(w, "c2")
    assert other.join() == ErrorCode.NONE
    assert other.sync() == ErrorCode.NONE

    def owned() -> Counter[tuple[str, int]]:
        return Counter([*map(tuple, old.owned), *map(tuple, other.owned), *first.partitions, *second.partitions])  # type: ignore[list-item]  # pairs

    for _ in range(4):
        for classic in (old, other):
            classic.settle()
            assert max(owned().values()) == 1
        for consumer in (first, second):
            consumer.live()
            assert max(owned().values()) == 1
    assert owned() == Counter(dict.fromkeys([("t", index) for index in range(PARTITIONS)], 1))
    assert [len(old.owned), len(other.owned), len(first.partitions), len(second.partitions)] == [1, 1, 1, 1]


@pytest.mark.parametrize("late", ["session", "join", "sync"])
def test_a_classic_member_that_is_late_is_removed(late: str) -> None:
    """It has its session timeout for a heartbeat, and its rebalance timeout to join again and to ask for its assignment."""
    w = world()
    consumer = w.joined("m1", "t")
    classic = Classic(w, "c1")
    assert classic.join() == ErrorCode.NONE
    if late != "sync":
        assert classic.sync() == ErrorCode.NONE
    consumer.live()
    if late == "join":
        classic.settle()
        w.joined("m2", "t")
        assert classic.member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    waits_ms = SESSION_MS if late == "session" else REBALANCE_MS
    for _ in range(2 * waits_ms // SESSION_MS - 1):
        w.pass_time(SESSION_MS // 2)
        if late != "session":
            assert classic.member.heartbeat() != ErrorCode.UNKNOWN_MEMBER_ID
        consumer.live()
    assert classic.member.id in w.consumer_group().members
    w.pass_time(SESSION_MS // 2 + 1)
    assert classic.member.id not in w.consumer_group().members
    assert classic.member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_members_outlive_a_move_of_the_coordinator() -> None:
    """The next coordinator reads them from the log, with their assignors and what they own."""
    w = world(**{"offsets.topic.replication.factor": "1"})
    classic = alone(w)
    consumer = w.joined("m1", "t")
    classic.settle()
    consumer.live()
    before = w.consumer_group().members
    shard = w.services.groups.shard_for("g", w.coordinator())
    shard.leader_epoch = -1  # as if another broker had led meanwhile
    assert w.consumer_group().members == before
    assert w.services.groups.shard_for("g", w.coordinator()) is not shard
    assert classic.member.heartbeat() == ErrorCode.NONE
    consumer.leave()
    assert is_classic(w)
    assert classic.member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_is_too_large_keeps_its_protocol() -> None:
    """group.consumer.max.size limits an upgrade, group.max.size a downgrade. When a member leaves, the rest may fit."""
    w = world(**{"group.consumer.max.size": "1"})
    w.stable("c1", "c2", protocols={"range": subscription("t")})
    assert w.consumer("m1", "t").join().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    w = world(**{"group.max.size": "1"})
    consumer, classics = w.joined("m1", "t"), [Classic(w, "c1"), Classic(w, "c2")]
    assert [each.join() for each in classics] == [ErrorCode.NONE] * 2
    consumer.leave()
    assert not is_classic(w)
    assert classics[0].member.leave() == ErrorCode.NONE
    assert is_classic(w)


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_an_assignment_in_the_members_version(version: int) -> None:
    """A member gets its assignment in the version of its subscription, at most Kafka's newest one."""
    data = write_assignment({"t": [0, 2], "u": []}, version)
    assert read_version(data) == min(version, 3)
    assert read_assignment(data) == (("t", 0), ("t", 2))


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3, config={"group.consumer.heartbeat.interval.ms": "100"}) as running:
        yield running


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_stock_clients_change_the_protocol(stub: BrokerStub, strategy: str) -> None:
    """librdkafka's consumers: two of the classic protocol read, one of the new protocol joins, the classic ones leave one after the other,
    a classic one joins, and the new one leaves. Each record is read once. (Its cooperative-sticky sends user data, with which Kafka changes
    no group.)"""
    group, count = fresh_group(), 40
    topic = numbered_topic(stub, count, partitions=PARTITIONS)
    classic = {"group.protocol": "classic", "partition.assignment.strategy": strategy, "heartbeat.interval.ms": 100}
    opened = [reader_of(stub, group, topic, **classic) for _ in range(2)]
    seen: list[int] = []
    written = count

    def shared() -> bool:
        parts = [each.partitions for each in opened]
        return all(parts) and sum(map(len, parts)) == PARTITIONS == len(set().union(*parts))

    def read_all() -> None:
        nonlocal written
        pump(shared, *opened)
        write(stub, topic, range(written, written + count), partitions=PARTITIONS)
        written += count
        pump(lambda: len(seen) + sum(len(each.seen) for each in opened) == written, *opened)
        for each in opened:
            if each.seen:
                each.consumer.commit(asynchronous=False)

    def leave(reader: Reader) -> None:
        seen.extend(reader.seen)
        opened.remove(reader)
        reader.close()

    def kind() -> str:
        listed = admin.list_consumer_groups().result(DEADLINE_S).valid
        (found,) = (each for each in listed if each.group_id == group)
        return str(found.type.name)

    admin = AdminClient({"bootstrap.servers": stub.bootstrap})
    first, second = opened
    try:
        read_all()
        assert kind() == "CLASSIC"
        opened.append(reader_of(stub, group, topic))
        new = opened[-1]
        read_all()
        assert kind() == "CONSUMER"
        leave(first)
        read_all()
        leave(second)
        read_all()
        assert kind() == "CONSUMER"
        opened.append(reader_of(stub, group, topic, **classic))
        read_all()
        leave(new)
        read_all()
        assert kind() == "CLASSIC"
        assert sorted(seen + [number for each in opened for number in each.seen]) == list(range(written))
    finally:
        for each in opened:
            each.close()
