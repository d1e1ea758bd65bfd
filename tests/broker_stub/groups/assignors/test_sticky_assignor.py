"""The sticky assignors: what members keep, what moves, and in how many rounds."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.groups.assignors.sticky_assignor import assign_cooperatively, assign_sticky
from fencepost.broker_stub.groups.assignors.subscriptions import Member, TopicPartition
from tests.broker_stub.groups.assignors.worked_examples import members, places, said, with_owned

THREE = members(m1="a b", m2="a b", m3="a b")
FOUR = (*THREE, *members(m4="a b"))


@pytest.mark.parametrize(
    ("partitions", "group", "expected", "transferring"),
    [
        ({"a": 5, "b": 4}, THREE, {"m1": "a0 a3 b1", "m2": "a1 a4 b2", "m3": "a2 b0 b3"}, ""),
        (
            {"a": 5, "b": 4},
            with_owned(FOUR, m1="a:0,3 b:1", m2="a:1,4 b:2", m3="a:2 b:0,3"),
            {"m1": "a0 b1 a3", "m2": "a1 b2", "m3": "b0 a2", "m4": "a4 b3"},
            "a:4 b:3",
        ),
        (
            {"a": 5, "b": 4},
            with_owned((FOUR[0], *FOUR[2:]), m1="a:0,3 b:1", m3="b:0 a:2", m4="a:4 b:3"),
            {"m1": "a0 b1 a3", "m3": "b0 a2 a1", "m4": "b3 a4 b2"},
            "",
        ),
        ({"a": 6}, with_owned(members(m1="a", m2="a"), m1="a:0,1,2,3,4,5"), {"m1": "a0 a1 a2", "m2": "a3 a4 a5"}, "a:3,4,5"),
        (
            {"a": 7},
            with_owned(members(m1="a", m2="a", m3="a"), m1="a:0,1,2,3", m2="a:4,5,6"),
            {"m1": "a0 a1 a2", "m2": "a4 a5", "m3": "a3 a6"},
            "a:3,6",
        ),
        ({"a": 2}, members(m1="a", m2="a", m3="a"), {"m1": "a0", "m2": "a1", "m3": ""}, ""),
        ({}, members(m1="a"), {"m1": ""}, ""),
    ],
)
def test_equal_subscriptions(partitions: dict[str, int], group: tuple[Member, ...], expected: dict[str, str], transferring: str) -> None:
    """Members keep the partitions within their quota. The others, and the unassigned ones, go to members below it."""
    found = assign_sticky(group, partitions)
    assert said(found.partitions) == expected
    assert set(found.transferring) == set(places(transferring))


@pytest.mark.parametrize(
    ("partitions", "group", "expected"),
    [
        (
            {"t0": 1, "t1": 2, "t2": 3},
            members(c0="t0", c1="t0 t1", c2="t0 t1 t2"),
            {"c0": "t00", "c1": "t10 t11", "c2": "t20 t21 t22"},
        ),
        (
            {"t0": 1, "t1": 2, "t2": 3},
            with_owned(members(c1="t0 t1", c2="t0 t1 t2"), c1="t1:0,1", c2="t2:0,1,2"),
            {"c1": "t10 t11 t00", "c2": "t20 t21 t22"},
        ),
        ({"t1": 3, "t2": 3}, members(a="t1", b="t2"), {"a": "t10 t11 t12", "b": "t20 t21 t22"}),
        ({"t1": 3, "t2": 3}, members(a="t1 t2", b="t2", c=""), {"a": "t10 t11 t12", "b": "t20 t21 t22", "c": ""}),
    ],
)
def test_different_subscriptions(partitions: dict[str, int], group: tuple[Member, ...], expected: dict[str, str]) -> None:
    """Members keep what they own and still subscribe to. Each unassigned partition goes to its subscriber with the fewest."""
    assert said(assign_sticky(group, partitions).partitions) == expected


def test_a_member_that_drops_a_topic() -> None:
    """Its partitions of that topic go to the others, and it keeps the rest."""
    group = with_owned(members(a="t", b="t u", c="u"), a="t:0,1,2", b="u:0,1,2")
    found = assign_sticky((group[0], group[1]._replace(topics=("t",)), group[2]), {"t": 3, "u": 3})
    assert set(found.partitions["c"]) == set(places("u:0,1,2"))
    assert found.transferring[TopicPartition("u", 0)] == "c"
    assert len(found.partitions["a"]) + len(found.partitions["b"]) == 3


def test_a_partition_that_two_members_claim() -> None:
    """In one generation neither keeps it; a member with a newer generation does."""
    group = (Member("a", ("t",), places("t:0,1"), 3), Member("b", ("t",), places("t:1,2"), 3))
    contested = assign_sticky(group, {"t": 4})
    assert (said(contested.partitions), set(contested.transferring)) == ({"a": "t0 t1", "b": "t2 t3"}, set(places("t:1")))
    newer = assign_sticky((group[0], group[1]._replace(generation=4)), {"t": 4})
    assert (said(newer.partitions), set(newer.transferring)) == ({"a": "t0 t3", "b": "t1 t2"}, set())
    older = assign_sticky((group[0], group[1]._replace(generation=2)), {"t": 4})
    assert said(older.partitions) == {"a": "t0 t1", "b": "t2 t3"}


def test_a_partition_that_is_claimed_thrice() -> None:
    """The newest generation of three decides, in any order of the members."""
    for order in ("abc", "cab", "bca"):
        group = [Member(name, ("t",), places("t:0"), generation) for name, generation in zip(order, (5, 7, 6), strict=True)]
        assert said(assign_sticky(group, {"t": 3}).partitions)[order[1]].split()[0] == "t0"


def test_racks() -> None:
    """Where racks matter, members give up partitions in other racks, and get those in their own first."""
    racks = {TopicPartition("t", number): frozenset([rack]) for number, rack in enumerate(("r2", "r1", "r2", "r1"))}
    group = (Member("a", ("t",), places("t:0,1"), 1, rack="r1"), Member("b", ("t",), places("t:2,3"), 1, rack="r2"))
    found = assign_sticky(group, {"t": 4}, racks)
    assert said(found.partitions) == {"a": "t1 t3", "b": "t2 t0"}
    assert set(found.transferring) == set(places("t:0,3"))
    mixed = (group[0]._replace(topics=("t", "u")), group[1])
    assert said(assign_sticky(mixed, {"t": 4, "u": 1}, racks).partitions) == {"a": "t1 t3 u0", "b": "t2 t0"}


def test_two_rounds() -> None:
    """A cooperative round leaves the partitions that move to no member; when their owner has revoked them, the next round assigns them."""
    group = with_owned(members(m1="a", m2="a"), m1="a:0,1,2,3,4,5")
    first = assign_cooperatively(group, {"a": 6})
    assert said(first.partitions) == {"m1": "a0 a1 a2", "m2": ""}
    second = assign_cooperatively([each._replace(owned=tuple(first.partitions[each.id]), generation=2) for each in group], {"a": 6})
    assert (said(second.partitions), second.transferring) == ({"m1": "a0 a1 a2", "m2": "a3 a4 a5"}, {})


def test_what_does_not_exist() -> None:
    """Owned partitions that no longer exist are ignored, and so are members without a topic."""
    group = (Member("a", ("t",), places("t:0,7 gone:0"), 1), Member("b", ("t",)))
    assert said(assign_sticky(group, {"t": 2}).partitions) == {"a": "t0", "b": "t1"}
    idle = assign_sticky((Member("a", ()), *members(b="t", c="t")), {"t": 2})
    assert said(idle.partitions) == {"a": "", "b": "t0", "c": "t1"}
    assert assign_sticky((), {"t": 2}).partitions == {}
