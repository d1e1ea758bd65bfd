"""Which records coordinators write into `__consumer_offsets`, and in which format."""

from tests.conformance.world import World, case


@case("KIP-211")
def of_offsets(w: World) -> None:
    """An offset with its topic's id, or without it if the request had none; one that expires; tombstones of offsets and of the group."""
    topic, group = w.topic(partitions=3), w.group()
    for version in (2, 9, 10):
        w.commit(group, {topic: {0: version, 1: 7}}, version=version, metadata="é" * version, label=f"v{version} commits")
    w.commit(group, {topic: {2: 3}}, version=2, retention_ms=500_000, label="one that expires")
    w.commit(group, {topic: {2: 4}}, version=4, retention_ms=600_000, label="another")
    w.commit(group, {topic: {0: 9}}, metadata=None, label="no metadata")
    w.commit(group, {topic: {9: 1}}, label="one that is refused")
    w.delete_offsets(group, {topic: [0]}, label="deletes one")
    w.delete_offsets(group, {topic: [0]}, label="deletes it again")
    w.delete_groups(group, label="deletes the group")
    w.records_of(group, label="log")


@case()
def of_groups(w: World) -> None:
    """A group when it is created, with each assignment, when a static member returns, and when it is empty."""
    topic, group = w.topic(), w.group()
    (static,) = w.stable(group, instance="i1")
    w.commit(group, {topic: {0: 1}}, member=static, label="a member commits")
    back = w.member(group, instance="i1")
    back.join(label="it is back")
    w.commit(group, {topic: {0: 2}}, member=back, label="commits again")
    back.leave(label="leaves")
    w.records_of(group, label="log")


@case()
def of_two_members(w: World) -> None:
    """The leader, and the assignment of each member."""
    group = w.group()
    first, second = w.stable(group, 2)
    first.leave(label="the first leaves")
    second.send_join()
    second.joined(label="the second goes on")
    second.sync({second.id: b"everything"}, label="with everything")
    w.records_of(group, label="log")


@case()
def of_transactions(w: World) -> None:
    """Offsets of a transaction have no topic id and wait for the marker. A tombstone also deletes waiting offsets."""
    topic, group, txn = w.topic(partitions=2), w.group(), w.begun()
    w.commit_in_txn(txn, group, {topic: {0: 5, 1: 6}}, version=5, label="commits two")
    w.end(txn, label="commit")
    w.commit_in_txn(txn, group, {topic: {0: 7}}, version=5, metadata="m", label="commits one")
    w.end(txn, commit=False, label="abort")
    w.commit_in_txn(txn, group, {topic: {0: 8, 1: 9}}, version=5, label="commits two more")
    w.delete_offsets(group, {topic: [0]}, label="one is deleted")
    w.committed(group, {topic: [0, 1]}, label="while they wait")
    w.committed(group, {topic: [0, 1]}, stable=True, label="while they wait, stable")
    w.end(txn, label="the last commit")
    w.committed(group, {topic: [0, 1]}, stable=True, label="after it")
    w.records_of(group, label="log")


@case()
def of_a_deleted_topic(w: World) -> None:
    """The coordinator writes tombstones for its offsets, also for those of open transactions. Other offsets stay."""
    topic, other, group, txn = w.topic(), w.topic(), w.group(), w.begun()
    w.commit(group, {topic: {0: 5}, other: {0: 6}}, label="commits")
    w.commit_in_txn(txn, group, {topic: {0: 7}, other: {0: 8}}, version=5, label="commits in a transaction")
    w.delete_topics(topic.name, label="deleted")
    w.until_gone(topic)
    w.until_uncommitted(group, topic)
    w.end(txn, label="commit")
    w.committed(group, None, label="left")
    w.records_of(group, label="log")


@case()
def of_the_last_offset(w: World) -> None:
    """A group loses its last offset: without members, after its members have left, after its topic is deleted, and with a member."""
    topic, kept = w.topic(), w.topic()
    nobody, left, gone, joined = w.group(), w.group(), w.group(), w.group()
    w.commit(nobody, {kept: {0: 1}}, label="of nobody")
    (member,) = w.stable(left)
    w.commit(left, {kept: {0: 1}}, member=member, label="of a member")
    member.leave(label="who leaves")
    w.commit(gone, {topic: {0: 1}}, label="of a topic")
    (member,) = w.stable(joined)
    w.commit(joined, {topic: {0: 1}}, member=member, label="of a member that stays")
    w.delete_offsets(nobody, {kept: [0]}, label="nobody's is deleted")
    w.delete_offsets(left, {kept: [0]}, label="the one of who left")
    w.delete_topics(topic.name, label="the topic is deleted")
    w.until_gone(topic)
    w.until_uncommitted(gone, topic)
    w.until_uncommitted(joined, topic)
    for number, group in enumerate((nobody, left, gone, joined), start=1):
        w.describe_groups(group, label=f"described {number}")
        w.delete_groups(group, label=f"deleted {number}")
        w.records_of(group, label=f"log {number}")
