"""Share groups (KIP-932): joining, sharing out, refusals, descriptions, configs, and what the group's coordinator writes."""

from typing import Any

from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages import share_fetch, share_groups, share_offsets, share_state
from tests.conformance.asks_configs import APPEND, DELETE, SET
from tests.conformance.asks_shares import GROUP
from tests.conformance.holding import each_holding, on_group, on_topic
from tests.conformance.world import World, case

EXAMPLES = {
    "share.session.timeout.ms": ("60000", "44999", "60001", "x"),
    "share.heartbeat.interval.ms": ("15000", "4999", "15001", "0"),
    "share.record.lock.duration.ms": ("60000", "14999", "60001", "-1"),
    "share.auto.offset.reset": ("by_duration:PT1H", "none", "by_duration:x", "by_duration:-PT1H"),
    "share.isolation.level": ("read_committed", "READ_COMMITTED", "serializable", ""),
    "share.delivery.count.limit": ("10", "1", "11", "x"),
    "share.partition.max.record.locks": ("500", "99", "10001", "x"),
    "share.renew.acknowledge.enable": ("false", "TRUE", "x", ""),
}
"""For each config a value, and three that may be wrong."""


@case("KIP-932")
def the_first_member(w: World) -> None:
    """It joins without partitions, has them when the share coordinator knows them, heartbeats and leaves."""
    topic, group = w.topic(partitions=3), w.share_group(earliest=False)
    first = w.sharer(group, "m1", topic, rack="r")
    first.join(label="joins")
    w.share(first, topic=topic)
    w.note_sharers(first, label="has")
    first.beat(label="lives")
    first.beat(subscribed_topic_names=[topic.name], label="says what it subscribes to")
    first.beat(rack_id="other", label="another rack")
    w.describe_sharers(group, label="described")
    first.leave(label="leaves")
    first.beat(label="has left")
    w.describe_sharers(group, label="described again")
    w.records_of(group, label="written")


@case("KIP-932")
def several_members(w: World) -> None:
    """More members than partitions share them, and fewer members have all of them."""
    topic, group = w.topic(partitions=2), w.share_group()
    first, second, third = (w.sharer(group, name, topic) for name in ("m1", "m2", "m3"))
    first.join(label="first joins")
    w.share(first, topic=topic)
    w.note_sharers(first, label="alone")
    second.join(label="second joins")
    first.beat(label="first is told")
    w.share(first, second, topic=topic)
    w.note_sharers(first, second, label="two")
    third.join(label="third joins")
    w.share(first, second, third, topic=topic)
    w.note_sharers(first, second, third, label="three")
    w.describe_sharers(group, label="described")
    second.leave(label="second leaves")
    w.share(first, third, topic=topic)
    w.note_sharers(first, third, label="without second")


@case("KIP-932")
def other_subscriptions(w: World) -> None:
    """Members with different topics, one that changes its mind, and topics that are not there."""
    one, two, group = w.topic(partitions=2), w.topic(), w.share_group()
    first, second = w.sharer(group, "m1", one), w.sharer(group, "m2", two)
    first.join()
    w.share(first, topic=one)
    second.join()
    w.share(first, second, topic=one)
    w.share(first, second, topic=two)
    w.note_sharers(first, second, label="each its own")
    second.beat(subscribed_topic_names=[one.name], label="second changes its mind")
    w.share(first, second, topic=one)
    w.note_sharers(first, second, label="then")
    second.beat(subscribed_topic_names=[w.fresh_name()], label="a topic that is not there")
    w.share(first, second, topic=one)
    w.note_sharers(first, second, label="in the end")


@case("KIP-932")
def fenced(w: World) -> None:
    """Epochs that are too old or too new; the previous one; joining again; members that are unknown."""
    topic, group = w.topic(partitions=4), w.share_group()
    first, _second = w.sharers(group, topic, "m1", "m2")
    for ahead in (1, -1, -2):
        first.beat(member_epoch=first.epoch + ahead, label=f"epoch {ahead:+d}")
    first.join(label="joins again")
    stranger = w.sharer(group, "x", topic)
    stranger.beat(member_epoch=1, label="a stranger")
    stranger.leave(label="a stranger leaves")
    unknown = w.sharer(w.group(), "x", topic)
    unknown.beat(member_epoch=1, label="an unknown group")
    unknown.leave(label="leaves an unknown group")


@case("KIP-932")
def refused(w: World) -> None:
    """Requests that say too little or too much."""
    topic, group = w.topic(), w.share_group(earliest=False)
    wrong: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "blank group": {"group_id": " "},
        "no member": {"member_id": ""},
        "blank member": {"member_id": " "},
        "no rack": {"rack_id": ""},
        "no subscription": {"subscribed_topic_names": None},
        "empty subscription": {"subscribed_topic_names": []},
        "epoch -2": {"member_epoch": -2},
        "epoch 1": {"member_epoch": 1},
        "epoch -1": {"member_epoch": -1},
    }
    member = w.sharer(group, "m1", topic)
    for what, fields in wrong.items():
        member.join(label=what, **fields)
    w.describe_sharers(group, label="then there is no group")


@case("KIP-932", "KIP-848")
def groups_of_other_kinds(w: World) -> None:
    """A group is of one kind while it has members."""
    topic = w.topic()
    shared, consumed, classic = w.share_group(), w.group(), w.group()
    w.sharers(shared, topic, "m1")
    w.consumers(consumed, topic, "m1")
    w.stable(classic)
    for name, group in {"a share group": shared, "a consumer group": consumed, "a classic group": classic}.items():
        w.describe_sharers(group, label=f"described as a share group: {name}")
        w.describe_consumers(group, label=f"described as a consumer group: {name}")
        w.describe_groups(group, label=f"described as a classic group: {name}")
    w.sharer(consumed, "m2", topic).join(label="a share member joins a consumer group")
    w.sharer(classic, "m2", topic).join(label="a share member joins a classic group")
    w.consumer(shared, "m2", topic).join(label="a consumer joins a share group")
    w.share_offsets(consumed, label="share offsets of a consumer group")
    w.alter_share_offsets(consumed, topic, {0: 0}, label="altered of a consumer group")
    w.delete_share_offsets(consumed, topic, label="deleted of a consumer group")
    w.delete_groups(shared, label="deleted with members")


@case("KIP-932")
def a_group_is_deleted(w: World) -> None:
    """When its members have left, with what the share coordinator knows."""
    topic, group = w.topic(partitions=2), w.share_group()
    (first,) = w.sharers(group, topic, "m1")
    first.leave()
    w.describe_sharers(group, label="empty")
    w.delete_groups(group, label="deleted")
    w.describe_sharers(group, label="described")
    w.delete_groups(group, label="deleted again")
    w.records_of(group, label="written")
    w.state_records_of(group, topic, label="kept")


@case("KIP-932")
def described(w: World) -> None:
    """Several groups, with the operations that are allowed, and none."""
    topic, group = w.topic(), w.share_group()
    w.sharers(group, topic, "m1")
    w.describe_sharers(group, w.group(), label="one of two")
    w.describe_sharers(group, operations=True, label="with operations")
    w.describe_sharers("", label="no name")
    w.describe_sharers(label="none")


@case("KIP-932", brokers=3)
def at_another_broker(w: World) -> None:
    """Only the coordinator answers."""
    topic, group = w.topic(), w.share_group()
    (first,) = w.sharers(group, topic, "m1")
    other = w.another_broker(group)
    first.beat(node=other, label="heartbeat")
    w.describe_sharers(group, node=other, label="described")


@case("KIP-932")
def group_configs(w: World) -> None:
    """Every config of a group, before and after one is set."""
    group = w.group()
    w.describe_configs(GROUP, group, names_only=True, label="all")
    w.describe_configs(GROUP, group, keys=[*EXAMPLES, "consumer.session.timeout.ms", "streams.num.standby.replicas"], label="values")
    w.describe_configs(GROUP, group, keys=["share.session.timeout.ms", "nonsense"], synonyms=True, label="some")
    w.configure_group(group, {"share.session.timeout.ms": "50000", "share.auto.offset.reset": "earliest"})
    keys = ["share.session.timeout.ms", "share.auto.offset.reset", "share.isolation.level"]
    w.describe_configs(GROUP, group, keys=keys, synonyms=True, label="set")
    w.describe_configs(GROUP, "", label="no name")


@case("KIP-932")
def values_of_group_configs(w: World) -> None:
    """Good ones and bad ones."""
    group = w.group()
    for name, values in EXAMPLES.items():
        for value in values:
            w.alter(GROUP, group, [(name, SET, value)], validate_only=True, label=f"{name}={value}")
    w.alter(GROUP, group, [("nonsense", SET, "1")], label="an unknown config")
    w.alter(GROUP, group, [("share.session.timeout.ms", SET, None)], label="no value")
    w.alter(GROUP, group, [("share.session.timeout.ms", APPEND, "1")], label="append")
    w.alter(GROUP, group, [("share.session.timeout.ms", DELETE, None)], label="delete")
    w.alter(GROUP, "", [("share.session.timeout.ms", SET, "50000")], label="no name")
    w.replace_configs(GROUP, group, {"share.session.timeout.ms": "50000"}, label="AlterConfigs")
    w.replace_configs(GROUP, group, {}, label="AlterConfigs without any")


@case("KIP-932", guarded=True)
def permissions(w: World) -> None:
    """READ on the group and DESCRIBE on the topics to join; DESCRIBE on both to describe."""
    w.no_acls()
    topic, group = w.topic(), w.share_group()
    read, describe, delete = (on_group(group, each) for each in (Operation.READ, Operation.DESCRIBE, Operation.DELETE))
    seen, taken = on_topic(topic, Operation.DESCRIBE), on_topic(topic, Operation.READ)
    join = share_groups.ShareGroupHeartbeatRequest(group_id=group, member_id="m1", subscribed_topic_names=[topic.name])
    each_holding(w, join, 1, describe, read, [*read, *seen], what="join")
    (member,) = w.sharers(group, topic, "m1")
    asked = share_groups.ShareGroupDescribeRequest(group_ids=[group, f"{group}x"])
    each_holding(w, asked, 1, describe, [*describe, *seen], what="describe")
    member.leave()
    named = [share_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=[0])]
    for topics in (named, None):
        wanted = share_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
        request = share_offsets.DescribeShareGroupOffsetsRequest(groups=[wanted])
        what = "offsets" if topics else "all offsets"
        each_holding(w, request, 1, describe, [*describe, *seen], what=what)
    parts = [share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)]
    alter = share_offsets.AlterShareGroupOffsetsRequest(
        group_id=group, topics=[share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=parts)]
    )
    each_holding(w, alter, 0, describe, read, [*read, *seen], [*read, *taken], what="alter")
    gone = share_offsets.DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=topic.name)]
    )
    each_holding(w, gone, 0, read, delete, [*delete, *seen], [*delete, *taken], what="delete")


@case("KIP-932", guarded=True)
def permissions_for_records(w: World) -> None:
    """READ on the group and on the topic; and CLUSTER_ACTION for what only brokers send."""
    w.no_acls()
    topic, group = w.topic(), w.share_group()
    read, taken = on_group(group, Operation.READ), on_topic(topic, Operation.READ)
    part = share_fetch.FetchPartition(partition_index=0)
    fetch = share_fetch.ShareFetchRequest(
        group_id=group,
        member_id="m1",
        topics=[share_fetch.FetchTopic(topic_id=topic.id, partitions=[part])],
        max_records=1,
        max_wait_ms=3000,
    )
    each_holding(w, fetch, 2, read, [*read, *taken], what="fetch")
    done = share_fetch.AcknowledgePartition(
        partition_index=0, acknowledgement_batches=[share_fetch.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])]
    )
    acknowledge = share_fetch.ShareAcknowledgeRequest(
        group_id=group,
        member_id="m1",
        share_session_epoch=1,
        topics=[share_fetch.AcknowledgeTopic(topic_id=topic.id, partitions=[done])],
    )
    each_holding(w, acknowledge, 2, read, what="acknowledge")
    summary = share_state.ReadShareGroupStateSummaryRequest(
        group_id=group, topics=[share_state.ReadTopic(topic_id=topic.id, partitions=[share_state.ReadPartition()])]
    )
    w.say(summary, 1, user="alice", label="a summary")
