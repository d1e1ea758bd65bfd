"""The range assignor: consecutive partitions of each topic, static members first, and racks where they matter."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.groups.assignors.range_assignor import assign_ranges
from fencepost.broker_stub.groups.assignors.subscriptions import Member, TopicPartition
from tests.broker_stub.groups.assignors.worked_examples import members, said


@pytest.mark.parametrize(
    ("partitions", "group", "expected"),
    [
        ({"a": 5, "b": 4}, members(m1="a b", m2="a b", m3="a b"), {"m1": "a0 a1 b0 b1", "m2": "a2 a3 b2", "m3": "a4 b3"}),
        ({"a": 3, "b": 3, "c": 2}, members(m1="a", m2="a b", m3="b c"), {"m1": "a0 a1", "m2": "a2 b0 b1", "m3": "b2 c0 c1"}),
        ({"t0": 3, "t1": 3}, members(c0="t0 t1", c1="t0 t1"), {"c0": "t00 t01 t10 t11", "c1": "t02 t12"}),
        ({"t": 7}, members(b="t", d="t"), {"b": "t0 t1 t2 t3", "d": "t4 t5 t6"}),
        ({"t": 2}, members(a="t", b="t", c="t"), {"a": "t0", "b": "t1", "c": ""}),
        ({"t": 3}, members(a="t none", b="none"), {"a": "t0 t1 t2", "b": ""}),
    ],
)
def test_ranges(partitions: dict[str, int], group: tuple[Member, ...], expected: dict[str, str]) -> None:
    """Each topic's subscribers get consecutive ranges; the first ones get one partition more. A topic that does not exist counts for
    nothing."""
    assert said(assign_ranges(group, partitions).partitions) == expected
    assert said(assign_ranges(group[::-1], partitions).partitions) == expected


def test_each_topic_favours_the_same_members() -> None:
    """With two topics of seven partitions the first member has eight, the other six; with three topics of three 6 and 3."""
    for partitions, sizes in (({"t0": 7, "t1": 7}, [8, 6]), ({"t0": 3, "t1": 3, "t2": 3}, [6, 3])):
        found = assign_ranges(members(b=" ".join(partitions), d=" ".join(partitions)), partitions).partitions
        assert [len(each) for each in found.values()] == sizes


def test_static_members_come_first() -> None:
    """They are sorted by instance id, and the others after them by member id. So the order outlives new member ids."""
    group = (Member("a", ("t",)), Member("z", ("t",), instance_id="two"), Member("y", ("t",), instance_id="three"))
    assert said(assign_ranges(group, {"t": 4}).partitions) == {"a": "t3", "z": "t2", "y": "t0 t1"}


def test_topics_are_in_javas_order() -> None:
    """A member's topics come in the order of a HashMap: "t4" is in an earlier bucket than "t0"."""
    assert said(assign_ranges(members(m="t0 t4"), {"t0": 1, "t4": 1}).partitions) == {"m": "t40 t00"}


def racked(topic: str, *racks: str) -> dict[TopicPartition, frozenset[str]]:
    """One replica for each partition, in these racks."""
    return {TopicPartition(topic, number): frozenset([rack]) for number, rack in enumerate(racks)}


def test_racks() -> None:
    """Members read in their own racks within their quotas; a topic with equal subscribers and size is assigned together with it."""
    group = (Member("a", ("t",), rack="r1"), Member("b", ("t",), rack="r2"))
    racks = racked("t", "r2", "r1", "r2", "r1")
    assert said(assign_ranges(group, {"t": 4}, racks).partitions) == {"a": "t1 t3", "b": "t0 t2"}
    together = tuple(each._replace(topics=("t", "u")) for each in group)
    both = {**racks, **racked("u", "r2", "r1", "r2", "r1")}
    assert said(assign_ranges(together, {"t": 4, "u": 4}, both).partitions) == {"a": "t1 t3 u1 u3", "b": "t0 t2 u0 u2"}


@pytest.mark.parametrize("replicas", [("r9", "r9"), ("r1", "r1")])
def test_racks_that_do_not_matter(replicas: tuple[str, ...]) -> None:
    """Racks are ignored if no consumer's rack has replicas, or if every partition has replicas in all of them."""
    group = (Member("a", ("t",), rack="r2"), Member("b", ("t",), rack="r1"))
    assert said(assign_ranges(group, {"t": 2}, racked("t", *replicas)).partitions) == {"a": "t0", "b": "t1"}


def test_nobody() -> None:
    """A group without members has an empty assignment."""
    assert assign_ranges((), {"t": 1}).partitions == {}
