"""The assignors of the stub beside Kafka's own classes: the same assignments, partition by partition and in the same order."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors import ASSIGNORS
from fencepost.broker_stub.groups.assignors.java_order import HashOrder
from fencepost.broker_stub.groups.assignors.subscriptions import Assignment, Member, Racks, TopicPartition
from tests.broker_stub.groups.assignors.worked_examples import EXAMPLES, places, said
from tests.conformance.fixtures import require_kafka
from tests.conformance.java_tools import compiles
from tests.conformance.kafka_home import find_java, kafka_home
from tests.drawn import SEED

pytestmark = pytest.mark.timeout(300)

GROUPS = 500
"""Random groups for each assignor."""


class Case(NamedTuple):
    """A group and the assignor."""

    assignor: str
    members: tuple[Member, ...]
    partitions: dict[str, int]
    racks: Racks = {}

    def as_json(self) -> str:
        racks = {
            topic: [sorted(self.racks.get(TopicPartition(topic, number), ())) for number in range(count)]
            for topic, count in self.partitions.items()
        }
        members = [each._asdict() for each in self.members]
        return json.dumps({"assignor": self.assignor, "members": members, "partitions": self.partitions, "racks": racks})


def ask_java(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """What Kafka's classes say of each case."""
    require_kafka()
    java = find_java()
    if not compiles(java):
        pytest.skip(f"{java} has no compiler, which a Java program in one source file needs")
    source = Path(__file__).with_name("Assignors.java")
    command = [str(java), "-Dlog4j2.level=OFF", "-Dlog4j2.StatusLogger.level=OFF", "-cp", f"{kafka_home()}/libs/*", str(source)]
    lines = "".join(f"{each.as_json()}\n" for each in cases)
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def assigned(case: Case) -> Assignment:
    """What the function says. Only the sticky assignor's consumers write what they own in an order of their own."""
    members = case.members
    if case.assignor == "sticky":
        members = tuple(each._replace(owned=as_in_user_data(each.owned)) for each in members)
    return ASSIGNORS[case.assignor](members, case.partitions, case.racks)


def ours(case: Case) -> dict[str, str]:
    return said(assigned(case).partitions)


def theirs(answer: dict[str, Any]) -> dict[str, str]:
    return {"error": answer["error"]} if "error" in answer else said(answer["partitions"])


def as_in_user_data(owned: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Owned partitions by topic, in the order in which Java's consumer writes them for the sticky assignor."""
    # `HashMap.computeIfAbsent` puts a new key at the head of its bucket.
    topics = HashOrder(string_hash, list(dict.fromkeys(tp.topic for tp in owned))[::-1])
    return tuple(tp for topic in topics for tp in owned if tp.topic == topic)


def a_group(rng: random.Random, assignor: str) -> Case:
    """Members with claims that some of them share. A member of an older generation claims only what it still subscribes to."""
    names = rng.sample([f"t{number}" for number in range(30)] + ["a", "orders", "ключ", "a.b"], rng.randint(1, 6))
    partitions = {name: rng.choice((0, 1, 2, 3, 5, 9)) for name in names if rng.random() < 0.95}
    every = [TopicPartition(name, number) for name, count in partitions.items() for number in range(count)]
    equal = rng.sample(names, rng.randint(1, len(names)))
    is_equal, with_racks, newest = rng.random() < 0.5, rng.random() < 0.4, rng.choice((-1, 0, 4))
    ids = rng.sample(
        [f"m{number}" for number in range(40)] + [f"c-{rng.getrandbits(64):x}" for _ in range(40)], rng.choice((1, 2, 3, 4, 7, 20))
    )
    rng.shuffle(every)
    share = rng.randint(0, 6)
    members = []
    for place, name in enumerate(ids):
        topics = tuple(equal if is_equal else rng.sample(names, rng.randint(1, len(names))))
        owned = every[place * share : (place + 1) * share] if rng.random() < 0.8 else rng.sample(every, min(len(every), rng.randint(0, 5)))
        generation = newest if rng.random() < 0.8 else rng.randint(-1, 4)
        instance_id = f"i{rng.getrandbits(32)}" if rng.random() < 0.2 else None
        rack = rng.choice((None, "r1", "r2", "r3")) if with_racks else None
        members.append(Member(name, topics, tuple(owned), generation=generation, instance_id=instance_id, rack=rack))
    highest = max(each.generation for each in members)
    old = {each.id: tuple(tp for tp in each.owned if tp.topic in each.topics) for each in members if each.generation < highest}
    members = [each._replace(owned=old.get(each.id, each.owned)) for each in members]
    racks = {tp: frozenset(rng.sample(("r1", "r2", "r3", "r4"), rng.randint(0, 3))) for tp in every} if with_racks else {}
    return Case(assignor, tuple(members), partitions, racks)


def test_random_groups() -> None:
    """Hundreds of groups for each assignor: subscriptions that are equal or not, claims of several generations, static members, racks."""
    seed = f"{os.environ[SEED]} assignors"
    rng = random.Random(seed)
    cases = [a_group(rng, assignor) for assignor in ASSIGNORS for _ in range(GROUPS)]
    answers = ask_java(cases)
    assert len(answers) == len(cases)
    different = [(case, ours(case), theirs(answer)) for case, answer in zip(cases, answers, strict=True) if ours(case) != theirs(answer)]
    assert different == [], f"{len(different)} of {len(cases)} groups, with the seed {seed!r}"
    for case, answer in zip(cases, answers, strict=True):
        if "transferring" in answer:
            found = assigned(case).transferring
            assert {(topic, number): member for topic, number, member in answer["transferring"]} == found


def test_the_worked_examples() -> None:
    """Every cell of the tables in docs/groups.md."""
    cases = [Case(assignor, each.members, each.partitions) for each in EXAMPLES for assignor in ASSIGNORS]
    assert [theirs(answer) for answer in ask_java(cases)] == [ours(case) for case in cases]


def sticky(*members: Member, **partitions: int) -> Case:
    return Case("sticky", members, partitions)


DIFFERENCES = {
    "a member without topics gets partitions": (
        sticky(Member("a", ()), Member("b", ("t",)), Member("c", ("t",)), t=4),
        {"a": "t0 t3", "b": "t1", "c": "t2"},
        {"a": "", "b": "t0 t2", "c": "t1 t3"},
    ),
    "a partition that is gone is assigned": (
        sticky(Member("a", ("t",), places("t:9"), 1), Member("b", ("t",)), t=2),
        {"a": "t9", "b": "t0 t1"},
        {"a": "t0", "b": "t1"},
    ),
    "a partition that is gone ends the assignment": (
        sticky(Member("a", ("t", "u"), places("t:9 u:0"), 1), Member("b", ("t", "u")), t=2, u=2),
        {"error": "IllegalStateException"},
        {"a": "u0 t0", "b": "t1 u1"},
    ),
    "a former owner gets a partition that it no longer subscribes to": (
        sticky(
            Member("a", ("u",), places("t:0"), 1),
            Member("b", ("t",), places("t:0,1,2,3"), 2),
            Member("c", ("t", "u"), (), 2),
            t=4,
            u=1,
        ),
        {"a": "u0 t0", "b": "t2 t3", "c": "t1"},
        {"a": "u0", "b": "t2 t3", "c": "t0 t1"},
    ),
    "a former owner that shares no topic ends the assignment": (
        sticky(
            Member("a", ("u",), places("t:0"), 1),
            Member("b", ("t",), places("t:0,1,2,3"), 2),
            Member("c", ("t",), (), 2),
            t=4,
            u=1,
        ),
        {"error": "NullPointerException"},
        {"a": "u0", "b": "t2 t3", "c": "t0 t1"},
    ),
}
"""Each group, what Kafka's class says, and what the function says."""


def test_where_kafka_breaks_its_promise() -> None:
    """Groups that Kafka's sticky assignors get wrong, and that are assigned as promised here."""
    answers = ask_java(case for case, _, _ in DIFFERENCES.values())
    for (name, (case, kafkas, expected)), answer in zip(DIFFERENCES.items(), answers, strict=True):
        assert (name, theirs(answer), ours(case)) == (name, kafkas, expected)
