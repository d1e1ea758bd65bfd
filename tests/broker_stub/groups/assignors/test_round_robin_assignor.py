"""The round-robin assignor: partitions in order, members in a circle."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.groups.assignors.round_robin_assignor import assign_round_robin
from fencepost.broker_stub.groups.assignors.subscriptions import Member
from tests.broker_stub.groups.assignors.worked_examples import members, said


@pytest.mark.parametrize(
    ("partitions", "group", "expected"),
    [
        ({"a": 5, "b": 4}, members(m1="a b", m2="a b", m3="a b"), {"m1": "a0 a3 b1", "m2": "a1 a4 b2", "m3": "a2 b0 b3"}),
        ({"a": 3, "b": 3, "c": 2}, members(m1="a", m2="a b", m3="b c"), {"m1": "a0 a2", "m2": "a1 b0 b2", "m3": "b1 c0 c1"}),
        ({"t0": 3, "t1": 3}, members(c0="t0 t1", c1="t0 t1"), {"c0": "t00 t02 t11", "c1": "t01 t10 t12"}),
        ({"t": 7}, members(b="t", d="t"), {"b": "t0 t2 t4 t6", "d": "t1 t3 t5"}),
        (
            {"t0": 1, "t1": 2, "t2": 3},
            members(c0="t0", c1="t0 t1", c2="t0 t1 t2"),
            {"c0": "t00", "c1": "t10", "c2": "t11 t20 t21 t22"},
        ),
        ({"t0": 1, "t1": 2, "t2": 3}, members(c1="t0 t1", c2="t0 t1 t2"), {"c1": "t00 t11", "c2": "t10 t20 t21 t22"}),
        ({"t": 2}, members(a="t", b="t", c="t"), {"a": "t0", "b": "t1", "c": ""}),
        ({"t": 1}, members(a="t none", b="none"), {"a": "t0", "b": ""}),
    ],
)
def test_round_robin(partitions: dict[str, int], group: tuple[Member, ...], expected: dict[str, str]) -> None:
    """Members are dealt one partition each in turn. A member that does not subscribe to the topic loses its turn."""
    assert said(assign_round_robin(group, partitions).partitions) == expected
    assert said(assign_round_robin(group[::-1], partitions).partitions) == expected


def test_static_members_come_first() -> None:
    """They are sorted by instance id, and the others after them by member id."""
    group = (Member("a", ("t",)), Member("z", ("t",), instance_id="two"), Member("y", ("t",), instance_id="three"))
    assert said(assign_round_robin(group, {"t": 3}).partitions) == {"a": "t2", "z": "t1", "y": "t0"}
