"""The assignors of the coordinator: worked examples, and what holds for every group."""

from __future__ import annotations

from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given, settings

from fencepost.broker_stub.groups.consumer.server_assignors import Assigned, Subscriber, Subscriptions, assign_range, assign_uniform

T, U, V = (UUID(int=number << 64 | number) for number in (1, 2, 3))


def group(members: dict[str, set[UUID]], sizes: dict[UUID, int], before: Assigned | None = None) -> Subscriptions:
    targets = before or {}
    subscribers = {name: Subscriber(None, frozenset(topics), targets.get(name, {})) for name, topics in members.items()}
    owned = frozenset((topic, index) for name in members for topic, indexes in targets.get(name, {}).items() for index in indexes)
    topics = list(members.values())
    return Subscriptions(subscribers, sizes, owned, are_equal=all(each == topics[0] for each in topics))


def counts(assigned: Assigned) -> dict[str, int]:
    return {name: sum(map(len, mine.values())) for name, mine in assigned.items()}


def test_ranges() -> None:
    """5 and 4 partitions for three members, as the client's range assignor does it."""
    found = assign_range(group({name: {T, U} for name in ("m1", "m2", "m3")}, {T: 5, U: 4}))
    assert found == {
        "m1": {T: frozenset({0, 1}), U: frozenset({0, 1})},
        "m2": {T: frozenset({2, 3}), U: frozenset({2})},
        "m3": {T: frozenset({4}), U: frozenset({3})},
    }


def test_ranges_of_different_subscriptions() -> None:
    """Each topic is shared by its own members."""
    found = assign_range(group({"m1": {T}, "m2": {T, U}, "m3": {U, V}}, {T: 3, U: 3, V: 2}))
    assert found == {
        "m1": {T: frozenset({0, 1})},
        "m2": {T: frozenset({2}), U: frozenset({0, 1})},
        "m3": {U: frozenset({2}), V: frozenset({0, 1})},
    }


def test_static_members_come_first() -> None:
    """In the order of their instance ids."""
    subscriptions = group({"a": {T}, "b": {T}, "c": {T}}, {T: 3})
    instances = {"a": None, "b": "2", "c": "1"}
    static = {name: each._replace(instance_id=instances[name]) for name, each in subscriptions.members.items()}
    found = assign_range(subscriptions._replace(members=static))
    assert found == {"c": {T: frozenset({0})}, "b": {T: frozenset({1})}, "a": {T: frozenset({2})}}


def test_uniform_follows_a_hash_table_that_grows_for_one_bucket() -> None:
    """Java doubles a small table before a bucket has nine keys. The last members of the table get one more: [m16, m38, m141, m163, m0, m27,
    m49, m130, m152, m174] is the order of Java's keys."""
    names = ["m0", "m16", "m27", "m38", "m49", "m130", "m141", "m152", "m163", "m174"]
    found = assign_uniform(group({name: {T} for name in names}, {T: 3}))
    assert {name: mine for name, mine in found.items() if mine} == {
        name: {T: frozenset({at})} for at, name in enumerate(["m130", "m152", "m174"])
    }


def test_uniform_keeps_what_it_can() -> None:
    """A second member gets half; when a third one comes, each gives up as little as possible."""
    one = assign_uniform(group({"m1": {T}}, {T: 6}))
    two = assign_uniform(group({"m1": {T}, "m2": {T}}, {T: 6}, one))
    assert two == {"m1": {T: frozenset({0, 1, 2})}, "m2": {T: frozenset({3, 4, 5})}}
    three = assign_uniform(group({"m1": {T}, "m2": {T}, "m3": {T}}, {T: 6}, two))
    assert three == {"m1": {T: frozenset({0, 1})}, "m2": {T: frozenset({3, 4})}, "m3": {T: frozenset({2, 5})}}


def test_nothing_to_assign() -> None:
    """No topics, and topics without members."""
    assert assign_uniform(group({"m1": set()}, {})) == {}
    assert assign_range(group({"m1": set()}, {T: 1})) == {"m1": {}}
    assert assign_uniform(group({"m1": {T}, "m2": set()}, {T: 2})) == {"m1": {T: frozenset({0, 1})}, "m2": {}}


names = st.sampled_from(["a", "b", "c", "d", "e", "member-1", "member-22"])
subscriptions = st.dictionaries(names, st.sets(st.sampled_from([T, U, V])), min_size=1)
sizes = st.fixed_dictionaries({topic: st.integers(1, 7) for topic in (T, U, V)})


@settings(deadline=None)
@given(st.lists(subscriptions, min_size=1, max_size=5), sizes, st.booleans())
def test_every_group_is_served(path: list[dict[str, set[UUID]]], sizes: dict[UUID, int], equal: bool) -> None:
    """While members come, go and change: every partition to which a member subscribes has one owner, which subscribes to it. The uniform
    assignor leaves no member two more than another one with the same subscription, and moves nothing if nothing changed."""
    for assign in (assign_range, assign_uniform):
        before: Assigned = {}
        for members in path:
            if equal:
                members = dict.fromkeys(members, next(iter(members.values())))
            found = assign(group(members, sizes, before))
            owners = [(topic, index) for mine in found.values() for topic, indexes in mine.items() for index in indexes]
            assert len(owners) == len(set(owners))
            assert set(owners) == {(topic, index) for topic in set().union(*members.values()) for index in range(sizes[topic])}
            assert all(topic in members[name] for name, mine in found.items() for topic in mine)
            before = found
            if assign is assign_uniform:
                held = counts(found)
                for one in members:
                    for other in members:
                        if members[one] == members[other] and one in held:
                            assert abs(held[one] - held[other]) <= 1
                again = assign(group(members, sizes, before))
                assert {name: mine for name, mine in again.items() if mine} == {name: mine for name, mine in found.items() if mine}
