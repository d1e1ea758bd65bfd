"""ShareFetch and ShareAcknowledge: records, sessions, waiting, leader moves, and what is kept."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.states import ACCEPT, REJECT, RELEASE, RENEW
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages import share_offsets
from fencepost.producer.wire.messages.end_txn import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from fencepost.producer.wire.messages.topic_admin import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.broker_stub.share.share_calls import FINAL, Sharer, ShareWorld, values

LOCK_MS = 30_000


def world(partitions: int = 1, **options: Any) -> ShareWorld:
    found = ShareWorld(**options)
    found.topic("t", partitions=partitions, replicas=options.get("brokers", 1))
    return found


def test_two_members_get_different_records() -> None:
    """Of one partition. What one releases, the other gets."""
    w = world()
    first, second = w.sharers("m1", "m2")
    w.put(b"a", b"b")
    w.put(b"c")
    answer = first.fetch(max_records=1)
    assert (values(answer), answer.acquisition_lock_timeout_ms) == ([b"a", b"b"], LOCK_MS)
    assert values(second.fetch()) == [b"c"]
    assert first.acknowledge(0, 1, ACCEPT, RELEASE).error_code == 0
    assert second.acquire() == [(0, 1, 1, 2)]
    assert w.share_offsets() == {("t", 0): (0, 2)}  # the share coordinator hears of the new start with the next change


def test_acknowledgements_come_with_a_fetch() -> None:
    """Their result is beside the records."""
    w = world()
    (member,) = w.sharers("m")
    w.put(b"a", b"b")
    member.fetch()
    w.put(b"c")
    answer = member.fetch(acks=[(0, 1, (ACCEPT,))])
    (part,) = answer.responses[0].partitions
    assert (part.error_code, part.acknowledge_error_code, values(answer)) == (0, 0, [b"c"])
    (part,) = member.fetch(acks=[(0, 0, (ACCEPT,)), (7, 7, (ACCEPT,))]).responses[0].partitions
    assert part.acknowledge_error_code == ErrorCode.INVALID_REQUEST
    assert part.acknowledge_error_message == "Batch record not found. The first offset in request is past acquired records."


def test_a_lock_ends_by_the_clock() -> None:
    """Another member that waits gets the record, and the first one may not acknowledge it any more."""
    w = world()
    first, second = w.sharers("m1", "m2")
    w.put(b"a")
    first.fetch()
    pending = second.start_fetch(max_wait_ms=LOCK_MS * 2)
    assert pending.waits
    w.clock.advance(LOCK_MS)
    assert values(pending.answer) == [b"a"]
    assert first.acknowledge(0, 0).error_code == ErrorCode.INVALID_RECORD_STATE


def test_a_fetch_waits_for_records() -> None:
    """And gives up in the end."""
    w = world()
    (member,) = w.sharers("m")
    member.fetch()
    pending = member.start_fetch(max_wait_ms=500)
    assert pending.waits
    w.put(b"a")
    assert values(pending.answer) == [b"a"]
    pending = member.start_fetch(max_wait_ms=500)
    w.clock.advance(499)
    assert pending.waits
    w.clock.advance(1)
    assert pending.answer.responses == []


def test_a_fetch_waits_for_enough_bytes() -> None:
    """Records that are too few wait for more."""
    w = world()
    (member,) = w.sharers("m")
    member.fetch()
    pending = member.start_fetch(max_wait_ms=500, min_bytes=200)
    w.put(b"a")
    assert pending.waits
    w.put(b"b" * 200)
    assert values(pending.answer) == [b"a", b"b" * 200]


def test_a_release_ends_the_wait_of_others() -> None:
    """What one member releases, another one that waits gets at once."""
    w = world()
    first, second = w.sharers("m1", "m2")
    w.put(b"a")
    first.fetch()
    pending = second.start_fetch(max_wait_ms=1000)
    assert pending.waits
    first.acknowledge(0, 0, RELEASE)
    assert values(pending.answer) == [b"a"]


def test_sessions_have_epochs() -> None:
    """A request must know the next one; closing releases what the member has."""
    w = world()
    first, second = w.sharers("m1", "m2")
    w.put(b"a")
    assert first.fetch(epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    first.fetch(epoch=0)
    assert first.fetch(epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert first.acknowledge(0, 0, epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert first.fetch(epoch=FINAL).error_code == 0
    assert first.fetch(epoch=FINAL).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert second.acquire() == [(0, 0, 0, 2)]


def test_a_new_session_takes_no_acknowledgements() -> None:
    """Nothing can have been acquired in it."""
    (member,) = world().sharers("m")
    assert member.fetch(epoch=0, acks=[(0, 0, (ACCEPT,))]).error_code == ErrorCode.INVALID_REQUEST


def test_a_session_tells_only_news() -> None:
    """The first response has every partition, a later one those with records, errors, or newly added."""
    w = world(partitions=3)
    (member,) = w.sharers("m")
    assert [part.partition_index for part in member.fetch(partitions=(0, 1)).responses[0].partitions] == [0, 1]
    (topic,) = member.fetch(partitions=(2,)).responses
    assert [part.partition_index for part in topic.partitions] == [2]
    w.put(b"a", partition=1)
    (topic,) = member.fetch(partitions=(2,)).responses
    assert [part.partition_index for part in topic.partitions] == [1]


def test_a_connection_that_ends_releases_its_records() -> None:
    """Its sessions end, and another member gets the records."""
    w = world()
    first, second = w.sharers("m1", "m2")
    w.put(b"a")
    first.fetch()
    second.session_epoch.clear()
    w.services.share_partitions.at(1).disconnected(1)
    assert second.acquire(epoch=0) == [(0, 0, 0, 2)]


def test_records_are_acquired_again_after_a_leader_move() -> None:
    """The new leader knows what was acknowledged, and delivers what was only acquired again."""
    w = world(brokers=2)
    (member,) = w.sharers("m")
    w.put(b"a")
    w.put(b"b")
    w.put(b"c")
    member.fetch(batch_size=1)
    member.acknowledge(0, 0)
    member.acknowledge(2, 2, REJECT)
    w.cluster.tick()
    partition = w.cluster.find("t", 0)
    assert partition is not None
    old = partition.leader
    w.cluster.move_leader(partition)
    (part,) = member.fetch(node=old).responses[0].partitions
    assert (part.error_code, part.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, partition.leader)
    assert member.acquire(epoch=0, max_wait_ms=1000) == [(0, 1, 1, 1)]
    member.acknowledge(1, 1)
    assert w.share_offsets() == {("t", 0): (1, 0)}


def test_an_old_leader_is_fenced() -> None:
    """Its writes are refused by the share coordinator, which has heard of the new one."""
    w = world(brokers=2)
    (member,) = w.sharers("m")
    w.put(b"a")
    member.fetch()
    key_epoch = w.topic_named("t").partitions[0].leading.leader_epoch
    answers: list[Any] = []
    w.services.persister.read(1, Key("s", w.topic_named("t").id, 0), leader_epoch=key_epoch + 1, then=answers.append)
    w.now()
    found = member.acknowledge(0, 0)
    assert (answers[0].code, found.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert found.error_message == "The leader epoch in the request is older than the epoch on the broker."


def test_a_share_coordinator_that_fails_leaves_the_record_acquired() -> None:
    """Its code is told as Kafka tells it, and the next acknowledgement is good."""
    w = world()
    (member,) = w.sharers("m")
    w.put(b"a")
    member.fetch()
    w.cluster.faults.on(Api.WRITE_SHARE_GROUP_STATE).where(topic="t", group="s").error(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert member.acknowledge(0, 0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert member.acknowledge(0, 0).error_code == 0
    assert w.share_offsets() == {("t", 0): (0, 0)}


def test_an_absent_coordinator_is_asked_again() -> None:
    """The acknowledgement waits for it."""
    w = world()
    (member,) = w.sharers("m")
    w.put(b"a")
    member.fetch()
    w.cluster.faults.on(Api.WRITE_SHARE_GROUP_STATE).error(ErrorCode.NOT_COORDINATOR)
    answers = member.start_fetch(acks=[(0, 0, (ACCEPT,))])
    assert answers.waits
    w.clock.advance(1000)
    (part,) = answers.answer.responses[0].partitions
    assert part.acknowledge_error_code == 0


def test_deleted_records_move_the_start() -> None:
    """The group goes on at the first record that is left."""
    w = world()
    (member,) = w.sharers("m")
    w.put(b"a")
    w.put(b"b")
    member.fetch(max_records=-1)
    delete = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(offset=1)])])
    assert w.start(delete, 2).answer.topics[0].partitions[0].error_code == 0
    assert member.acquire() == []
    assert member.acquire() == [(0, 1, 1, 1)]


def test_aborted_transactions_are_skipped_on_request() -> None:
    """By share.isolation.level; a group that reads everything gets them."""
    w = world(config={"transaction.partition.verification.enable": "false"})
    w.configure_group(share_isolation_level="read_committed")
    (member,) = w.sharers("m")
    w.put(b"x", pid=1, epoch=0, sequence=0, transactional=True)
    assert member.acquire() == []
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    marker = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=False, topics=[topic])
    assert w.start(WriteTxnMarkersRequest(markers=[marker]), 1).answer.markers[0].topics[0].partitions[0].error_code == 0
    w.put(b"y")
    assert member.acquire() == [(0, 1, 2, 1)]  # with the marker, as in Kafka
    w.configure_group("all", share_auto_offset_reset="earliest")
    (other,) = w.sharers("o", group="all")
    assert values(other.fetch()) == [b"x", b"y"]


def test_a_group_begins_where_its_config_says() -> None:
    """At the end by default; at the first record of a time."""
    w = ShareWorld(earliest=False)
    w.topic("t")
    w.put(b"old")
    (late,) = w.sharers("m")
    late.fetch()
    w.put(b"new")
    assert values(late.fetch()) == [b"new"]
    w.configure_group("young", share_auto_offset_reset="by_duration:PT1H")
    (young,) = w.sharers("y", group="young")
    assert values(young.fetch()) == [b"old", b"new"]


def test_unknown_topics_and_groups() -> None:
    """With Kafka's codes: for the partition, or for all if the topic's id or the member's id is none."""
    w = world()
    w.put(b"a")
    (part,) = w.sharer("m", "t").fetch().responses[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert w.sharer("m", "t").fetch(topic_id=UUID(int=9)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (part,) = w.sharer("m", "t").fetch(partitions=(7,), node=1).responses[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert w.sharer("m" * 37, "t").fetch().error_code == ErrorCode.INVALID_REQUEST
    assert w.sharer("m", "t").fetch(group=None).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("types", [(9,), (ACCEPT, ACCEPT), (), (RENEW,)])
def test_odd_acknowledgements_are_refused(types: tuple[int, ...]) -> None:
    """An unknown type, too many types, none, and a renewal that the request does not announce."""
    w = world()
    (member,) = w.sharers("m")
    w.put(b"a", b"b", b"c")
    member.fetch()
    (part,) = member.fetch(acks=[(0, 2, types)]).responses[0].partitions
    assert part.acknowledge_error_code == ErrorCode.INVALID_REQUEST


def test_a_renewal_does_not_fetch() -> None:
    """It must not ask for records."""
    w = world()
    (member,) = w.sharers("m")
    w.put(b"a")
    member.fetch()
    w.clock.advance(LOCK_MS - 1)
    nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    (part,) = member.fetch(acks=[(0, 0, (RENEW,))], **nothing).responses[0].partitions
    assert part.acknowledge_error_code == 0
    w.clock.advance(LOCK_MS - 1)
    assert member.acknowledge(0, 0).error_code == 0
    assert member.fetch(is_renew_ack=True).error_code == ErrorCode.INVALID_REQUEST


def test_offsets_are_altered_and_deleted() -> None:
    """Of a group without members; its partitions begin there."""
    w = world()
    (member,) = w.sharers("m")
    for value in (b"a", b"b", b"c"):
        w.put(value)
    alter = share_offsets.AlterShareGroupOffsetsRequest(
        group_id="s",
        topics=[
            share_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name="t",
                partitions=[
                    share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=2),
                    share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=9, start_offset=2),
                ],
            )
        ],
    )
    assert w.start(alter, 0).answer.error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    w.services.share_partitions.at(1).stop()
    found = w.start(alter, 0).answer
    assert [each.error_code for each in found.responses[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert w.share_offsets() == {("t", 0): (2, 1)}
    (member,) = w.sharers("m")
    assert values(member.fetch(epoch=0)) == [b"c"]
    member.leave()
    delete = share_offsets.DeleteShareGroupOffsetsRequest(
        group_id="s",
        topics=[
            share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="t"),
            share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="u"),
        ],
    )
    gone, good = w.start(delete, 0).answer.responses
    assert (good.topic_name, good.error_code) == ("t", 0)
    assert (gone.topic_name, gone.error_code) == ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert w.share_offsets() == {}


def test_every_record_is_done_once_with_many_members() -> None:
    """Of several partitions, with members that come and go."""
    w = world(partitions=3)
    members = w.sharers("m1", "m2", "m3", "m4")
    for number in range(60):
        w.put(b"%d" % number, partition=number % 3)
    done: list[bytes] = []
    for round_ in range(200):
        member = members[round_ % len(members)]
        _take_some(member, done)
        if len(done) == 60:
            break
    assert sorted(done, key=int) == [b"%d" % number for number in range(60)]


def _take_some(member: Sharer, done: list[bytes]) -> None:
    for name, index in sorted(member.partitions):
        assert name == "t"
        answer = member.fetch(partitions=(index,), max_records=3)
        done += values(answer)
        for topic in answer.responses:
            for part in topic.partitions:
                for each in part.acquired_records:
                    found = member.acknowledge(each.first_offset, each.last_offset, partition=part.partition_index)
                    assert found.error_code == 0
