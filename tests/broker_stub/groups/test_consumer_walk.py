"""Random walks through groups of the consumer protocol: no partition has two owners, and in the end every partition has one."""

from __future__ import annotations

import os

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.groups.consumer_calls import Consumer, ConsumerWorld
from tests.drawn import ALL, SEED

SESSION_MS, REBALANCE_MS = 45_000, 20_000
NAMES = ("a", "b", "c", "d")
STATIC = ("c", "d")
SUBSCRIPTIONS: tuple[tuple[str, ...], ...] = (("t",), ("t", "u"), ("u",), ())

acts = ["join"] * 3 + ["live"] * 8 + ["quiet", "quiet", "leave", "forget", "change", "move", "pause"]
times = st.sampled_from([1, 5_000, REBALANCE_MS, SESSION_MS - 1, SESSION_MS])
act = st.tuples(st.sampled_from(acts), st.sampled_from(NAMES))
topics = st.tuples(st.sampled_from(["create", "grow", "delete"]), st.sampled_from(["t", "u"]))
steps = st.one_of(act, act, act, act, act, topics, st.tuples(st.just("pass"), times))


class Walk:
    """A group, four clients, and the topics t and u."""

    def __init__(self, assignor: str) -> None:
        self.world = ConsumerWorld(brokers=2)
        self.assignor = assignor
        self.world.topic("t", partitions=3)
        self.incarnations = 0
        self.clients: dict[str, Consumer] = {}
        self.gone: list[Consumer] = []  # clients that are forgotten, and still believe that they own something

    def newcomer(self, name: str) -> Consumer:
        self.incarnations += 1
        subscription = SUBSCRIPTIONS[self.incarnations % len(SUBSCRIPTIONS)]
        regex = "t|u" if self.incarnations % 3 == 0 else None
        return self.world.consumer(
            f"{name}{self.incarnations}",
            *subscription,
            regex=regex,
            instance=name if name in STATIC else None,
            assignor=self.assignor,
            rebalance_ms=REBALANCE_MS,
        )

    def step(self, what: str, which: str | int) -> None:
        if isinstance(which, int):
            self.world.pass_time(which)
        elif what == "move":
            self.world.move_coordinator()
        elif which in ("t", "u"):
            self.change_topic(what, which)
        elif what == "join" and which not in self.clients:
            client = self.newcomer(which)
            if client.join().error_code == ErrorCode.NONE:
                self.clients[which] = client
        elif which in self.clients:
            self.act(what, which)
        self.world.now()
        self.check()

    def change_topic(self, what: str, name: str) -> None:
        topic = self.world.cluster.topics.named(name)
        if what == "create" and topic is None:
            self.world.topic(name, partitions=2)
        elif what == "grow" and topic is not None and len(topic.partitions) < 6:
            self.world.cluster.add_partitions(topic, len(topic.partitions) + 1)
        elif what == "delete" and topic is not None:
            self.world.cluster.delete_topic(topic)

    def act(self, what: str, name: str) -> None:
        client = self.clients[name]
        if what == "live":
            self.live(client)
        elif what == "quiet":  # says nothing of what it owns, so that it confirms nothing
            client.heartbeat()
        elif what == "change":
            topics = SUBSCRIPTIONS[self.incarnations % len(SUBSCRIPTIONS)]
            client.heartbeat(subscribed_topic_names=list(topics), topic_partitions=client.owning())
        elif what == "leave":
            if client.send(member_epoch=-1).answer.error_code == ErrorCode.NONE:
                del self.clients[name]
        elif what == "pause" and name in STATIC:
            if client.send(member_epoch=-2).answer.error_code == ErrorCode.NONE:
                del self.clients[name]
        elif what == "forget":
            self.gone.append(self.clients.pop(name))

    def live(self, client: Consumer) -> None:
        answer = client.heartbeat(topic_partitions=client.owning())
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            client.join()

    @property
    def group(self) -> ConsumerGroup | None:
        return self.world.services.groups.shard_for("g", self.world.coordinator()).consumers.groups.get("g")

    def check(self) -> None:
        """What is true of every group at any time."""
        group = self.group
        if group is None:
            return
        owned = [
            (topic_id, index)
            for member in group.members.values()
            for partitions in (member.assigned, member.pending_revocation)
            for topic_id, indexes in partitions.items()
            for index in indexes
        ]
        assert len(owned) == len(set(owned))
        targets = [(topic_id, index) for target in group.target.values() for topic_id, indexes in target.items() for index in indexes]
        assert len(targets) == len(set(targets))
        assert set(group.target) <= set(group.members)
        assert group.assignment_epoch <= group.epoch
        assert all(member.epoch <= group.assignment_epoch for member in group.members.values())
        # A client believes to own at most what the coordinator lets it own.
        for client in self.clients.values():
            member = group.members.get(client.id)
            if member is not None and member.epoch == client.epoch:
                for topic_id, indexes in client.owned.items():
                    may = member.assigned.get(topic_id, {}).keys() | member.pending_revocation.get(topic_id, {}).keys()
                    assert indexes <= may


@settings(max_examples=300 if os.environ[SEED] == ALL else 100, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=60), st.sampled_from(["uniform", "range"]))
def test_no_partition_has_two_owners(path: list[tuple[str, str | int]], assignor: str) -> None:
    """After every step. When the clients that are left heartbeat for long enough, they own every partition to which one subscribes."""
    walk = Walk(assignor)
    for what, which in path:
        walk.step(what, which)
    walk.world.pass_time(SESSION_MS - 1)
    for client in walk.clients.values():
        walk.live(client)
    for _ in range(10):
        walk.world.pass_time(5_000)
        walk.world.now()
        for client in walk.clients.values():
            walk.live(client)
        walk.check()
    group = walk.group
    if group is None or not walk.clients:
        return
    assert {client.id for client in walk.clients.values()} == set(group.members)
    subscribed = {name for member in group.members.values() for name in group.subscription_of(member)}
    owned = [each for client in walk.clients.values() for each in client.partitions]
    assert sorted(owned) == sorted(
        (topic.name, index) for topic in walk.world.cluster.topics if topic.name in subscribed for index in range(len(topic.partitions))
    )
    for client in walk.clients.values():
        assert client.send(member_epoch=-1).answer.error_code == ErrorCode.NONE
    assert walk.group is not None
    assert not walk.group.members
    walk.world.pass_time(500)  # the followers learn the high watermark
    assert walk.world.cluster.next_deadline() is None
