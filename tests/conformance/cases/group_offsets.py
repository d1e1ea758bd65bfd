"""OffsetCommit, OffsetFetch and OffsetDelete."""

from fencepost.producer.wire import ZERO_UUID
from fencepost.producer.wire.messages import group_offsets
from tests.conformance.world import World, case


@case()
def committed_by_nobody(w: World) -> None:
    """Without a generation any client may commit to a group without members, in every version. This creates the group."""
    topic = w.topic(partitions=3)
    for version in range(2, 11):
        group = w.group()
        w.commit(group, {topic: {0: 10, 2: 12}}, version=version, metadata="m", label=f"v{version} commits")
        for fetch in range(1, 11):
            w.committed(group, {topic: [0, 1, 2]}, version=fetch, label=f"v{version} read in v{fetch}")


@case()
def every_offset(w: World) -> None:
    """Null means all topics that have an offset; an empty list means none."""
    one, two, group = w.topic(partitions=2), w.topic(), w.group()
    for version in range(2, 11):
        w.committed(group, None, version=version, label=f"v{version} before")
    w.commit(group, {one: {0: 1, 1: 2}, two: {0: 3}}, label="commits")
    for version in range(2, 11):
        w.committed(group, None, version=version, label=f"v{version}")
        w.committed(group, {}, version=version, label=f"v{version} none")
    w.committed(group, None, version=9, stable=True, label="stable ones")


@case()
def several_groups(w: World) -> None:
    """From version 8 on one request asks for several groups."""
    topic = w.topic()
    one, two, three = w.group(), w.group(), w.group()
    w.commit(one, {topic: {0: 1}}, label="one")
    w.commit(two, {topic: {0: 2}}, label="two")
    for version in (8, 9, 10):
        w.committed_by(one, two, three, topic=topic, version=version, label=f"v{version}")
        w.committed_by(one, one, topic=topic, version=version, label=f"v{version} one twice")


@case()
def what_was_committed(w: World) -> None:
    """The newest commit counts, with a higher or lower offset. Metadata has up to 4096 characters."""
    topic, group = w.topic(), w.group()
    for offset in (100, 5, 0, 2**62, -1, -5):
        w.commit(group, {topic: {0: offset}}, label=f"commits {offset}")
        w.committed(group, {topic: [0]}, label=f"has {offset}")
    for size in (4096, 4097):
        w.commit(group, {topic: {0: size}}, metadata="x" * size, label=f"{size} characters")
    for metadata in (None, "", "é"):
        w.commit(group, {topic: {0: 7}}, metadata=metadata, label=f"commits with {metadata!r}")
        w.committed(group, {topic: [0]}, label=f"has {metadata!r}")


@case()
def topics_that_are_not_there(w: World) -> None:
    """Unknown topics and partitions cannot be committed, and have no offsets."""
    topic, missing, group = w.topic(), w.missing_topic(), w.group()
    for version in (2, 9, 10):
        w.commit(group, {missing: {0: 1}}, version=version, label=f"v{version} unknown topic")
        w.commit(group, {topic: {7: 1}}, version=version, label=f"v{version} unknown partition")
        w.commit(group, {topic: {0: 1, 7: 1}, missing: {0: 1}}, version=version, label=f"v{version} and a known one")
        w.commit(group, {}, version=version, label=f"v{version} none")
    for version in (1, 9, 10):
        w.committed(group, {missing: [0], topic: [7, 0]}, version=version, label=f"fetch v{version}")
    w.commit(group, {missing: {0: 1}}, version=10, generation=5, member_id="x-1", label="unknown topic of an unknown member")


@case()
def offsets_of_a_deleted_topic(w: World) -> None:
    """They are deleted with the topic. A new topic of the same name begins without."""
    topic, group = w.topic(), w.group()
    w.commit(group, {topic: {0: 5}}, label="commits")
    w.delete_topics(topic.name, label="deleted")
    w.until_gone(topic)
    w.until_uncommitted(group, topic)
    w.made_again(topic, label="made again")
    w.committed(group, {topic: [0]}, label="by name")
    w.committed(group, {topic: [0]}, version=10, label="by the old id")


@case()
def committed_by_members(w: World) -> None:
    """A member commits with its generation, in every version. Another generation, another member and no member are refused."""
    topic, group = w.topic(), w.group()
    (member,) = w.stable(group)
    for version in range(2, 11):
        w.commit(group, {topic: {0: version}}, member=member, version=version, label=f"v{version}")
    for version in (2, 8, 9, 10):
        for label, generation, member_id in (
            ("older", member.generation - 1, member.id),
            ("newer", member.generation + 1, member.id),
            ("another member", member.generation, "x-1"),
            ("no member", member.generation, ""),
            ("no generation", -1, member.id),
            ("nobody", -1, ""),
        ):
            w.commit(group, {topic: {0: 99}}, version=version, generation=generation, member_id=member_id, label=f"v{version} {label}")
    w.committed(group, {topic: [0]}, label="has")


@case()
def committed_to_unknown_groups(w: World) -> None:
    """A generation of an unknown group."""
    topic = w.topic()
    for version in (2, 8, 9, 10):
        w.commit(w.group(), {topic: {0: 1}}, version=version, generation=3, member_id="x-1", label=f"v{version}")
        w.commit(w.group(), {topic: {0: 1}}, version=version, generation=-1, member_id="x-1", label=f"v{version} without a generation")
    w.commit("", {topic: {0: 1}}, label="no group id")
    w.committed("", {topic: [0]}, label="no group id has")
    w.describe_groups("", label="no group id described")
    w.delete_groups("", label="no group id deleted")
    w.describe_groups("", label="no group id described again")
    w.delete_groups("", label="no group id deleted again")


@case()
def committed_during_a_rebalance(w: World) -> None:
    """Commits succeed while members join, but not while they sync."""
    topic, group = w.topic(), w.group()
    first, second = w.stable(group, 2)
    second.send_join(protocols=[("range", b"new")])
    w.until_state(group, "PreparingRebalance")
    w.commit(group, {topic: {0: 1}}, member=first, label="while others join")
    first.send_join()
    first.joined(label="first")
    second.joined(label="second")
    w.commit(group, {topic: {0: 2}}, member=first, label="while others sync")
    w.commit(group, {topic: {0: 2}}, member=first, generation=first.generation - 1, label="of the last generation")
    w.committed(group, {topic: [0]}, label="has")
    first.sync({}, label="syncs")
    w.commit(group, {topic: {0: 3}}, member=first, label="when it is stable again")


@case("KIP-345")
def committed_by_static_members(w: World) -> None:
    """The instance id must be known, and must belong to the member id."""
    topic, group = w.topic(), w.group()
    first = w.member(group, instance="i1")
    first.join(label="joins")
    first.sync({first.id: b""}, label="syncs")
    w.commit(group, {topic: {0: 1}}, member=first, label="commits")
    w.commit(group, {topic: {0: 1}}, member=first, member_id="x-1", label="with another member id")
    w.commit(group, {topic: {0: 1}}, member=w.member(group, instance="i2"), generation=1, member_id=first.id, label="another instance")


@case()
def after_the_members_left(w: World) -> None:
    """A group that is empty again accepts commits without a member and without a generation."""
    topic, group = w.topic(), w.group()
    (member,) = w.stable(group)
    w.commit(group, {topic: {0: 1}}, member=member, label="as a member")
    member.leave(label="leaves")
    w.commit(group, {topic: {0: 2}}, member=member, label="with the old generation")
    w.commit(group, {topic: {0: 3}}, generation=-1, member_id=member.id, label="with the old id alone")
    w.commit(group, {topic: {0: 4}}, label="as nobody")
    w.committed(group, {topic: [0]}, label="has")


@case()
def deleted_offsets(w: World) -> None:
    """Offsets of a group without members. A partition without an offset may be deleted, too."""
    topic, missing, group = w.topic(partitions=2), w.missing_topic(), w.group()
    w.delete_offsets(group, {topic: [0]}, label="unknown group")
    w.delete_offsets("", {topic: [0]}, label="no group id")
    w.commit(group, {topic: {0: 1, 1: 2}}, label="commits")
    w.delete_offsets(group, {topic: [0]}, label="one")
    w.delete_offsets(group, {topic: [0, 7], missing: [0]}, label="again, unknown partition, unknown topic")
    w.delete_offsets(group, {}, label="none")
    w.committed(group, None, label="left")


@case()
def deleted_offsets_of_members(w: World) -> None:
    """A group whose members are not consumers keeps its offsets."""
    topic, group = w.topic(), w.group()
    first = w.member(group)
    first.join(protocol_type="connect", label="is given an id")
    first.join(protocol_type="connect", label="joins")
    w.commit(group, {topic: {0: 1}}, label="as nobody")
    w.delete_offsets(group, {topic: [0]}, label="of a group that is no consumers'")


@case()
def a_topic_named_twice(w: World) -> None:
    """The response has the topic once, with all of its partitions."""
    topic, group = w.topic(), w.group()
    for version in (2, 9, 10):
        asked = [
            group_offsets.OffsetCommitRequestTopic(
                name=topic.name if version < 10 else "",
                topic_id=topic.id if version >= 10 else ZERO_UUID,
                partitions=[group_offsets.OffsetCommitRequestPartition(partition_index=index, committed_offset=5)],
            )
            for index in (0, 7)
        ]
        w.say(group_offsets.OffsetCommitRequest(group_id=group, topics=asked), version, label=f"v{version}")


@case()
def a_commit_that_is_refused_makes_no_group(w: World) -> None:
    """If all metadata is too long, the group does not exist afterwards."""
    topic, group = w.topic(), w.group()
    w.commit(group, {topic: {0: 5}}, metadata="m" * 4097, label="too long")
    w.describe_groups(group, label="then")
