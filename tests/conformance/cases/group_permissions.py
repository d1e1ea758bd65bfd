"""The permissions that the APIs of groups need, and their responses without them."""

from fencepost.broker_stub.security.operations import Operation, Pattern, Resource
from fencepost.producer import wire
from fencepost.producer.wire.messages import group_admin, group_offsets, groups
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
