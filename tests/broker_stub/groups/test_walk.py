"""Random walks through classic groups: after every action of its members the group is consistent, and no member waits forever."""

from __future__ import annotations

import os

import hypothesis.strategies as st
from hypothesis import HealthCheck, example, given, settings

from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.requests.delayed_fetch import DelayedFetch
from tests.broker_stub.groups.group_calls import Groups, Member
from tests.broker_stub.stub_calls import Pending
from tests.drawn import ALL, SEED

SESSION_MS, REBALANCE_MS = 10_000, 20_000
LONG_MS = 400_000  # beyond every timer there is
TURNS_MAX = 4  # the first delay may be given once more, then members have their time to join, then to be heard
NAMES = ("a", "b", "c", "d")
STATIC = ("c", "d")

# What brings a group forward is more frequent than what sends it back.
acts = ["join"] * 6 + ["sync"] * 6 + ["heartbeat"] * 2 + ["change", "leave", "forget", "duplicate", "move"]
times = st.sampled_from([1, 500, REBALANCE_MS // 4, SESSION_MS - 1, REBALANCE_MS])
act = st.tuples(st.sampled_from(acts), st.sampled_from(NAMES))
steps = st.one_of(act, act, act, act, st.tuples(st.just("pass"), times))


class Walk:
    """A group, four people, and every request that was sent."""

    def __init__(self, version: int, delay_ms: int) -> None:
        config = {"group.initial.rebalance.delay.ms": str(delay_ms)}
        self.world = Groups(brokers=2, config=config)
        self.version = version
        self.people = {name: self.newcomer(name) for name in NAMES}
        self.sent: list[Pending] = []
        self.joining: dict[str, Pending] = {}
        self.generation = 0
        self.changes = 0

    def newcomer(self, name: str) -> Member:
        return self.world.member(name, instance=name if name in STATIC and self.version >= 5 else None, version=self.version)

    def step(self, what: str, which: str | int) -> None:
        if isinstance(which, int):
            self.world.pass_time(which)
        elif what == "move":
            self.world.move_coordinator()
        elif what == "forget":
            self.people[which] = self.newcomer(which)
        else:
            self.act(what, self.people[which])
        self.world.now()
        self.hear()
        self.check()

    def act(self, what: str, member: Member) -> None:
        if what == "heartbeat":
            member.heartbeat()
        elif what == "leave":
            member.leave()
        elif what == "sync":
            everybody = {each.id: each.name.encode() for each in self.people.values() if each.id}
            self.sent.append(member.sync(everybody))
        else:
            self.changes += what == "change"
            for _ in range(2 if what == "duplicate" else 1):
                pending = member.join(protocols={"range": b"%d" % self.changes}, session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS)
                self.joining[member.name] = pending
                self.sent.append(pending)

    def hear(self) -> None:
        """A member takes its id and generation from its response."""
        for name, pending in tuple(self.joining.items()):
            if not pending.waits:
                del self.joining[name]
                if pending.answer.error_code == 0:
                    self.people[name].heard(pending.answer)

    def check(self) -> None:
        """What is true of every group at any time."""
        groups = self.world.services.groups.shard_for("g", self.world.coordinator()).groups.groups
        group = groups.get("g")
        if group is None:
            return
        assert group.state is not State.DEAD
        assert (group.leader in group.members) == bool(group.members)
        assert group.unsynced <= group.members.keys()
        assert {member.instance_id: member.id for member in group.members.values() if member.instance_id} == group.static
        assert not group.invited.keys() & group.members.keys()
        if group.state is State.EMPTY:
            assert not group.members
        if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            assert group.members
            assert group.waiting == 0
        if group.state is not State.COMPLETING_REBALANCE:
            assert not any(member.syncing for member in group.members.values())
        assert all(member.session is not None for member in group.members.values())


@settings(max_examples=300 if os.environ[SEED] == ALL else 100, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=60), st.sampled_from([3, 5, 9]), st.sampled_from([0, 3_000]))
@example([("join", "a"), ("join", "b"), ("join", "a"), ("sync", "b"), ("leave", "b")], 3, 0)
def test_every_request_is_answered_once(path: list[tuple[str, str | int]], version: int, delay_ms: int) -> None:
    """The group is whole after every step; left alone, everybody is answered once, the group is empty, and no timer is left."""
    walk = Walk(version, delay_ms)
    for what, which in path:
        walk.step(what, which)
    for _ in range(TURNS_MAX):
        walk.world.pass_time(LONG_MS)
    assert [pending for pending in walk.sent if pending.waits] == []
    for pending in walk.sent:
        assert pending.answer is not None  # one answer each
    for node in walk.world.cluster.brokers:
        for shard in walk.world.services.groups.shards_of(node):
            assert [group.state for group in shard.groups.groups.values()] in ([], [State.EMPTY])
    walk.world.pass_time(500)  # the followers learn the high watermark
    assert walk.world.cluster.next_deadline() is None
    topic = walk.world.cluster.topics.named(OFFSETS_TOPIC)
    assert topic is not None
    watchers = [[each for each in partition.leading.watchers if not isinstance(each, DelayedFetch)] for partition in topic.partitions]
    assert max(map(len, watchers)) <= 1  # besides its followers
