"""Groups that change their protocol while they have members (KIP-848), with `group.consumer.migration.policy=bidirectional`."""

from collections.abc import Sequence

from fencepost.broker_stub.groups.state.embedded_protocol import read_assignment
from fencepost.producer.wire import ErrorCode, error_name
from tests.conformance.group_member import Member, Protocol, subscription_v3
from tests.conformance.stage import Topic
from tests.conformance.world import World, case

EVERY = (0, 1, 2, 3)


class Classic:
    """A member of the classic protocol that says which partitions it owns. Which ones it gets depends on its random id."""

    def __init__(self, w: World, group: str, *topics: Topic, instance: str | None = None, version: int = 9) -> None:
        self.member: Member = w.member(group, instance=instance, version=version)
        self.owned: list[tuple[str, int]] = []
        self._w = w
        self._topics = [topic.name for topic in topics]
        self._version = version

    def protocols(self, *names: str, owned: Sequence[tuple[str, int]] | None = None) -> list[Protocol]:
        data = subscription_v3(self._topics, self.owned if owned is None else owned, generation=self.member.generation)
        return [(name, data) for name in names or ("range",)]

    def join(self, *names: str, label: str, **how: object) -> None:
        self.member.join(label=label, **{"protocols": self.protocols(*names), **how})

    def sync(self, *, label: str, **how: object) -> None:
        answer = self.member.sync(**how)  # type: ignore[arg-type]  # by name
        self.owned = [*read_assignment(answer.assignment)] if not answer.error_code else self.owned
        version = int.from_bytes(answer.assignment[:2]) if answer.assignment else None
        self._w.note(
            label,
            f"{error_name(answer.error_code)} type={answer.protocol_type} protocol={answer.protocol_name} version={version}"
            f" {len(self.owned)} partitions",
        )

    def heartbeat(self, *, label: str, **how: object) -> None:
        self.member.heartbeat(label=label, **how)  # type: ignore[arg-type]  # by name


def alone(w: World, group: str, topic: Topic, *, instance: str | None = None) -> Classic:
    """The only member of a stable classic group, which owns the whole topic. Nothing is noted."""
    classic = Classic(w, group, topic, instance=instance)
    classic.member.invite()
    classic.member.send_join(protocols=classic.protocols())
    assert classic.member.receive_join().error_code == ErrorCode.NONE
    assigned = whole(topic)
    assert classic.member.sync({classic.member.id: assigned}).error_code == ErrorCode.NONE
    classic.owned = [*read_assignment(assigned)]
    return classic


def whole(topic: Topic, user_data: bytes | None = None) -> bytes:
    """An assignment of the whole topic."""
    name = topic.name.encode()
    parts = [b"\0\3\0\0\0\1", len(name).to_bytes(2), name, len(topic.leaders).to_bytes(4), *(each.to_bytes(4) for each in topic.leaders)]
    return b"".join([*parts, b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4) + user_data])


@case("KIP-848")
def there_and_back(w: World) -> None:
    """A member of the new protocol joins a classic group, which becomes a consumer group, and a classic one when that member leaves."""
    topic, group = w.topic(partitions=4), w.group()
    classic = alone(w, group, topic)
    w.commit(group, {topic: {0: 5}}, member=classic.member, label="commits before")
    member = w.consumer(group, "m1", topic)
    member.join(label="another joins")
    w.describe_consumers(group, label="both")
    w.list_groups(label="listed")
    classic.heartbeat(label="hears of it")
    classic.sync(label="syncs without a join")
    classic.join(label="joins again")
    classic.sync(label="gives up")
    classic.owned = classic.owned[:2]
    classic.heartbeat(label="must confirm")
    classic.join(label="confirms")
    classic.sync(label="has its part")
    classic.heartbeat(label="is calm")
    member.confirm(label="the other gets its part")
    w.describe_consumers(group, label="shared")
    w.commit(group, {topic: {classic.owned[0][1]: 6}}, member=classic.member, label="commits")
    w.commit(group, {topic: {0: 5}}, member=classic.member, version=8, label="commits in version 8")
    w.commit(group, {topic: {0: 6}}, generation=99, member=classic.member, label="commits in a later generation")
    member.leave(label="the other leaves")
    w.describe_groups(group, label="classic again")
    w.describe_consumers(group, label="no consumer group")
    w.list_groups(label="listed again")
    classic.heartbeat(label="hears of the end")
    classic.join(label="joins the classic group")
    classic.member.sync({classic.member.id: whole(topic)}, label="assigns everything")
    w.committed(group, {topic: [0]}, label="offsets")
    w.records_of(group, label="written")


@case("KIP-848")
def classic_members_join(w: World) -> None:
    """A consumer group takes members of the classic protocol, in every version."""
    topic, group = w.topic(partitions=3), w.group()
    (member,) = w.consumers(group, topic, "m1")
    old, new = Classic(w, group, topic, version=3), Classic(w, group, topic)
    for number, each in enumerate((old, new)):
        each.join(label=f"{number} joins")
        each.join(label=f"{number} joins again")
        each.heartbeat(label=f"{number} waits")
    for _ in range(4):
        member.confirm()
    for number, each in enumerate((old, new)):
        each.heartbeat(label=f"{number} can have more")
        each.join(label=f"{number} joins for it")
        each.sync(label=f"{number} has it")
    old.member.leave(label="the old one leaves")
    new.heartbeat(label="the new one hears of it")
    new.member.leave((new.member.id, None), ("x", None), label="the new one leaves, and a stranger")
    member.confirm(label="the member of the new protocol stays")
    w.describe_consumers(group, label="in the end")


@case("KIP-848")
def odd_requests_of_classic_members(w: World) -> None:
    """Other types, assignors that others do not have, and requests without a member or with an old generation."""
    topic, group = w.topic(partitions=2), w.group()
    (consumer,) = w.consumers(group, topic, "m1")
    classic, other = Classic(w, group, topic), Classic(w, group, topic)
    other.join("range", protocol_type="connect", label="another type")
    other.join(protocols=[], label="no assignor")
    other.member.join(protocols=[("range", b"\0")], label="no subscription, invited")
    other.member.join(protocols=[("range", b"\0")], label="no subscription")
    classic.join("range", "roundrobin", label="invited")
    classic.join("range", "roundrobin", label="joins")
    other.join("sticky", label="has another assignor")
    other.join("roundrobin", label="has one of them")
    classic.sync(generation=99, label="another generation")
    classic.sync(protocol=("connect", "range"), label="another type when it syncs")
    classic.sync(protocol=("consumer", "roundrobin"), label="another assignor when it syncs")
    classic.sync(label="syncs")
    classic.heartbeat(generation=99, label="beats in another generation")
    classic.heartbeat(member_id="m1", label="beats for the other")
    classic.heartbeat(member_id="x", label="beats for nobody")
    classic.member.sync(member_id="m1", generation=consumer.epoch, label="syncs for the other")
    classic.join(member_id="a-new-id", label="joins under an id of its own")
    w.describe_consumers(group, label="in the end")


@case("KIP-848")
def a_member_changes_its_protocol(w: World) -> None:
    """A static member comes back with the other protocol, in both directions."""
    topic, group = w.topic(partitions=2), w.group()
    consumer = w.consumer(group, "m1", topic, instance="i")
    consumer.join(label="joins")
    consumer.confirm(label="has everything")
    classic = Classic(w, group, topic, instance="i")
    classic.join(label="comes back with the classic protocol")
    w.describe_groups(group, label="the group is a classic one")
    classic.sync(label="has what it had")
    classic.heartbeat(label="is calm")
    consumer.beat(label="the old one is gone")
    again = w.consumer(group, "m2", topic, instance="i")
    again.join(label="comes back with the new protocol")
    w.describe_consumers(group, label="the group is a consumer group")
    classic.heartbeat(label="the classic one is fenced")
    classic.join(label="and joins with its id")
    w.records_of(group, label="written")


@case("KIP-848")
def groups_that_are_not_upgraded(w: World) -> None:
    """Those of other types, with user data of an assignor, or whose members cannot be understood."""
    topic = w.topic(partitions=2)

    def asked(classic: Classic, what: str) -> None:
        w.consumer(classic.member.group, "m1", topic).join(label=f"{what}: joins")
        classic.heartbeat(label=f"{what}: the classic member")

    other = Classic(w, w.group(), topic)
    other.member.invite()
    other.join(protocol_type="connect", label="connect joins")
    other.member.sync({other.member.id: b"x"}, label="connect syncs")
    asked(other, "connect")
    for what, assigned in {"user data": whole(topic, b"mine"), "empty user data": whole(topic, b""), "no assignment": b"x"}.items():
        classic = Classic(w, w.group(), topic)
        classic.member.invite()
        classic.join(label=f"{what} joins")
        classic.member.sync({classic.member.id: assigned}, label=f"{what} syncs")
        asked(classic, what)
    (bare,) = w.stable(w.group())
    w.consumer(bare.group, "m1", topic).join(label="no subscription: joins")


@case("KIP-848")
def rebalances_that_an_upgrade_ends(w: World) -> None:
    """Members that wait for their generation or for their assignment are told to join again."""
    topic, first, second = w.topic(partitions=2), w.group(), w.group()
    leader = alone(w, first, topic)
    waiting = Classic(w, first, topic)
    waiting.member.invite()
    waiting.member.send_join(protocols=waiting.protocols())
    w.until_state(first, "PreparingRebalance")
    w.consumer(first, "m1", topic).join(label="joins while one waits")
    waiting.member.joined(label="the one that waits")
    leader.heartbeat(label="the leader")
    waiting.join(label="it joins again")
    one = Classic(w, second, topic)
    one.member.invite()
    one.join(label="joins alone")
    w.consumer(second, "m1", topic).join(label="joins before the assignment")
    one.sync(label="syncs late")
    one.join(label="joins again")
    one.sync(label="has something")
