"""The permissions that the APIs of groups need, and their responses without them."""

from fencepost.broker_stub.security.operations import Operation, Pattern, Resource
from fencepost.producer import wire
from fencepost.producer.wire.messages import group_admin, group_offsets, groups, share_fetch, share_offsets, share_state
from fencepost.producer.wire.messages import share_groups as share_messages
from tests.conformance.asks_acls import creation
from tests.conformance.holding import NOTHING, Held, each_holding, on_cluster, on_group, on_topic
from tests.conformance.world import World, case


@case(guarded=True)
def coordinators(w: World) -> None:
    """DESCRIBE on the group or the transactional id."""
    w.no_acls()
    group = w.group()
    for version in (0, 3, 4, 6):
        for kind, resource in ((0, Resource.GROUP), (1, Resource.TRANSACTIONAL_ID)):
            request = (
                wire.FindCoordinatorRequest(key=group, key_type=kind)
                if version < 4
                else wire.FindCoordinatorRequest(coordinator_keys=[group, f"{group}x"], key_type=kind)
            )
            if version or not kind:
                each_holding(w, request, version, what=f"v{version} type {kind}")
                if version >= 4:
                    held = creation(Operation.DESCRIBE, resource, f"{group}x")
                    w.permit(held)
                    w.found_as("alice", [group, f"{group}x"], kind, version, label=f"v{version} type {kind}, DESCRIBE of one")
                    w.forbid_again(held)


@case(guarded=True)
def members(w: World) -> None:
    """READ on the group, before the broker checks the group or the member."""
    w.no_acls()
    group = w.group()
    protocols = [groups.JoinGroupRequestProtocol(name="range", metadata=b"")]
    read = on_group(group, Operation.READ)
    describe = on_group(group, Operation.DESCRIBE)
    for version in (0, 5, 9):
        for name, what in ((group, "join"), ("", "join of no group")):
            join = groups.JoinGroupRequest(
                group_id=name, session_timeout_ms=1, rebalance_timeout_ms=1000, member_id="m", protocol_type="consumer", protocols=protocols
            )
            each_holding(w, join, version, describe, read, what=f"{what} v{version}")
    for version in (0, 3, 5):
        sync = groups.SyncGroupRequest(group_id=group, generation_id=1, member_id="m")
        each_holding(w, sync, version, describe, read, what=f"sync v{version}")
        leave = groups.LeaveGroupRequest(group_id=group, members=[groups.MemberIdentity(member_id="m")])
        if version < 3:
            leave = groups.LeaveGroupRequest(group_id=group, member_id="m")
        each_holding(w, leave, version, describe, read, what=f"leave v{version}")
    for version in (0, 4):
        beat = groups.HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        each_holding(w, beat, version, describe, read, what=f"heartbeat v{version}")


@case(guarded=True)
def offsets_of_groups(w: World) -> None:
    """READ on the group and the topic to commit, DESCRIBE on both to fetch, DELETE on the group and READ on the topic to delete."""
    w.no_acls()
    topic, missing, group = w.topic(), w.missing_topic(), w.group()
    read, describe, delete = Operation.READ, Operation.DESCRIBE, Operation.DELETE
    for version in (2, 9, 10):
        asked = [
            group_offsets.OffsetCommitRequestTopic(
                name=each.name if version < 10 else "",
                topic_id=each.id if version >= 10 else wire.ZERO_UUID,
                partitions=[group_offsets.OffsetCommitRequestPartition(committed_offset=3)],
            )
            for each in (topic, missing)
        ]
        commit = group_offsets.OffsetCommitRequest(group_id=group, topics=asked)
        held: tuple[Held, ...] = (
            on_group(group, describe),
            on_group(group, read),
            on_topic(topic, read),
            on_group(group, read) + on_topic(topic, read),
        )
        each_holding(w, commit, version, *held, what=f"commit v{version}")
    for version in (1, 2, 8, 10):
        parts = {"partition_indexes": [0]}
        if version < 8:
            fetch = group_offsets.OffsetFetchRequest(
                group_id=group, topics=[group_offsets.OffsetFetchRequestTopic(name=each.name, **parts) for each in (topic, missing)]
            )
        else:
            several = [
                group_offsets.OffsetFetchRequestTopics(
                    name=each.name if version < 10 else "", topic_id=each.id if version >= 10 else wire.ZERO_UUID, **parts
                )
                for each in (topic, missing)
            ]
            fetch = group_offsets.OffsetFetchRequest(groups=[group_offsets.OffsetFetchRequestGroup(group_id=group, topics=several)])
        held = (on_group(group, describe), on_topic(topic, describe), on_group(group, describe) + on_topic(topic, describe))
        each_holding(w, fetch, version, *held, what=f"fetch v{version}")
    for version in (2, 8, 10):
        every = (
            group_offsets.OffsetFetchRequest(group_id=group, topics=None)
            if version < 8
            else group_offsets.OffsetFetchRequest(groups=[group_offsets.OffsetFetchRequestGroup(group_id=group, topics=None)])
        )
        each_holding(w, every, version, on_group(group, read), on_group(group, read) + on_topic(topic, read), what=f"fetch all v{version}")
    gone = group_offsets.OffsetDeleteRequest(
        group_id=group,
        topics=[
            group_offsets.OffsetDeleteRequestTopic(name=each.name, partitions=[group_offsets.OffsetDeleteRequestPartition()])
            for each in (topic, missing)
        ],
    )
    held = (on_group(group, read), on_group(group, delete), on_group(group, delete) + on_topic(topic, read))
    each_holding(w, gone, 0, *held, what="delete")


@case(guarded=True)
def groups_of_others(w: World) -> None:
    """DESCRIBE to see groups, on each group, or on the cluster to list all. DELETE to delete them."""
    w.no_acls()
    topic, group = w.topic(), w.group()
    committed = [group_offsets.OffsetCommitRequestPartition(committed_offset=3)]
    w.say(
        group_offsets.OffsetCommitRequest(
            group_id=group, topics=[group_offsets.OffsetCommitRequestTopic(name=topic.name, partitions=committed)]
        ),
        9,
        label="committed",
    )
    prefixed = [creation(Operation.DESCRIBE, Resource.GROUP, group[:-1], pattern=Pattern.PREFIXED)]
    listing = group_admin.ListGroupsRequest()
    for acls, word in ((NOTHING, "nothing"), (prefixed, "the prefix"), (on_cluster(Operation.DESCRIBE), "the cluster")):
        if acls:
            w.permit(*acls)
        w.listed_as("alice", listing, group, label=f"list, {word}")
        if acls:
            w.forbid_again(*acls)
    for version in (0, 5, 6):
        described = group_admin.DescribeGroupsRequest(groups=[group, f"{group}x", ""])
        each_holding(
            w, described, version, on_group(f"{group}x", Operation.DESCRIBE), on_group(group, Operation.DELETE), what=f"describe v{version}"
        )
    delete = group_admin.DeleteGroupsRequest(groups_names=[group, f"{group}x"])
    held: tuple[Held, ...] = (on_group(group, Operation.READ), on_group(f"{group}x", Operation.DELETE), on_group(group, Operation.DELETE))
    each_holding(w, delete, 2, *held, what="delete")


@case("KIP-932", guarded=True)
def the_share_coordinator(w: World) -> None:
    """CLUSTER_ACTION for each of its requests, before the broker looks at what they say."""
    w.no_acls()
    group, topic = w.group(), wire.ZERO_UUID
    requests: dict[str, tuple[wire.Message, ...]] = {
        "initialize": tuple(
            share_state.InitializeShareGroupStateRequest(
                group_id=name, topics=[share_state.InitializedTopic(topic_id=topic, partitions=each)]
            )
            for name, each in ((group, [share_state.InitializedPartition()]), ("", [share_state.InitializedPartition()]), (group, []))
        ),
        "read": tuple(
            share_state.ReadShareGroupStateRequest(group_id=name, topics=[share_state.ReadTopic(topic_id=topic, partitions=each)])
            for name, each in ((group, [share_state.ReadPartition()]), ("", [share_state.ReadPartition()]), (group, []))
        ),
        "write": tuple(
            share_state.WriteShareGroupStateRequest(group_id=name, topics=[share_state.WrittenTopic(topic_id=topic, partitions=each)])
            for name, each in ((group, [share_state.WrittenPartition()]), ("", [share_state.WrittenPartition()]), (group, []))
        ),
        "delete": tuple(
            share_state.DeleteShareGroupStateRequest(group_id=name, topics=[share_state.DeletedTopic(topic_id=topic, partitions=each)])
            for name, each in ((group, [share_state.DeletedPartition()]), ("", [share_state.DeletedPartition()]), (group, []))
        ),
        "summary": tuple(
            share_state.ReadShareGroupStateSummaryRequest(group_id=name, topics=[share_state.ReadTopic(topic_id=topic, partitions=each)])
            for name, each in ((group, [share_state.ReadPartition()]), ("", [share_state.ReadPartition()]), (group, []))
        ),
    }
    for what, several in requests.items():
        for request, of in zip(several, ("", " of no group", " of no partition"), strict=True):
            each_holding(w, request, 0, on_cluster(Operation.ALTER), what=f"{what}{of}")


@case("KIP-932", guarded=True)
def share_groups(w: World) -> None:
    """READ on the group and on topics to be a member and to fetch; DESCRIBE to see it; DELETE and READ to delete offsets."""
    w.no_acls()
    topic, missing, group = w.topic(), w.missing_topic(), w.share_group()
    read, describe, delete, alter = Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER
    beat = share_messages.ShareGroupHeartbeatRequest(
        group_id=group, member_id="m1", member_epoch=7, subscribed_topic_names=[topic.name, missing.name]
    )
    held: tuple[Held, ...] = (on_group(group, describe), on_group(group, read), on_group(group, read) + on_topic(topic, describe))
    each_holding(w, beat, 1, *held, what="heartbeat")
    gone = share_messages.ShareGroupHeartbeatRequest(group_id=group, member_id="m1", member_epoch=-1)
    each_holding(w, gone, 1, on_group(group, read), what="leave")
    described = share_messages.ShareGroupDescribeRequest(group_ids=[group, f"{group}x", ""])
    each_holding(w, described, 1, on_group(group, read), on_group(group, describe), what="describe")
    part = share_fetch.FetchPartition(partition_index=0)
    fetch = share_fetch.ShareFetchRequest(
        group_id=group,
        member_id="m1",
        max_wait_ms=0,
        max_bytes=1000,
        max_records=10,
        batch_size=10,
        topics=[share_fetch.FetchTopic(topic_id=each, partitions=[part]) for each in (topic.id, wire.ZERO_UUID)],
    )
    both = on_group(group, read) + on_topic(topic, read)
    each_holding(w, fetch, 2, on_topic(topic, read), on_group(group, describe), on_group(group, read), what="fetch")
    acknowledge = share_fetch.ShareAcknowledgeRequest(
        group_id=group,
        member_id="m1",
        share_session_epoch=1,
        topics=[share_fetch.AcknowledgeTopic(topic_id=topic.id, partitions=[share_fetch.AcknowledgePartition()])],
    )
    each_holding(w, acknowledge, 2, on_topic(topic, read), on_group(group, read), both, what="acknowledge")
    told = share_offsets.DescribeShareGroupOffsetsRequest(
        groups=[
            share_offsets.DescribeShareGroupOffsetsRequestGroup(
                group_id=name,
                topics=[
                    share_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=each.name, partitions=[0]) for each in (topic, missing)
                ],
            )
            for name in (group, f"{group}x")
        ]
    )
    each_holding(
        w,
        told,
        1,
        on_topic(topic, describe),
        on_group(group, describe),
        on_group(group, describe) + on_topic(topic, describe),
        what="offsets",
    )
    altered = share_offsets.AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            share_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name=each.name, partitions=[share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=9)]
            )
            for each in (topic, missing)
        ],
    )
    each_holding(w, altered, 0, on_group(group, describe), on_group(group, alter), on_group(group, read), both, what="alter offsets")
    deleted = share_offsets.DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=each.name) for each in (topic, missing)]
    )
    with_topic = on_group(group, delete) + on_topic(topic, read)
    each_holding(w, deleted, 0, on_group(group, read), on_group(group, delete), with_topic, what="delete offsets")
