"""ShareFetch and ShareAcknowledge (KIP-932): records for several members, acknowledgements, sessions, offsets and what is kept."""

from typing import Any

from fencepost.producer.wire.messages import share_state
from tests.conformance.batches import Rec, of, plain
from tests.conformance.stage import Topic
from tests.conformance.world import World, case

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def filled(w: World, *sizes: int, partitions: int = 1) -> Topic:
    """A topic whose first partition has batches of these sizes."""
    topic = w.topic(partitions=partitions)
    for number, size in enumerate(sizes):
        w.produce(plain(*[Rec()] * size), topic, label=f"batch {number}")
    return topic


@case("KIP-932")
def records_for_two_members(w: World) -> None:
    """Each record goes to one of them. What one releases or loses, another gets; what is rejected, none."""
    topic, group = filled(w, 2, 3, 1), w.share_group()
    first, second = w.sharers(group, topic, "m1", "m2")
    first.fetch(topic, max_records=1, label="first, a batch at least")
    second.fetch(topic, label="second, the rest")
    second.fetch(topic, max_wait_ms=100, label="nothing is left")
    first.acknowledge(topic, (0, 0, [ACCEPT]), (1, 1, [RELEASE]), label="first acknowledges")
    second.acknowledge(topic, (2, 4, [ACCEPT, REJECT, RELEASE]), label="second acknowledges")
    second.acknowledge(topic, (5, 5, [RELEASE]), label="second releases")
    first.fetch(topic, label="first again")
    first.acknowledge(topic, (1, 5, [ACCEPT, GAP, GAP, ACCEPT, ACCEPT]), label="with gaps that are none of its")
    first.acknowledge(topic, (1, 1, [ACCEPT]), (4, 5, [ACCEPT]), label="first is done")
    w.share_offsets(group, label="in the end")
    w.state_records_of(group, topic, label="kept")


@case("KIP-932")
def every_version(w: World) -> None:
    """Both APIs in both versions."""
    topic, group = filled(w, 1, 1), w.share_group()
    (member,) = w.sharers(group, topic, "m1")
    for version in (1, 2):
        member.fetch(topic, version=version, max_records=1, label=f"v{version} fetch")
        member.acknowledge(topic, (version - 1, version - 1, [ACCEPT]), version=version, label=f"v{version} acknowledge")
    member.fetch(topic, epoch=-1, partitions=(), label="the last")


@case("KIP-932")
def acknowledgements_with_a_fetch(w: World) -> None:
    """Their results are beside the records, and partitions without either are left out."""
    topic, group = filled(w, 1, 1, 1), w.share_group()
    (member,) = w.sharers(group, topic, "m1")
    member.fetch(topic, acks={0: [(0, 0, [ACCEPT])]}, label="in the first request")
    member.fetch(topic, max_records=1, label="one")
    member.fetch(topic, max_records=1, acks={0: [(0, 0, [ACCEPT])]}, label="another")
    member.fetch(topic, max_records=1, acks={0: [(0, 0, [ACCEPT])]}, label="acknowledged again")
    member.fetch(topic, max_wait_ms=100, acks={0: [(1, 2, [ACCEPT])]}, label="both")
    w.share_offsets(group, label="in the end")


@case("KIP-932")
def odd_acknowledgements(w: World) -> None:
    """Ranges and types that are wrong, and records of another member."""
    topic, group = filled(w, 3, 3), w.share_group()
    first, second = w.sharers(group, topic, "m1", "m2")
    first.fetch(topic, max_records=1, label="first")
    second.fetch(topic, label="second")
    odd: dict[str, list[tuple[int, int, list[int]]]] = {
        "an unknown type": [(0, 0, [9])],
        "a negative type": [(0, 0, [-1])],
        "no type": [(0, 0, [])],
        "too many types": [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        "too few types": [(0, 2, [ACCEPT, ACCEPT])],
        "a range backwards": [(1, 0, [ACCEPT])],
        "ranges backwards": [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
        "ranges that overlap": [(0, 1, [ACCEPT]), (1, 2, [ACCEPT])],
        "a renewal that is not announced": [(0, 0, [RENEW])],
        "another's": [(3, 3, [ACCEPT])],
        "its and another's": [(2, 3, [ACCEPT])],
        "beyond the end": [(6, 6, [ACCEPT])],
        "far beyond the end": [(2, 100, [ACCEPT])],
        "a negative offset": [(-2, -1, [ACCEPT])],
        "nothing": [],
    }
    for what, acks in odd.items():
        first.acknowledge(topic, *acks, label=what)
    first.acknowledge(topic, (0, 0, [RENEW]), version=1, label="a renewal in version 1")
    first.acknowledge(topic, (0, 2, [ACCEPT]), label="all of its")
    first.acknowledge(topic, (0, 2, [ACCEPT]), label="again")
    first.acknowledge(topic, (0, 0, [ACCEPT]), partition=7, label="a partition that is not there")
    first.acknowledge(w.missing_topic(), (0, 0, [ACCEPT]), label="a topic that is not there")
    first.acknowledge(w.topic(), (0, 0, [ACCEPT]), label="a topic of which it has nothing")


@case("KIP-932")
def sessions(w: World) -> None:
    """Epochs, partitions that are added and forgotten, and the end, which releases records."""
    topic, group = filled(w, 1, 1, partitions=3), w.share_group()
    first, second = w.sharers(group, topic, "m1", "m2")
    first.fetch(topic, epoch=1, label="no session yet")
    first.acknowledge(topic, (0, 0, [ACCEPT]), epoch=0, label="acknowledges without one")
    first.acknowledge(topic, (0, 0, [ACCEPT]), epoch=1, label="acknowledges in a missing one")
    second.fetch(topic, partitions=(1, 2), max_wait_ms=500, label="another has the empty ones")
    second.fetch(topic, epoch=-1, partitions=(), label="and ends")
    first.fetch(topic, partitions=(0, 1), max_records=1, label="begins")
    first.fetch(topic, epoch=5, label="another epoch")
    first.fetch(topic, epoch=0, partitions=(0, 1), max_wait_ms=100, max_records=1, label="begins again")
    first.fetch(topic, partitions=(2,), forget=(0,), max_wait_ms=100, label="another partition for the first one")
    first.fetch(topic, partitions=(), max_wait_ms=100, label="nothing new")
    first.fetch(topic, partitions=(7,), max_wait_ms=100, label="one that is not there")
    first.fetch(w.missing_topic(), max_wait_ms=100, node=topic.leaders[0], label="a topic that is not there")
    first.acknowledge(topic, (0, 0, [ACCEPT]), epoch=-1, label="acknowledges and ends")
    first.fetch(topic, epoch=-1, label="ends again")
    second.fetch(topic, label="another has what it had")
    second.fetch(topic, epoch=-1, partitions=(), acks={}, label="the other ends")
    first.fetch(topic, epoch=0, label="again")


@case("KIP-932")
def odd_fetches(w: World) -> None:
    """Members and groups that are not there, and requests that make no sense."""
    topic, group = filled(w, 1), w.share_group()
    stranger = w.sharer(group, "x", topic)
    stranger.fetch(topic, label="a group that never was")
    (member,) = w.sharers(group, topic, "m1")
    stranger.fetch(topic, epoch=0, max_records=1, label="a stranger has records")
    stranger.fetch(topic, epoch=-1, partitions=(), label="a stranger ends")
    member.fetch(topic, group_id=None, label="no group")
    member.fetch(topic, group_id="", label="an empty group")
    member.fetch(topic, member_id="", label="no member")
    member.fetch(topic, member_id=None, label="null for a member")
    member.fetch(topic, member_id="m" * 36, epoch=1, label="a member with 36 letters")
    member.fetch(topic, member_id="m" * 37, epoch=1, label="a member with 37 letters")
    member.fetch(topic, epoch=0, max_records=0, max_wait_ms=100, label="no records")
    member.fetch(topic, epoch=0, max_bytes=0, max_wait_ms=100, label="no bytes")
    member.fetch(topic, epoch=-2, label="epoch -2")
    member.acknowledge(topic, (0, 0, [ACCEPT]), group_id=None, label="acknowledges without a group")
    member.acknowledge(topic, (0, 0, [ACCEPT]), member_id="", label="acknowledges without a member")


@case("KIP-932")
def limits(w: World) -> None:
    """Records come in whole batches, unless the member wants an exact number; they are told in parts of the size that it asks for."""
    topic, group = filled(w, 10, 10, 10), w.share_group()
    (member,) = w.sharers(group, topic, "m1")
    member.fetch(topic, max_records=5, batch_size=4, label="five, in parts of four")
    member.fetch(topic, max_records=3, share_acquire_mode=1, label="exactly three")
    member.fetch(topic, max_records=3, share_acquire_mode=1, label="exactly three more")
    member.acknowledge(topic, (0, 9, [RELEASE]), (10, 12, [ACCEPT]), (13, 15, [RELEASE]), label="some are released")
    member.fetch(topic, max_records=12, share_acquire_mode=1, label="exactly twelve")
    member.fetch(topic, max_records=1, max_bytes=1, label="one byte")


@case("KIP-932")
def odd_limits(w: World) -> None:
    """Limits below zero, an acquire mode that does not exist, and partitions that are named twice."""
    topic, group = filled(w, 3, 2, 1, 1), w.share_group()
    (member,) = w.sharers(group, topic, "m1")
    member.fetch(topic, max_records=-1, min_bytes=10_000, max_wait_ms=1000, label="begins, and wants less than nothing")
    member.fetch(topic, max_bytes=-1, label="less than no bytes")
    member.fetch(topic, share_acquire_mode=2, label="mode 2")
    member.fetch(topic, share_acquire_mode=-1, max_records=0, label="mode -1 and no records")
    member.fetch(topic, partitions=(7,), share_acquire_mode=2, label="mode 2 and a missing partition")
    member.fetch(topic, partitions=(0, 0), max_records=1, label="a partition twice")
    member.fetch(topic, partitions=(0, 0), epoch=0, label="a partition twice to begin")
    member.fetch(topic, epoch=member.session, label="its session is gone")
    member.fetch(topic, epoch=0, min_bytes=-5, batch_size=-1, max_records=2, label="parts of less than nothing")
    member.fetch(topic, batch_size=0, max_records=2**31 - 1, label="parts of nothing")
    member.fetch(w.topic(), epoch=0, max_records=0, node=topic.leaders[0], label="nothing of a topic that the group does not know")
    member.fetch(w.topic(), epoch=0, max_bytes=0, node=topic.leaders[0], label="no bytes of one")


@case("KIP-1222")
def renewals(w: World) -> None:
    """A lock is renewed by a request that fetches nothing, or with an acknowledgement."""
    topic, group = filled(w, 2), w.share_group()
    (member,) = w.sharers(group, topic, "m1")
    member.fetch(topic, label="two")
    nothing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    member.fetch(topic, acks={0: [(0, 1, [RENEW])]}, is_renew_ack=True, **nothing, label="renewed")
    member.fetch(topic, acks={0: [(0, 1, [RENEW])]}, is_renew_ack=True, label="and wants records")
    member.acknowledge(topic, (0, 1, [RENEW, ACCEPT]), is_renew_ack=True, label="renewed and accepted")
    member.acknowledge(topic, (1, 1, [RENEW]), is_renew_ack=True, label="what was accepted")
    member.acknowledge(topic, (0, 0, [ACCEPT]), is_renew_ack=True, label="accepted")
    forbidden = w.share_group(share_renew_acknowledge_enable="false")
    (other,) = w.sharers(forbidden, topic, "m1")
    other.fetch(topic, label="another group")
    other.acknowledge(topic, (0, 0, [RENEW]), is_renew_ack=True, label="renewed where that is not allowed")


@case("KIP-932")
def deliveries_are_counted(w: World) -> None:
    """After the last one the record is archived."""
    topic, group = filled(w, 1, 1), w.share_group(share_delivery_count_limit="2")
    (member,) = w.sharers(group, topic, "m1")
    for number in range(1, 4):
        member.fetch(topic, max_records=1, max_wait_ms=1000, label=f"delivery {number}")
        offset = 0 if number < 3 else 1
        member.acknowledge(topic, (offset, offset, [RELEASE]), label=f"release {number}")
    w.share_offsets(group, label="in the end")
    w.state_records_of(group, topic, label="kept")


@case("KIP-932")
def where_a_group_begins(w: World) -> None:
    """At the end, at the beginning, or at a time."""
    topic = filled(w, 1, 1)
    for name, reset in {
        "latest": "latest",
        "earliest": "earliest",
        "an hour ago": "by_duration:PT1H",
        "a second ago": "by_duration:PT1S",
    }.items():
        group = w.share_group(earliest=False, share_auto_offset_reset=reset)
        (member,) = w.sharers(group, topic, "m1")
        member.fetch(topic, max_wait_ms=1000, label=name)
        w.share_offsets(group, label=f"offsets of {name}")


@case("KIP-932")
def aborted_transactions(w: World) -> None:
    """A group that reads only what is committed does not get them, and does not pass what is not decided."""
    topic, txn = w.topic(), w.begun()
    w.produce(plain(Rec()), topic, label="plain")
    w.add(txn, {topic: [0]}, label="added")
    w.write(txn, topic, 0, label="written")
    committed, everything = w.share_group(share_isolation_level="read_committed"), w.share_group()
    (careful,), (greedy,) = w.sharers(committed, topic, "m1"), w.sharers(everything, topic, "m1")
    careful.fetch(topic, label="before the end, committed only")
    greedy.fetch(topic, label="before the end, everything")
    w.end(txn, commit=False, label="aborted")
    w.produce(plain(Rec()), topic, label="plain again")
    careful.fetch(topic, label="committed only")
    greedy.fetch(topic, label="everything")


@case("KIP-932")
def deleted_records(w: World) -> None:
    """The group goes on at the first record that is left."""
    topic, group = filled(w, 1, 1, 1, 1), w.share_group()
    (member,) = w.sharers(group, topic, "m1")
    member.fetch(topic, max_records=1, label="one")
    w.delete_records(topic, 3, label="deleted")
    member.fetch(topic, max_wait_ms=1000, label="then")
    member.acknowledge(topic, (0, 0, [ACCEPT]), label="what it had")
    member.acknowledge(topic, (3, 3, [ACCEPT]), label="what it has")
    w.share_offsets(group, label="in the end")


@case("KIP-932")
def offsets_of_a_group(w: World) -> None:
    """They are told, altered and deleted; not while the group has members."""
    topic, other, group = filled(w, 1, 1, 1, partitions=2), w.topic(), w.share_group()
    w.share_offsets(group, label="of no group")
    w.delete_share_offsets(group, topic, label="deleted of no group")
    (member,) = w.sharers(group, topic, "m1")
    w.share_offsets(group, label="before a fetch")
    member.fetch(topic, max_records=2, label="records")
    member.acknowledge(topic, (0, 0, [ACCEPT]), label="one is done")
    for version in (0, 1):
        w.share_offsets(group, version=version, label=f"v{version} all")
        w.share_offsets(group, topic, other, w.missing_topic(), version=version, label=f"v{version} these")
    w.alter_share_offsets(group, topic, {0: 2}, label="altered with members")
    w.delete_share_offsets(group, topic, label="deleted with members")
    member.fetch(topic, epoch=-1, partitions=(), label="ends")
    member.leave()
    w.alter_share_offsets(group, topic, {0: 2, 7: 0}, label="altered")
    w.alter_share_offsets(group, other, {0: 5}, label="another topic")
    w.alter_share_offsets(group, w.missing_topic(), {0: 5}, label="a topic that is not there")
    w.share_offsets(group, label="then")
    w.delete_share_offsets(group, topic, w.missing_topic(), label="deleted")
    w.delete_share_offsets(group, topic, label="deleted again")
    w.share_offsets(group, label="in the end")
    w.records_of(group, label="written")
    w.state_records_of(group, topic, other, label="kept")


@case("KIP-932")
def a_group_that_is_made_by_its_offsets(w: World) -> None:
    """It has no members, and begins there."""
    topic, group = filled(w, 1, 1, 1), w.share_group(earliest=False)
    w.alter_share_offsets(group, topic, {0: 1}, label="altered")
    w.describe_sharers(group, label="described")
    (member,) = w.sharers(group, topic, "m1")
    member.fetch(topic, label="fetched")
    w.records_of(group, label="written")
    w.state_records_of(group, topic, label="kept")


@case("KIP-932")
def the_share_coordinator(w: World) -> None:
    """What only brokers ask it: states are made, read, written, told in short and deleted."""
    topic, group = w.topic(partitions=2), w.group()
    w.state_coordinator(group, topic)
    w.read_state(group, topic, label="nothing is there")
    w.summarize_state(group, topic, label="nothing to tell")
    w.write_state(group, topic, start_offset=0, label="nothing to write to")
    w.initialize_state(group, topic, state_epoch=1, start_offset=10, label="made")
    w.initialize_state(group, topic, state_epoch=0, start_offset=10, label="made with an old epoch")
    w.initialize_state(group, topic, state_epoch=1, start_offset=10, label="made again")
    w.read_state(group, topic, leader_epoch=2, label="read")
    w.read_state(group, topic, leader_epoch=1, label="read by an old leader")
    w.summarize_state(group, topic, leader_epoch=2, label="told")
    w.summarize_state(group, topic, leader_epoch=2, version=0, label="told v0")
    some = [(10, 12, 2, 1), (13, 14, 0, 1), (15, 15, 4, 5)]
    w.write_state(group, topic, state_epoch=1, leader_epoch=2, start_offset=10, batches=some, delivery_complete_count=4, label="written")
    w.write_state(group, topic, state_epoch=1, leader_epoch=1, start_offset=10, label="written by an old leader")
    w.write_state(group, topic, state_epoch=0, leader_epoch=2, start_offset=10, label="written with an old state")
    w.read_state(group, topic, leader_epoch=2, label="read then")
    more = [(13, 14, 2, 2), (16, 20, 2, 1)]
    w.write_state(
        group, topic, state_epoch=1, leader_epoch=2, start_offset=13, batches=more, delivery_complete_count=8, label="written more"
    )
    w.write_state(group, topic, state_epoch=1, leader_epoch=2, start_offset=-1, batches=[(21, 21, 2, 1)], version=0, label="written v0")
    w.read_state(group, topic, leader_epoch=3, label="read by a new leader")
    w.summarize_state(group, topic, leader_epoch=3, label="told then")
    w.read_state(group, topic, partition=-1, label="a negative partition")
    w.read_state(group, w.missing_topic(), label="a topic that is not there")
    w.read_state(group, w.missing_topic(zero_id=True), label="no topic")
    w.read_state("", topic, label="no group")
    twice = [share_state.ReadPartition(leader_epoch=epoch) for epoch in (0, 3)]
    for name, topics in {
        "in a topic": [share_state.ReadTopic(topic_id=topic.id, partitions=twice)],
        "in a topic that is named twice": [share_state.ReadTopic(topic_id=topic.id, partitions=[each]) for each in twice],
    }.items():
        w.say(share_state.ReadShareGroupStateRequest(group_id=group, topics=topics), 0, label=f"a partition twice {name}")
    once = [share_state.ReadTopic(topic_id=topic.id, partitions=[share_state.ReadPartition()])]
    w.say(share_state.ReadShareGroupStateRequest(group_id=" ", topics=once), 0, label="a group whose name is a space")
    w.delete_state(group, topic, label="deleted")
    w.delete_state(group, topic, label="deleted again")
    w.read_state(group, topic, label="read in the end")
    w.state_records_of(group, topic, label="kept")


@case("KIP-932", brokers=3)
def another_leader(w: World) -> None:
    """The old leader tells the new one, which has what was acknowledged and gives out the rest again."""
    topic, group = w.topic(replicas=3), w.share_group()
    for number in range(3):
        w.produce(plain(Rec()), topic, label=f"batch {number}")
    (member,) = w.sharers(group, topic, "m1")
    follower = w.follower(topic)
    member.fetch(topic, node=follower, label="at a follower")
    member.acknowledge(topic, (0, 0, [ACCEPT]), node=follower, epoch=1, label="acknowledged at a follower")
    member.session = 0
    member.fetch(topic, max_records=2, label="at the leader")
    member.acknowledge(topic, (0, 0, [ACCEPT]), (1, 1, [RELEASE]), label="acknowledged")
    w.move_leader(topic)
    w.share(member, topic=topic)
    member.session = 0
    member.fetch(topic, label="at the new leader")


@case("KIP-932")
def waiting(w: World) -> None:
    """A fetch waits for records, and for enough bytes."""
    topic, group = w.topic(), w.share_group()
    (member,) = w.sharers(group, topic, "m1")
    member.fetch(topic, max_wait_ms=500, timed=True, label="nothing")
    w.produce(plain(Rec()), topic, label="one")
    member.fetch(topic, max_wait_ms=500, min_bytes=10_000, timed=True, label="too few bytes")
    w.produce(of(w.pid(), 0, 0, 2), topic, label="two")
    member.fetch(topic, max_wait_ms=500, timed=True, label="at once")
    member.fetch(topic, max_wait_ms=0, timed=True, label="nothing left")
