"""The configs of share groups and of share coordinators: what each does."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker_stub.cluster.topics import SHARE_STATE_TOPIC
from fencepost.broker_stub.share_partitions.coordinator.records import Snapshot, Update, read_share_record
from fencepost.broker_stub.share_partitions.states import RENEW
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import configs
from fencepost.producer.wire.records import read_records
from tests.broker_stub.share.share_calls import GROUP, ShareWorld, values


def world(partitions: int = 1, *, brokers: int = 1, **config: str) -> ShareWorld:
    found = ShareWorld(brokers=brokers, config={name.replace("_", "."): value for name, value in config.items()})
    found.topic("t", partitions=partitions)
    return found


def state_records(w: ShareWorld) -> list[Any]:
    """Every record of the share coordinators."""
    found = []
    for partition in w.topic_named(SHARE_STATE_TOPIC).partitions:
        for _, batch in partition.log.batches():
            for each in read_records(batch):
                assert each.key is not None
                found.append(read_share_record(each.key, each.value))
    return found


@pytest.mark.parametrize("of_group", [True, False])
def test_an_assignment_waits_for_the_interval(of_group: bool) -> None:
    """A member that has joined has nothing until the interval is over."""
    w = world(group_share_assignment_interval_ms="0" if of_group else "1000")
    if of_group:
        assert w.configure_group(share_assignment_interval_ms="1000").error_code == 0
    member = w.sharer("m", "t")
    member.join()
    member.live()
    assert member.partitions == set()
    w.clock.advance(1000)
    member.live()
    assert member.partitions == {("t", 0)}


@pytest.mark.parametrize("of_group", [True, False])
def test_the_limit_of_deliveries(of_group: bool) -> None:
    """A record that was delivered so often is archived when it is released."""
    w = world(group_share_delivery_count_limit="5" if of_group else "2")
    if of_group:
        w.configure_group(share_delivery_count_limit="2")
    (member,) = w.sharers("m")
    w.put(b"a")
    for count in (1, 2):
        assert member.acquire() == [(0, 0, 0, count)]
        member.acknowledge(0, 0, 2)
    assert member.acquire() == []


@pytest.mark.parametrize("of_group", [True, False])
def test_the_heartbeat_interval_is_told(of_group: bool) -> None:
    """By the group's config, or by the broker's."""
    w = world(group_share_heartbeat_interval_ms="5000" if of_group else "7000")
    if of_group:
        w.configure_group(share_heartbeat_interval_ms="7000")
    assert w.sharer("m", "t").join().heartbeat_interval_ms == 7000


def test_a_session_too_many_is_refused() -> None:
    """After as long as the member would have waited for records."""
    w = world(group_share_max_share_sessions="1")
    first, second = w.sharers("m1", "m2")
    assert first.fetch().error_code == 0
    assert first.fetch(epoch=0).error_code == 0
    assert second.fetch().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    pending = second.start_fetch(epoch=0, max_wait_ms=100)
    assert pending.waits
    w.clock.advance(100)
    assert pending.answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_full_group_refuses_a_new_member() -> None:
    """With GROUP_MAX_SIZE_REACHED; its members stay."""
    w = world(group_share_max_size="1")
    (first,) = w.sharers("m1")
    refused = w.sharer("m2", "t").join()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The share group has reached its maximum capacity of 1 members.",
    )
    assert first.join().error_code == 0


def test_the_limit_of_records_in_flight() -> None:
    """No more are acquired than the limit allows."""
    w = world(group_share_partition_max_record_locks="2")
    (member,) = w.sharers("m")
    for value in (b"a", b"b", b"c"):
        w.put(value)
    assert values(member.fetch()) == [b"a", b"b"]
    assert member.acquire() == []
    member.acknowledge(0, 0)
    assert values(member.fetch()) == [b"c"]


@pytest.mark.parametrize("of_group", [True, False])
def test_the_duration_of_a_lock(of_group: bool) -> None:
    """It is told, and when it is over another member gets the record."""
    w = world(group_share_record_lock_duration_ms="30000" if of_group else "15000")
    if of_group:
        w.configure_group(share_record_lock_duration_ms="15000")
    (member,) = w.sharers("m")
    w.put(b"a")
    assert member.fetch().acquisition_lock_timeout_ms == 15_000
    w.clock.advance(14_999)
    assert member.acquire() == []
    w.clock.advance(1)
    w.now()
    assert member.acquire() == [(0, 0, 0, 2)]


@pytest.mark.parametrize(("enabled", "code"), [("true", ErrorCode.NONE), ("false", ErrorCode.INVALID_RECORD_STATE)])
def test_renewals_can_be_switched_off(enabled: str, code: ErrorCode) -> None:
    """By the group's config, at once."""
    w = world()
    (member,) = w.sharers("m")
    w.put(b"a")
    member.fetch()
    w.configure_group(share_renew_acknowledge_enable=enabled)
    nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    (part,) = member.fetch(acks=[(0, 0, (RENEW,))], **nothing).responses[0].partitions
    assert part.acknowledge_error_code == code


@pytest.mark.parametrize("of_group", [True, False])
def test_a_member_without_a_heartbeat_is_removed(of_group: bool) -> None:
    """After the session timeout of the group's config, or of the broker's."""
    w = world(group_share_session_timeout_ms="45000" if of_group else "50000")
    if of_group:
        w.configure_group(share_session_timeout_ms="50000")
    (member,) = w.sharers("m")
    w.clock.advance(49_999)
    w.now()
    assert member.live().error_code == 0
    w.clock.advance(50_000)
    w.now()
    assert member.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_snapshot_after_so_many_updates() -> None:
    """The share coordinator writes a whole snapshot after so many updates."""
    w = world(share_coordinator_snapshot_update_records_per_snapshot="2")
    (member,) = w.sharers("m")
    for value in (b"a", b"b", b"c", b"d"):
        w.put(value)
    member.fetch(batch_size=1)
    for offset in range(4):
        member.acknowledge(offset, offset)
    kinds = [type(each.value) for each in state_records(w)]
    assert kinds == [Snapshot, Update, Update, Snapshot, Update]
    assert [each.value.snapshot_epoch for each in state_records(w)] == [0, 0, 0, 1, 1]


def test_the_topic_of_the_state() -> None:
    """As Kafka makes it."""
    w = world(
        brokers=3,
        share_coordinator_state_topic_num_partitions="4",
        share_coordinator_state_topic_replication_factor="2",
        share_coordinator_state_topic_min_isr="1",
    )
    w.sharers("m")
    topic = w.topic_named(SHARE_STATE_TOPIC)
    assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (4, 2)
    assert topic.overrides == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }


def test_a_write_that_is_not_replicated_times_out() -> None:
    """The coordinator is asked again, and in the end the member learns of it."""
    w = world(brokers=2, share_coordinator_write_timeout_ms="100", share_coordinator_state_topic_num_partitions="1")
    (member,) = w.sharers("m")
    w.put(b"a")
    member.fetch()
    leader = w.topic_named(SHARE_STATE_TOPIC).partitions[0].leader
    other = 3 - leader
    w.cluster.broker_links.sever(leader, other)
    pending = member.start_fetch(acks=[(0, 0, (1,))])
    for _ in range(40):
        w.clock.advance(1000)
        if not pending.waits:
            break
    (part,) = pending.answer.responses[0].partitions
    assert part.acknowledge_error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_group_configs_are_described() -> None:
    """Defaults come from the brokers; a group's own come first."""
    w = world(group_share_record_lock_duration_ms="20000")
    w.configure_group(share_record_lock_duration_ms="25000")
    resource = configs.DescribeConfigsResource(resource_type=GROUP, resource_name="s", configuration_keys=None)
    (found,) = w.start(configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).answer.results
    entry = next(each for each in found.configs if each.name == "share.record.lock.duration.ms")
    assert (entry.value, entry.config_source) == ("25000", 8)
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        ("share.record.lock.duration.ms", "25000", 8),
        ("group.share.record.lock.duration.ms", "20000", 4),
        ("group.share.record.lock.duration.ms", "30000", 5),
    ]
    reset = next(each for each in found.configs if each.name == "share.auto.offset.reset")
    assert (reset.value, reset.config_source) == ("earliest", 8)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("share.unknown", "1", "Unknown group config name: share.unknown"),
        ("share.record.lock.duration.ms", "1000", "share.record.lock.duration.ms must be greater than or equal to"),
        ("share.record.lock.duration.ms", "60001", "share.record.lock.duration.ms must be less than or equal to"),
        ("share.delivery.count.limit", "1", "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2"),
        ("share.auto.offset.reset", "none", "Invalid value none for configuration share.auto.offset.reset"),
        ("share.isolation.level", "x", "String must be one of: read_committed, read_uncommitted"),
    ],
)
def test_odd_configs_are_refused(name: str, value: str, words: str) -> None:
    """With INVALID_CONFIG and Kafka's reason."""
    answer = world().configure_group("s", **{name.replace(".", "_"): value})
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert words in answer.error_message
