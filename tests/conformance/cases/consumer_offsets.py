"""Offsets of groups of the consumer protocol, and the records that coordinators write for these groups (KIP-848)."""

from tests.conformance.world import World, case


@case("KIP-848", "KIP-1251")
def commits_of_members(w: World) -> None:
    """With the current epoch, a newer one, an older one, and as a stranger, in every version."""
    topic, group = w.topic(partitions=4), w.group()
    first, second = w.consumer(group, "m1", topic), w.consumer(group, "m2", topic)
    first.join()
    old = first.epoch
    for version in range(2, 11):
        w.commit(group, {topic: {0: 1}}, version=version, generation=first.epoch, member_id="m1", label=f"v{version} current")
    for version in (9, 10):
        for delta in (-1, 1):
            generation = first.epoch + delta
            w.commit(group, {topic: {0: 1}}, version=version, generation=generation, member_id="m1", label=f"v{version} epoch {delta:+d}")
        w.commit(group, {topic: {0: 1}}, version=version, generation=first.epoch, member_id="x", label=f"v{version} a stranger")
        w.commit(group, {topic: {0: 1}}, version=version, label=f"v{version} no member")
    second.join()
    first.confirm()
    for index in range(4):
        w.commit(group, {topic: {index: 2}}, generation=old, member_id="m1", label=f"to be given up or not: {index}")
    w.share_out(first, second)
    for index in range(4):
        w.commit(group, {topic: {index: 3}}, generation=old, member_id="m1", label=f"given up or not: {index}")
        w.commit(group, {topic: {index: 3}}, generation=old, member_id="m2", label=f"the other with the old epoch: {index}")
        w.commit(group, {topic: {index: 3}}, generation=second.epoch, member_id="m2", label=f"the other: {index}")
    w.commit(group, {topic: {0: 4, 1: 4, 2: 4, 3: 4}}, generation=old, member_id="m1", label="all of them")
    first.leave()
    second.leave()
    w.commit(group, {topic: {0: 9}}, label="no member, to the empty group")
    w.commit(group, {topic: {0: 9}}, generation=old, member_id="m1", label="a former member")
    w.committed(group, {topic: [0, 1, 2, 3]}, label="committed")


@case("KIP-848")
def fetches_of_members(w: World) -> None:
    """With the epoch, or without a member."""
    topic, group, unknown = w.topic(), w.group(), w.group()
    (member,) = w.consumers(group, topic, "m1")
    w.commit(group, {topic: {0: 5}}, generation=member.epoch, member_id="m1", label="commits")
    for version in (9, 10):
        for what, member_id, epoch in (
            ("no member", None, -1),
            ("the member", "m1", member.epoch),
            ("an older epoch", "m1", member.epoch - 1),
            ("a newer epoch", "m1", member.epoch + 1),
            ("no epoch", "m1", -1),
            ("a stranger", "x", member.epoch),
            ("an empty id", "", -1),
            ("no id", None, member.epoch),
        ):
            w.fetched_by(group, topic, member_id=member_id, epoch=epoch, version=version, label=f"v{version} {what}")
    w.fetched_by(unknown, topic, member_id="m1", epoch=1, label="an unknown group")


@case("KIP-848")
def commits_in_transactions(w: World) -> None:
    """With the member's epoch, others, and without."""
    topic, group, txn = w.topic(partitions=2), w.group(), w.begun()
    first, second = w.consumer(group, "m1", topic), w.consumer(group, "m2", topic)
    first.join()
    old = first.epoch
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=old, member_id="m1", label="current")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=old + 1, member_id="m1", label="newer")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=old - 1, member_id="m1", label="older")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=old, member_id="x", label="a stranger")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, label="no member")
    second.join()
    w.share_out(first, second)
    for index in range(2):
        w.commit_in_txn(txn, group, {topic: {index: 2}}, generation=old, member_id="m1", label=f"older for {index}")
    w.end(txn, label="commit")
    w.committed(group, {topic: [0, 1]}, label="committed")


@case("KIP-848")
def deletions(w: World) -> None:
    """Offsets of topics to which members subscribe are not deleted."""
    topic, other, group = w.topic(), w.topic(), w.group()
    (member,) = w.consumers(group, topic, "m1")
    w.commit(group, {topic: {0: 1}, other: {0: 2}}, generation=member.epoch, member_id="m1", label="commits")
    w.delete_offsets(group, {topic: [0], other: [0]}, label="subscribed and not")
    member.leave()
    w.delete_offsets(group, {topic: [0]}, label="without a member")
    w.committed(group, {topic: [0], other: [0]}, label="left")


@case("KIP-848")
def records_of_members(w: World) -> None:
    """Of a group with two members, from the first join to the group's end."""
    topic, group = w.topic(partitions=2), w.group()
    first = w.consumer(group, "m1", topic, rack="r", assignor="range")
    second = w.consumer(group, "m2", topic)
    first.join()
    w.commit(group, {topic: {0: 1}}, generation=first.epoch, member_id="m1", label="commits")
    second.join()
    w.share_out(first, second)
    first.leave()
    w.share_out(second)
    second.leave()
    w.delete_groups(group, label="deletes the group")
    w.records_of(group, label="log")


@case("KIP-848")
def records_of_static_members(w: World) -> None:
    """That leave for a while and come back under another id."""
    topic, group = w.topic(partitions=2), w.group()
    first = w.consumer(group, "m1", topic, instance="i1")
    first.join()
    first.leave(for_a_while=True)
    again = w.consumer(group, "m2", topic, instance="i1")
    again.join()
    again.leave()
    w.records_of(group, label="log")


@case("KIP-848")
def records_of_regular_expressions(w: World) -> None:
    """Of their topics, and their deletion with the last member that has them."""
    topic, group = w.topic(), w.group()
    first = w.consumer(group, "m1", regex=topic.name)
    first.join()
    w.until_owned(first, 1)
    first.leave()
    w.delete_groups(group, label="deletes the group")
    w.records_of(group, label="log", in_order=False)


@case("KIP-848")
def records_of_changed_protocols(w: World) -> None:
    """From a classic group to a consumer group, and back."""
    topic, group = w.topic(), w.group()
    (classic,) = w.stable(group)
    classic.leave(label="the classic member leaves")
    member = w.consumer(group, "m1", topic)
    member.join()
    member.leave()
    (classic,) = w.stable(group)
    classic.leave(label="another classic member leaves")
    w.records_of(group, label="log")
