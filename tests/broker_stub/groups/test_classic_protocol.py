"""Classic groups under a virtual clock: which members the coordinator waits for, how long, and what a new coordinator knows.

tests/conformance compares the responses, in every version, with those of Apache Kafka.
"""

from __future__ import annotations

import logging

import pytest

from fencepost.broker_stub.groups.state.classic_states import TABLE, Event, State, diagram
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupRequest
from tests.broker_stub.groups.group_calls import REBALANCE_MS, SESSION_MS, Groups

NEW_MEMBER_MS = 300_000


def test_the_table_is_whole() -> None:
    """Every state is in it and can be reached, every group can be unloaded, and nothing leads out of death; the diagram shows it all."""
    assert set(TABLE) == set(State)
    assert {state for events in TABLE.values() for state in events.values()} == set(State)
    assert [state for state, events in TABLE.items() if Event.UNLOADED not in events] == [State.DEAD]
    assert TABLE[State.DEAD] == {}
    drawn = diagram()
    assert all(f"{state.value} --> {after.value}: {event.value}" in drawn for state, row in TABLE.items() for event, after in row.items())


def test_what_cannot_happen_does_not() -> None:
    """An event that a state does not have is an error, not a change."""
    world = Groups()
    world.stable("a")
    group = world.group()
    with pytest.raises(KeyError):
        group.happened(Event.JOINED, 0, "nobody joins a stable group")
    assert group.state is State.STABLE


def test_what_is_logged_of_a_group(caplog: pytest.LogCaptureFixture) -> None:
    """A client's name of a group cannot begin a line of the log or control a terminal."""
    caplog.set_level(logging.DEBUG)
    world = Groups()
    world.member("a", group="g\x1b[2J\nERROR forged\u202e").join()
    world.now()
    lines = [each.getMessage() for each in caplog.records if "forged" in each.getMessage()]
    assert lines
    assert [line for line in lines if not line.isprintable()] == []


def test_the_first_members_wait_for_more() -> None:
    """With an initial delay no member is answered before it is over. A window with a new member is followed by another window."""
    world = Groups(config={"group.initial.rebalance.delay.ms": "3000"})
    first = world.member("a").join()
    world.pass_time(2_999)
    assert first.waits
    second = world.member("b").join()
    world.pass_time(1)
    assert first.waits
    world.pass_time(2_999)
    assert first.waits
    world.pass_time(1)
    assert (first.answer.generation_id, second.answer.generation_id) == (1, 1)
    assert len(first.answer.members) == 2


def test_the_first_members_do_not_wait_forever() -> None:
    """The initial delay never grows beyond the rebalance timeout, however many come."""
    world = Groups(config={"group.initial.rebalance.delay.ms": "3000"})
    waiting = [world.member("a").join(rebalance_ms=7_000)]
    for number in range(6):
        world.pass_time(1_000)
        waiting.append(world.member(f"b{number}").join(rebalance_ms=7_000))
        assert all(pending.waits for pending in waiting)
    world.pass_time(1_000)
    assert {pending.answer.generation_id for pending in waiting} == {1}


@pytest.mark.parametrize(("delay_ms", "rebalance_ms"), [(3_000, 3_000), (3_000, 2_000), (3_000, 6_000), (3_000, 3_001), (0, 3_000)])
def test_the_first_members_wait_as_long_as_the_rebalance_may_take(delay_ms: int, rebalance_ms: int) -> None:
    """However many are on their way; the first delay is the least."""
    world = Groups(config={"group.initial.rebalance.delay.ms": str(delay_ms)})
    waiting = [world.member("a").join(rebalance_ms=rebalance_ms)]
    until_ms = max(delay_ms, rebalance_ms) if delay_ms else 0
    for now_ms in range(until_ms):
        if now_ms % 1_000 == 500:
            waiting.append(world.member(f"b{now_ms}").join(rebalance_ms=rebalance_ms))
        assert all(pending.waits for pending in waiting)
        world.pass_time(1)
    world.now()
    assert {pending.answer.generation_id for pending in waiting} == {1}


def test_the_delay_of_a_group_that_begins_again_is_the_first_ones() -> None:
    """Members of earlier rounds do not prolong the delay: a single new member waits for one window."""
    world = Groups(config={"group.initial.rebalance.delay.ms": "3000"})
    for generation in (1, 3):
        member = world.member("a")
        waiting = member.join()
        world.pass_time(2_999)
        assert waiting.waits
        world.pass_time(1)
        assert member.heard(waiting.answer).generation_id == generation
        assert member.leave() == ErrorCode.NONE
        world.now()
        assert world.group().state is State.EMPTY


def test_an_id_that_was_joined_with_ends_no_delay() -> None:
    """The time for which the coordinator keeps an unused member id ends no delay of a member that has joined with it."""
    world = Groups(config={"group.initial.rebalance.delay.ms": str(2 * SESSION_MS)})
    waiting = [world.member("a").join(), world.member("b").join()]
    world.pass_time(2 * SESSION_MS - 1)
    assert [pending.waits for pending in waiting] == [True, True]


@pytest.mark.parametrize(("protocol_type", "code"), [("consumer", ErrorCode.NONE), ("connect", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)])
def test_members_that_join_after_the_first_ones_have_left(protocol_type: str, code: ErrorCode) -> None:
    """The assignors of members that have left do not count. While the delay lasts, the group keeps the protocol type of its first
    member."""
    world = Groups(config={"group.initial.rebalance.delay.ms": "3000"})
    first, second = world.member("a"), world.member("b")
    first.join()
    assert first.leave() == ErrorCode.NONE
    waiting = second.join(protocols={"another": b""}, protocol_type=protocol_type)
    for _ in range(2):
        world.pass_time(3_000)
    assert waiting.answer.error_code == code


def test_a_member_id_in_a_missing_group_is_refused() -> None:
    """The coordinator did not give out this id. It says so, also if the request has other errors, and no group begins."""
    world = Groups()
    for protocol_type in ("consumer", ""):
        stranger = world.member("a")
        stranger.id = "stranger"
        assert stranger.join(protocol_type=protocol_type).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.services.groups.shard_for("g", world.coordinator()).groups.groups == {}


@pytest.mark.parametrize(
    ("version", "protocol_type", "protocol", "code"),
    [
        (5, "consumer", "range", ErrorCode.NONE),
        (4, None, None, ErrorCode.NONE),
        (5, None, None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (5, "connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (5, "consumer", "roundrobin", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_an_assignment_is_asked_for_in_the_groups_own_words(
    version: int, protocol_type: str | None, protocol: str | None, code: ErrorCode
) -> None:
    """A SyncGroup that names another protocol than the group chose gets no assignment, nor does one that could name it and does not
    (KIP-559)."""
    world = Groups()
    (member,) = world.stable("a")
    request = SyncGroupRequest(
        group_id="g", generation_id=member.generation, member_id=member.id, protocol_type=protocol_type, protocol_name=protocol
    )
    answer = world.start(request, version).answer
    assert (answer.error_code, answer.assignment) == (code, b"" if code else b"a")


def test_a_silent_member_is_out_after_its_session() -> None:
    """Heartbeats keep it; without one it is out after its session timeout, and the others are told."""
    world = Groups()
    first, second = world.stable("a", "b")
    for _ in range(3):
        world.pass_time(SESSION_MS - 1)
        assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    world.pass_time(SESSION_MS - 1)
    assert first.heartbeat() == ErrorCode.NONE
    world.pass_time(1)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    alone = first.join()
    assert [each.member_id for each in alone.answer.members] == [first.id]


def test_a_static_member_is_out_after_its_session_too() -> None:
    """Until its session ends its place is kept: a member that joins with its instance id gets its assignment, and the old id is fenced."""
    world = Groups()
    first, second = world.stable("a", "b", static=True)
    old_id = second.id
    world.pass_time(SESSION_MS - 1)
    assert first.heartbeat() == ErrorCode.NONE
    again = world.member("b", instance="b")
    again.heard(again.join().answer)
    assert again.id != old_id
    assert again.sync().answer.assignment == b"b"
    assert second.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    world.pass_time(SESSION_MS - 1)
    assert first.heartbeat() == ErrorCode.NONE
    world.pass_time(1)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert again.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_wait_need_no_heartbeat() -> None:
    """A member that waits for its JoinGroup response outlives its session. Only the rebalance timeout ends the wait."""
    world = Groups()
    first, second = world.stable("a", "b")
    waiting = second.join(protocols={"range": b"new"})
    for _ in range(5):
        world.pass_time(SESSION_MS - 1)
        assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.waits
    world.pass_time(REBALANCE_MS - 5 * (SESSION_MS - 1))
    assert [each.member_id for each in waiting.answer.members] == [second.id]
    assert waiting.answer.leader == second.id
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_is_given_up_after_five_minutes() -> None:
    """A client that went away while it joined for the first time cannot say so."""
    world = Groups()
    (first,) = world.stable("a", rebalance_ms=2 * NEW_MEMBER_MS, session_ms=NEW_MEMBER_MS * 3)
    lost = world.member("b").join(rebalance_ms=2 * NEW_MEMBER_MS)
    world.pass_time(NEW_MEMBER_MS - 1)
    assert lost.waits
    world.pass_time(1)
    assert lost.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.client_id for member in world.group().members.values()] == ["a"]
    assert first.join().answer.generation_id == 2


def test_an_unused_member_id_is_forgotten() -> None:
    """It holds a rebalance up for as long as its session, not for longer."""
    world = Groups()
    (first,) = world.stable("a")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    invited = world.start(request, 9).answer
    assert invited.error_code == ErrorCode.MEMBER_ID_REQUIRED
    waiting = first.join(protocols={"range": b"new"})
    world.pass_time(SESSION_MS - 1)
    assert waiting.waits
    world.pass_time(1)
    assert waiting.answer.generation_id == 2
    late = world.member("b")
    late.id = invited.member_id
    assert late.join().answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_stay_away_stay_members() -> None:
    """At the end of the rebalance timeout dynamic members are dropped; static ones are not before their session ends."""
    world = Groups()
    first, second = world.stable("a", "b", static=True, rebalance_ms=1_000)
    waiting = second.join(protocols={"range": b"new"}, rebalance_ms=1_000)
    world.pass_time(1_000)
    assert {each.group_instance_id for each in waiting.answer.members} == {"a", "b"}
    assert waiting.answer.leader == second.id
    assert first.heartbeat() == ErrorCode.ILLEGAL_GENERATION


def test_a_rebalance_without_members_begins_again() -> None:
    """With static members only, and none of them there, the join phase begins again and again until their sessions end."""
    world = Groups()
    first, second = world.stable("a", "b", static=True, rebalance_ms=1_000)
    assert second.leave() == ErrorCode.NONE
    world.pass_time(5_000)
    assert world.group().state is State.PREPARING_REBALANCE
    assert world.group().generation == first.generation
    world.pass_time(SESSION_MS - 5_000)
    assert world.group().state is State.EMPTY


def test_a_late_member_of_a_rebalance_without_members_is_answered() -> None:
    """The coordinator waits a second time for static members that all stayed away. A new member does not wait longer than that."""
    world = Groups()
    first, _, third = world.stable("a", "b", "c", static=True, rebalance_ms=1_000)
    assert third.leave() == ErrorCode.NONE
    world.pass_time(1_000)
    world.pass_time(500)
    waiting = first.join(rebalance_ms=1_000)
    world.pass_time(499)
    assert waiting.waits
    world.pass_time(1)
    assert {each.group_instance_id for each in waiting.answer.members} == {"a", "b"}
    assert (waiting.answer.leader, waiting.answer.generation_id) == (waiting.answer.member_id, first.generation + 1)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize(("session_ms", "rebalance_ms"), [(8_000, 40_000), (20_000, 120_000)])
def test_a_member_that_joins_again_says_anew_how_long_to_wait_for_it(session_ms: int, rebalance_ms: int, moves: bool) -> None:
    """Its last JoinGroup says how long it may be silent and how long a rebalance waits for it, also to the next coordinator."""
    world = Groups(brokers=3)
    first, second = members = world.stable("a", "b")
    world.join_all(*members, session_ms=session_ms, rebalance_ms=rebalance_ms)
    world.share_out(*members)
    if moves:
        world.move_coordinator()
    world.pass_time(0)
    assert [each.heartbeat() for each in members] == [ErrorCode.NONE] * 2
    waiting = second.join(protocols={"range": b"new"}, session_ms=session_ms, rebalance_ms=rebalance_ms)
    for _ in range(rebalance_ms // session_ms):
        world.pass_time(session_ms - 1)
        assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_time(rebalance_ms // session_ms - 1)
    assert waiting.waits
    world.pass_time(1)
    assert [each.member_id for each in waiting.answer.members] == [second.id]
    second.heard(waiting.answer)
    second.sync({second.id: b"all"})
    world.pass_time(session_ms - 1)
    assert list(world.group().members) == [second.id]
    world.pass_time(1)
    assert list(world.group().members) == []


def test_members_that_never_sync_are_out() -> None:
    """The group waits for their SyncGroup as long as for their JoinGroup, also when the leader has brought the assignment."""
    world = Groups()
    members = world.stable("a", "b", rebalance_ms=5_000, session_ms=SESSION_MS * 2)
    first, second = members
    world.join_all(first, second, rebalance_ms=5_000, session_ms=SESSION_MS * 2)
    assert first.sync({first.id: b"all"}).answer.assignment == b"all"
    world.pass_time(4_999)
    assert second.heartbeat() == ErrorCode.NONE
    world.pass_time(1)
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_change_sends_back_members_that_wait_for_an_assignment() -> None:
    """A new member joins while others wait for the leader's assignment. They are told to join again, and their sessions go on."""
    world = Groups()
    first, second = world.stable("a", "b")
    world.join_all(first, second)
    waiting = second.sync()
    world.pass_time(2 * SESSION_MS)  # the leader is silent and out, and the other is told so
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(world.group().members) == [second.id]
    world.pass_time(SESSION_MS)
    assert world.group().state is State.EMPTY


def test_a_session_goes_on_after_a_long_wait_for_the_assignment() -> None:
    """A member that waits for its assignment longer than its session has a new session when it gets the assignment."""
    world = Groups()
    first, second = world.stable("a", "b")
    world.join_all(first, second)
    waiting = second.sync()
    for _ in range(3):
        world.pass_time(SESSION_MS - 1)
        assert first.heartbeat() == ErrorCode.NONE
    assert waiting.waits
    assert first.sync({second.id: b"all"}).answer.error_code == ErrorCode.NONE
    assert waiting.answer.assignment == b"all"
    world.pass_time(SESSION_MS - 1)
    assert first.heartbeat() == ErrorCode.NONE
    world.pass_time(1)
    assert list(world.group().members) == [first.id]


def test_a_session_begins_with_the_answer() -> None:
    """A member that has joined has its session timeout to sync or to send a heartbeat, not the longer time that a new one is waited for."""
    world = Groups()
    member = world.member("a")
    pending = member.join()
    world.now()
    member.heard(pending.answer)
    world.pass_time(SESSION_MS - 1)
    assert world.group().state is State.COMPLETING_REBALANCE
    world.pass_time(1)
    assert world.group().state is State.EMPTY


def test_a_rebalance_does_not_wait_for_a_member_that_left() -> None:
    """A member that leaves before it has synced does not send the others back when its time to sync is over."""
    world = Groups()
    members = world.stable("a", "b", "c", rebalance_ms=5_000)
    first, second, third = members
    world.join_all(first, second, third, rebalance_ms=5_000)
    assert third.leave() == ErrorCode.NONE
    assert world.group().unsynced == set()
    world.join_all(first, second, rebalance_ms=5_000)
    world.share_out(first, second)
    world.pass_time(5_000)
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)


def test_a_full_group_refuses_a_new_member() -> None:
    """group.max.size: a further member is refused, a member may join again, and a member that leaves makes room."""
    world = Groups(config={"group.max.size": "2"})
    _, second = world.stable("a", "b")
    third = world.member("c")
    assert third.join().answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert second.join().answer.error_code == ErrorCode.NONE
    assert second.leave() == ErrorCode.NONE
    assert third.join().waits


@pytest.mark.parametrize("others", [0, 1])
def test_a_protocol_that_is_named_twice_counts_once(others: int) -> None:
    """A member that names a protocol twice is an ordinary member, alone or with another one, and later members are accepted."""
    world = Groups()
    members = world.stable("a") if others else []
    odd, late = world.member("odd"), world.member("late")
    joining = [odd.join(protocols=[("range", b"one"), ("range", b"two")]), *(member.join() for member in members)]
    world.now()
    assert [pending.answer.error_code for pending in joining] == [0] * (1 + others)
    assert [pending.answer.protocol_name for pending in joining] == ["range"] * (1 + others)
    odd.heard(joining[0].answer)
    joining = [late.join(), odd.join(protocols=[("range", b"one"), ("range", b"two")]), *(member.join() for member in members)]
    world.now()
    assert [pending.answer.error_code for pending in joining] == [0] * (2 + others)


def test_the_leader_hears_of_its_assignment_first() -> None:
    """SyncGroup answers the leader before the other members, which have waited longer, also if another member joined the group first."""
    world = Groups()
    first, second = world.stable("a", "b", static=True, session_ms=10 * REBALANCE_MS)
    for leader, follower in ((first, second), (second, first)):
        joining = leader.join(protocols={"range": b"news"}, session_ms=10 * REBALANCE_MS)
        world.pass_time(REBALANCE_MS)
        assert leader.heard(joining.answer).leader == leader.id
        follower.generation = leader.generation
        waiting = follower.sync()
        assert waiting.waits
        told = leader.sync({first.id: b"f", second.id: b"s"})
        assert world.answered[-2:] == [told, waiting]


def test_a_commit_counts_as_a_heartbeat() -> None:
    """A member that commits lives."""
    world = Groups()
    world.topic()
    (first,) = world.stable("a")
    for offset in range(5):
        world.pass_time(SESSION_MS - 1)
        assert world.commit("t", offset, member=first) == ErrorCode.NONE
    assert world.committed("t") == 4
    assert first.heartbeat() == ErrorCode.NONE


def test_a_request_that_comes_twice_is_answered() -> None:
    """A network that repeats a JoinGroup or a SyncGroup neither loses its answer nor doubles a member."""
    world = Groups()
    first, second = world.stable("a", "b")
    for api in (Api.JOIN_GROUP, Api.SYNC_GROUP):
        world.cluster.faults.on(api).duplicate().forever()
    world.join_all(first, second)
    world.share_out(first, second)
    assert list(world.group().members) == [first.id, second.id]
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)


def test_an_error_at_the_door_changes_nothing() -> None:
    """A fault that refuses a JoinGroup before it is served makes no member and no group."""
    world = Groups()
    world.cluster.faults.on(Api.JOIN_GROUP).error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert world.member("a").join().answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.services.groups.shard_for("g", world.coordinator()).groups.groups == {}
