"""Classic groups: joining, syncing, heartbeats, leaving, and refusals."""

from tests.conformance.group_member import RANGE, subscription
from tests.conformance.world import World, case

# Metadata that is no subscription stays below six bytes: Kafka trips over longer ones, depending on the member that it looks at first.
COOPERATIVE = ("cooperative", b"c")


@case("J7", "J8")
def the_first_member(w: World) -> None:
    """It joins, leads, assigns and sends heartbeats, in every version. From version 4 on it first gets an id."""
    for version in range(10):
        first = w.member(w.group(), version=version)
        first.join(label=f"v{version} joins")
        if version >= 4:
            first.join(label=f"v{version} joins with its id")
        first.sync({first.id: b"all"}, label=f"v{version} syncs")
        first.heartbeat(label=f"v{version} lives")
        first.leave(label=f"v{version} leaves")


@case()
def the_other_requests_in_every_version(w: World) -> None:
    """SyncGroup, Heartbeat and LeaveGroup mean the same in every version."""
    for version in range(6):
        first = w.member(w.group(), version=3)
        first.join(label=f"v{version} joins")
        first.sync({first.id: b"all"}, version=version, label=f"v{version} syncs")
        if version < 5:
            first.heartbeat(version=version, label=f"v{version} lives")
        first.leave(version=version, label=f"v{version} leaves")


@case()
def a_second_member(w: World) -> None:
    """It waits until the first one has joined again. The leader gets both, and assigns to both."""
    group = w.group()
    (first,) = w.stable(group)
    second = w.member(group)
    second.join(label="second is given an id")
    second.send_join(protocols=[("range", b"two")])
    w.until_state(group, "PreparingRebalance")
    second.is_waiting(label="second")
    first.heartbeat(label="first is told")
    first.send_join(protocols=[("range", b"one")])
    first.joined(label="first joins again")
    second.joined(label="second has joined")
    second.send_sync()
    second.is_waiting(label="second syncs and")
    first.sync({first.id: b"one", second.id: b"two"}, label="first syncs")
    second.receive_sync(label="second has synced")
    first.heartbeat(label="first lives")
    second.heartbeat(label="second lives")
    second.sync(label="second syncs again")


@case()
def a_member_without_an_assignment(w: World) -> None:
    """A member that the leader leaves out gets an empty assignment. The coordinator ignores assignments from a follower."""
    group = w.group()
    first, second = w.stable(group, 2)
    second.sync({second.id: b"mine"}, label="a follower assigns to itself")
    first.send_join()
    w.until_state(group, "PreparingRebalance")
    second.send_join()
    first.joined(label="first")
    second.joined(label="second")
    first.sync({first.id: b"all"}, label="first syncs")
    second.sync(label="second syncs")


@case("J13", "J14")
def joining_again(w: World) -> None:
    """A follower with an unchanged subscription changes nothing. One with a changed subscription, and a leader, begin a rebalance."""
    group = w.group()
    first, second = w.stable(group, 2)
    second.join(label="the follower again")
    second.heartbeat(label="lives in the same generation")
    second.send_join(protocols=[("range", b"new")])
    w.until_state(group, "PreparingRebalance")
    first.send_join()
    second.joined(label="the follower with something new")
    first.joined(label="and the leader")
    second.join(protocols=[("range", b"new")], label="the follower while others sync")
    first.join(label="the leader while others sync")
    first.sync({first.id: b"1", second.id: b"2"}, label="the leader syncs")
    first.send_join()
    w.until_state(group, "PreparingRebalance")
    second.send_join()
    first.joined(label="the leader in a stable group")
    second.joined(label="and its follower")


@case()
def changed_while_syncing(w: World) -> None:
    """If a member changes while others wait for their assignments, those must join again."""
    group = w.group()
    first, second = w.stable(group, 2)
    first.send_join()
    w.until_state(group, "PreparingRebalance")
    second.send_join()
    first.joined(label="first")
    second.joined(label="second")
    second.send_sync()
    second.is_waiting(label="second syncs and")
    first.send_join(protocols=[("range", b"new")])
    second.receive_sync(label="second is sent back")
    second.send_join()
    first.joined(label="first again")
    second.joined(label="second again")


@case()
def members_that_stay_away(w: World) -> None:
    """A member that does not join within the rebalance timeout is removed. If it was the leader, another one leads."""
    group = w.group()
    first, second = w.stable(group, 2)
    second.send_join(protocols=[("range", b"new")], rebalance_ms=300)
    first.send_join(rebalance_ms=300)
    second.joined(label="second")
    first.joined(label="first")
    first.sync({first.id: b"1", second.id: b"2"}, label="first syncs")
    second.sync(label="second syncs")
    second.join(protocols=[("range", b"newer")], rebalance_ms=300, label="the leader stayed away")
    first.heartbeat(label="its heartbeat")
    first.join(label="it comes back with its id")
    w.describe_groups(group, label="who is left")


@case()
def members_that_do_not_sync(w: World) -> None:
    """A member that sends no SyncGroup within the rebalance timeout is removed."""
    group = w.group()
    first = w.member(group)
    first.join(label="is given an id")
    first.join(rebalance_ms=300, label="joins")
    w.until_state(group, "Empty")
    first.sync({}, label="syncs too late")
    first.heartbeat(label="lives no more")


@case("J6")
def protocols(w: World) -> None:
    """All members must know one assignor, and have the group's type. The assignor with the most votes is chosen."""
    group = w.group()
    first = w.member(group)
    first.join(protocols=[], label="none")
    first.join(protocol_type="", label="no type")
    first.join(label="is given an id")
    first.join(protocols=[COOPERATIVE, RANGE], label="two")
    first.sync({first.id: b""}, label="syncs")
    second = w.member(group)
    second.join(protocols=[("other", b"")], label="another assignor")
    second.join(protocol_type="connect", label="another type")
    second.join(protocols=[], label="none, of a group with members")
    second.join(protocols=[RANGE], label="an assignor that is known")
    second.send_join(protocols=[RANGE])
    w.until_state(group, "PreparingRebalance")
    first.send_join(protocols=[COOPERATIVE, RANGE])
    first.joined(label="first")
    second.joined(label="second")


@case()
def votes(w: World) -> None:
    """Two of three members prefer one assignor."""
    group = w.group()
    members = w.stable(group, 3)
    for member, liked in zip(members, ("range", "cooperative", "cooperative"), strict=True):
        other = "cooperative" if liked == "range" else "range"
        member.send_join(protocols=[(liked, b"1"), (other, b"2")])
    members[0].joined(label="the leader")


@case("J1", "J2", "J3")
def joins_that_are_refused(w: World) -> None:
    """No group id, sessions too short or too long, unknown members."""
    group = w.group()
    for version in (0, 4, 9):
        w.member("", version=version).join(label=f"v{version} no group id")
        for session_ms in (0, 5_999, 1_800_001):
            w.member(group, version=version).join(session_ms=session_ms, label=f"v{version} session of {session_ms} ms")
        w.member(group, version=version).join(member_id="nobody-1", label=f"v{version} unknown group, member id given")
    w.stable(group)
    for version in (0, 4, 9):
        w.member(group, version=version).join(member_id="nobody-1", label=f"v{version} unknown member")


@case()
def requests_of_strangers(w: World) -> None:
    """Sync, heartbeat and leave of unknown groups, unknown members and other generations."""
    unknown, group = w.group(), w.group()
    (known,) = w.stable(group)
    for label, member in (("unknown group", w.member(unknown)), ("no group id", w.member("")), ("known group", w.member(group))):
        member.sync({}, member_id="x-1", generation=1, label=f"{label}: sync")
        member.sync({}, member_id="", generation=1, label=f"{label}: sync without an id")
        member.heartbeat(member_id="x-1", generation=1, label=f"{label}: heartbeat")
        member.leave(("x-1", None), label=f"{label}: leave")
        member.leave(("", None), label=f"{label}: leave without an id")
        member.leave(("", "nobody"), label=f"{label}: leave by instance id")
    for generation in (-1, 0, known.generation + 1):
        known.sync({}, generation=generation, label=f"sync of generation {generation - known.generation:+d}")
        known.heartbeat(generation=generation, label=f"heartbeat of generation {generation - known.generation:+d}")
    for kind, name in ((None, None), ("consumer", None), (None, "range"), ("connect", "range"), ("consumer", "other")):
        known.sync({}, protocol=(kind, name), label=f"sync with {kind} and {name}")
    known.sync({}, version=4, protocol=(None, None), label="version 4 says nothing of protocols")


@case()
def leaving(w: World) -> None:
    """One member leaves, and the other learns of it. Several leave at once. A member that waits for its JoinGroup is removed."""
    group = w.group()
    first, second = w.stable(group, 2)
    second.leave(label="second leaves")
    first.heartbeat(label="first is told")
    first.join(label="first is alone")
    first.leave((first.id, None), ("nobody-1", None), (first.id, None), label="first, nobody, and first again")
    w.describe_groups(group, label="the group")
    third = w.member(group)
    third.join(label="third is given an id")
    third.leave(label="third leaves before it has joined")
    third.join(label="third joins with the id that it had")


@case()
def leaving_while_another_waits(w: World) -> None:
    """The last member for which the group waits leaves. The others get their responses."""
    group = w.group()
    first, second = w.stable(group, 2)
    second.send_join(protocols=[("range", b"new")])
    w.until_state(group, "PreparingRebalance")
    first.leave(label="first leaves")
    second.joined(label="second leads now")


@case("KIP-345")
def static_members(w: World) -> None:
    """They return under a new id with their old assignment, and fence the old id."""
    for version in (5, 9):
        group = w.group()
        leader = w.member(group, instance="i1", version=version)
        leader.join(label=f"v{version} leader")
        leader.sync({leader.id: b"mine"}, label=f"v{version} leader syncs")
        again = w.member(group, instance="i1", version=version)
        again.join(label=f"v{version} comes back")
        again.sync({}, label=f"v{version} still has")
        leader.heartbeat(label=f"v{version} the old id's heartbeat")
        leader.sync({}, label=f"v{version} the old id's sync")
        leader.join(label=f"v{version} the old id's join")
        again.heartbeat(label=f"v{version} the new id's heartbeat")
        again.leave(("", "i1"), label=f"v{version} leaves by its instance id")
        again.heartbeat(label=f"v{version} has left")


@case("KIP-345")
def static_members_in_a_rebalance(w: World) -> None:
    """A member that returns while others sync begins another rebalance. While they join, it counts as joined."""
    group = w.group()
    first = w.member(group, instance="i1")
    first.join(label="first")
    again = w.member(group, instance="i1")
    again.join(label="comes back before anybody has synced")
    again.sync({again.id: b"1"}, label="syncs")
    other = w.member(group, instance="i2")
    other.send_join()
    w.until_state(group, "PreparingRebalance")
    last = w.member(group, instance="i1")
    last.join(label="comes back while another joins")
    other.joined(label="the other has joined")
    unknown = w.member(group, instance="i3")
    unknown.join(member_id="nobody-1", label="an unknown instance with a member id")
    unknown.heartbeat(member_id="nobody-1", generation=1, label="its heartbeat")
    last.leave((other.id, "i1"), label="leaves with another's id")


@case("KIP-345")
def static_members_with_another_protocol(w: World) -> None:
    """If the returning member changes the chosen assignor, there is a rebalance."""
    group = w.group()
    first = w.member(group, instance="i1")
    first.join(protocols=[RANGE, COOPERATIVE], label="first")
    first.sync({first.id: b"1"}, label="syncs")
    again = w.member(group, instance="i1")
    again.join(protocols=[COOPERATIVE, RANGE], label="likes another one best")


@case()
def a_session_that_ends(w: World) -> None:
    """Without a heartbeat the coordinator removes a member after its session timeout, also a static one."""
    dynamic, static = w.group(), w.group()
    first = w.member(dynamic)
    first.join(session_ms=6_000, label="is given an id")
    first.join(session_ms=6_000, label="joins")
    first.sync({first.id: b"1"}, label="syncs")
    second = w.member(static, instance="i1")
    second.join(session_ms=6_000, label="a static one joins")
    second.sync({second.id: b"1"}, label="and syncs")
    w.until_state(dynamic, "Empty")
    w.until_state(static, "Empty")
    first.heartbeat(label="too late")
    second.heartbeat(label="too late for the static one, too")


@case()
def described(w: World) -> None:
    """In every state and version. Unknown groups are dead, or not found from version 6 on."""
    group, unknown = w.group(), w.group()
    first = w.member(group)
    w.describe_groups(group, unknown, label="before")
    first.join(label="is given an id")
    w.describe_groups(group, label="with an id given")
    first.join(label="joins")
    w.describe_groups(group, label="joined")
    first.sync({first.id: b"mine"}, label="syncs")
    for version in range(7):
        w.describe_groups(group, unknown, version=version, label=f"v{version}")
    for version in (3, 6):
        w.describe_groups(group, unknown, version=version, operations=True, label=f"v{version} with operations")
    first.leave(label="leaves")
    w.describe_groups(group, label="empty")


@case()
def listed(w: World) -> None:
    """With type and state. Filters ignore case. Simple groups have no protocol."""
    stable, simple, empty = w.group(), w.group(), w.group()
    w.stable(stable)
    (gone,) = w.stable(empty)
    gone.leave(label="leaves")
    w.commit(simple, {w.topic(): {0: 1}}, label="a simple group")
    for version in range(6):
        w.list_groups(version=version, label=f"v{version}")
    for states in (["Stable"], ["stable"], ["EMPTY"], ["Empty", "Stable"], ["Dead"], ["nonsense"], [" Stable "]):
        w.list_groups(states=states, label=f"states {states}")
    for types in (["classic"], ["Classic"], ["consumer"], ["classic", "share"], ["nonsense"]):
        w.list_groups(types=types, label=f"types {types}")
    w.list_groups(states=["Stable"], types=["classic"], label="both")


@case()
def deleted(w: World) -> None:
    """Only groups without members can be deleted; their offsets are deleted with them."""
    group, stable, unknown = w.group(), w.group(), w.group()
    topic = w.topic()
    w.stable(stable)
    for version in range(3):
        w.commit(group, {topic: {0: 5}}, label=f"v{version} commit")
        w.delete_groups(group, version=version, label=f"v{version} delete")
        w.delete_groups(group, version=version, label=f"v{version} delete again")
        w.committed(group, {topic: [0]}, label=f"v{version} committed")
    w.delete_groups(stable, label="a group with a member")
    w.delete_groups(unknown, unknown, label="an unknown one, twice")


@case()
def a_consumers_subscription(w: World) -> None:
    """Offsets of topics to which members subscribe cannot be deleted."""
    group, topic, other = w.group(), w.topic(), w.topic()
    first = w.member(group)
    first.join(label="is given an id")
    first.join(protocols=[("range", subscription(topic.name))], label="joins")
    first.sync({first.id: b""}, label="syncs")
    w.commit(group, {topic: {0: 1}, other: {0: 2}}, member=first, label="commits")
    w.delete_offsets(group, {topic: [0], other: [0]}, label="subscribed and not")
    w.committed(group, {topic: [0], other: [0]}, label="left")


@case(brokers=3)
def asked_of_another_broker(w: World) -> None:
    """NOT_COORDINATOR for every request."""
    group, topic = w.group(), w.topic()
    w.stable(group)
    another = w.another_broker(group)
    for version in (0, 4, 9):
        w.member(group, version=version, node=another).join(label=f"JoinGroup v{version}")
    stranger = w.member(group, node=another)
    stranger.join(session_ms=1, label="JoinGroup with a short session")
    stranger.join(member_id="x-1", label="JoinGroup with a member id")
    stranger.sync({}, member_id="x-1", generation=1, label="SyncGroup")
    stranger.heartbeat(member_id="x-1", generation=1, label="Heartbeat")
    stranger.leave(("x-1", None), label="LeaveGroup")
    stranger.leave(version=1, label="LeaveGroup v1")
    w.describe_groups(group, node=another, label="DescribeGroups")
    w.delete_groups(group, node=another, label="DeleteGroups")
    for version in (2, 9, 10):
        w.commit(group, {topic: {0: 1}}, version=version, node=another, label=f"OffsetCommit v{version}")
    for version in (1, 2, 7, 8, 10):
        w.committed(group, {topic: [0]}, version=version, node=another, label=f"OffsetFetch v{version}")
    w.delete_offsets(group, {topic: [0]}, node=another, label="OffsetDelete")


@case()
def a_protocol_named_twice(w: World) -> None:
    """It does no harm beside another one that is named once."""
    group = w.group()
    first = w.member(group, version=9)
    first.invite()
    first.join(protocols=[RANGE, COOPERATIVE, COOPERATIVE], label="joins")
    w.describe_groups(group, label="the group then")
    w.member(group, version=3).join(label="another comes")


@case()
def no_protocol_but_one_named_twice(w: World) -> None:
    """The effect on the member, on the group and on later members."""
    group = w.group()
    w.member(group, version=3).joins_or_not(protocols=[RANGE, ("range", b"s")], label="joins")
    w.describe_groups(group, label="the group then")
    w.member(group, version=3).joins_or_not(label="another comes")
