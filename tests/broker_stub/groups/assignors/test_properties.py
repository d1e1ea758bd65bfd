"""What every assignor promises of every group."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker_stub.groups.assignors import ASSIGNORS
from fencepost.broker_stub.groups.assignors.sticky_assignor import assign_cooperatively, assign_sticky
from fencepost.broker_stub.groups.assignors.subscriptions import Assignment, Member, TopicPartition

TOPICS = ("t0", "t1", "t2", "u")
RACKS = st.none() | st.sampled_from(("r1", "r2", "r3"))
PARTITIONS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
PLACES = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 7))
REPLICA_RACKS = st.dictionaries(PLACES, st.frozensets(st.sampled_from(("r1", "r2", "r3")), max_size=2), max_size=20)
SUBSCRIPTION = st.lists(st.sampled_from(TOPICS), unique=True).map(tuple)
EQUAL = st.shared(SUBSCRIPTION, key="equal")


@st.composite
def groups(draw: st.DrawFn, subscription: st.SearchStrategy[tuple[str, ...]] = SUBSCRIPTION) -> list[Member]:
    """Members with any claims: of partitions that do not exist, that others claim too, that they no longer subscribe to."""
    names = draw(st.lists(st.text("ab-", min_size=1, max_size=3), unique=True, min_size=1, max_size=6))
    return [
        Member(
            name,
            draw(subscription),
            tuple(draw(st.lists(PLACES, max_size=6))),
            generation=draw(st.integers(-1, 2)),
            instance_id=draw(st.none() | st.just(f"i{name}")),
            rack=draw(RACKS),
        )
        for name in names
    ]


def subscribed(members: list[Member], partitions: dict[str, int]) -> set[TopicPartition]:
    topics = {topic for each in members for topic in each.topics}
    return {TopicPartition(topic, number) for topic in topics for number in range(partitions.get(topic, 0))}


def check(members: list[Member], assignment: Assignment, expected: set[TopicPartition]) -> None:
    assert list(assignment.partitions) == [each.id for each in members]
    counts = Counter(tp for several in assignment.partitions.values() for tp in several)
    assert set(counts) == expected
    assert set(counts.values()) <= {1}
    assert [(each.id, tp) for each in members for tp in assignment.partitions[each.id] if tp.topic not in each.topics] == []


@pytest.mark.parametrize("name", [name for name in ASSIGNORS if name != "cooperative-sticky"])
@given(members=groups(), partitions=PARTITIONS, racks=REPLICA_RACKS)
def test_every_partition_has_one_reader(
    name: str, members: list[Member], partitions: dict[str, int], racks: dict[TopicPartition, frozenset[str]]
) -> None:
    """All subscribed partitions are assigned, none twice, and none to a member that does not subscribe to its topic. The order of the
    members does not count."""
    found = ASSIGNORS[name](members, partitions, racks)
    check(members, found, subscribed(members, partitions))
    if name in ("range", "roundrobin"):
        assert ASSIGNORS[name](members[::-1], partitions, racks).partitions == found.partitions


@given(members=groups(), partitions=PARTITIONS, racks=REPLICA_RACKS)
def test_a_cooperative_round_gives_nothing_that_another_member_owns(
    members: list[Member], partitions: dict[str, int], racks: dict[TopicPartition, frozenset[str]]
) -> None:
    """What it leaves out is what another member owned and must revoke first."""
    found = assign_cooperatively(members, partitions, racks)
    target = assign_sticky(members, partitions, racks)
    check(members, found, subscribed(members, partitions) - set(found.transferring))
    assert {tp: each for each, several in target.partitions.items() for tp in several if tp in found.transferring} == found.transferring
    for tp in found.transferring:
        assert any(tp in each.owned for each in members)


@given(members=groups(EQUAL), partitions=PARTITIONS, racks=REPLICA_RACKS)
def test_equal_subscriptions_are_balanced(
    members: list[Member], partitions: dict[str, int], racks: dict[TopicPartition, frozenset[str]]
) -> None:
    """Members that subscribe to the same topics have numbers of partitions that differ by at most one."""
    sizes = [len(each) for each in assign_sticky(members, partitions, racks).partitions.values()]
    assert max(sizes) - min(sizes) <= 1


@given(members=groups(EQUAL), partitions=PARTITIONS)
def test_equal_subscriptions_keep_what_they_may(members: list[Member], partitions: dict[str, int]) -> None:
    """A member keeps as many of the partitions that are its own alone as its share allows."""
    total = len(subscribed(members, partitions))
    claims = Counter(tp for each in members for tp in set(each.owned))
    found = assign_sticky(members, partitions)
    for each in members:
        own = {tp for tp in each.owned if claims[tp] == 1 and each.owned.count(tp) == 1} & subscribed(members, partitions)
        kept = own & set(found.partitions[each.id])
        disputed = len(set(each.owned)) - len(own)
        assert len(kept) >= min(len(own), max(0, total // len(members) - disputed))


@given(members=groups(), partitions=PARTITIONS)
def test_nothing_moves_without_a_reason(members: list[Member], partitions: dict[str, int]) -> None:
    """The assignment of an unchanged group stays as it is."""
    first = assign_sticky(members, partitions).partitions
    settled = [each._replace(owned=tuple(first[each.id]), generation=5) for each in members]
    again = assign_sticky(settled, partitions)
    assert {each: set(several) for each, several in again.partitions.items()} == {each: set(several) for each, several in first.items()}
    assert again.transferring == {}


@given(members=groups(EQUAL), partitions=PARTITIONS, data=st.data())
def test_a_leaving_member_moves_only_its_partitions(members: list[Member], partitions: dict[str, int], data: st.DataObject) -> None:
    """The members that stay keep everything."""
    first = assign_sticky(members, partitions).partitions
    leaver = data.draw(st.sampled_from([each.id for each in members]))
    staying = [each._replace(owned=tuple(first[each.id]), generation=5) for each in members if each.id != leaver]
    after = assign_sticky(staying, partitions)
    assert [each.id for each in staying if not set(first[each.id]) <= set(after.partitions[each.id])] == []
    assert after.transferring == {}


@given(members=groups(EQUAL), partitions=PARTITIONS)
def test_the_second_round_is_the_last(members: list[Member], partitions: dict[str, int]) -> None:
    """After the partitions that move are revoked, the next cooperative round assigns everything, and takes nothing away."""
    first = assign_cooperatively(members, partitions).partitions
    settled = [each._replace(owned=tuple(first[each.id]), generation=5) for each in members]
    second = assign_cooperatively(settled, partitions)
    assert second.transferring == {}
    check(members, second, subscribed(members, partitions))
