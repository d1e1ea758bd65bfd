"""Groups as tables of their assignments: the worked examples of docs/groups.md, and how assignments read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fencepost.broker_stub.groups.assignors import ASSIGNORS
from fencepost.broker_stub.groups.assignors.subscriptions import Member, TopicPartition
from fencepost.broker_stub.groups.assignors.thread_assignors import StreamConsumer, assign_thread_ranges, assign_threads_round_robin


class Example(NamedTuple):
    """A group, and what the page says of it."""

    title: str
    partitions: dict[str, int]
    members: tuple[Member, ...]


def places(words: str) -> tuple[TopicPartition, ...]:
    """The partitions of `a:0,1 b:2`, in that order."""
    named = (each.split(":") for each in words.split())
    return tuple(TopicPartition(topic, int(number)) for topic, numbers in named for number in numbers.split(","))


def words(partitions: Iterable[tuple[str, int]]) -> str:
    """Partitions as `a:0,1 b:2`, sorted; `-` for none."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        numbers[topic].append(number)
    return " ".join(f"{topic}:{','.join(map(str, sorted(several)))}" for topic, several in sorted(numbers.items())) or "-"


def members(**topics: str) -> tuple[Member, ...]:
    """Members by id, each with its topics separated by spaces."""
    return tuple(Member(each, tuple(named.split())) for each, named in topics.items())


def with_owned(group: Sequence[Member], generation: int = 1, **owned: str) -> tuple[Member, ...]:
    return tuple(each._replace(owned=places(owned.get(each.id, "")), generation=generation) for each in group)


def said(assigned: Mapping[str, Iterable[tuple[str, int]]]) -> dict[str, str]:
    """Each member's partitions in the order in which it got them: `a0 b1`."""
    return {each: " ".join(f"{topic}{number}" for topic, number in partitions) for each, partitions in assigned.items()}


def section(example: Example) -> str:
    """The example as it stands on the page: its topics, its members, and what each assignor makes of them."""
    sizes = ", ".join(f"{topic} {count}" for topic, count in example.partitions.items())
    assigned = [assignor(example.members, example.partitions, {}).partitions for assignor in ASSIGNORS.values()]
    owns = any(each.owned for each in example.members)
    head = ["member", "subscribes to", *(["owns"] if owns else []), *ASSIGNORS]
    lines = [f"**{example.title}** (partitions: {sizes})", "", _row(head), "|" + "---|" * len(head)]
    for each in example.members:
        before = [words(each.owned)] if owns else []
        lines.append(_row([each.id, " ".join(each.topics), *before, *(words(partitions[each.id]) for partitions in assigned)]))
    return "\n".join(lines)


def thread_section() -> str:
    """The example of consumer threads as it stands on the page: C1 and C2 with two streams of p each."""
    group = [StreamConsumer("C1", {"p": 2}), StreamConsumer("C2", {"p": 2})]
    ranges, turns = assign_thread_ranges(group, {"p": 12}), assign_threads_round_robin(group, {"p": 12})
    rows = [_row([thread, words(ranges[thread]), words(turns[thread])]) for thread in ranges]
    return "\n".join([_row(["thread", "range", "roundrobin"]), "|---|---|---|", *rows])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


_CHAIN = {"t0": 1, "t1": 2, "t2": 3}
_THREE = {"t1": 3, "t2": 3, "t3": 3}

EXAMPLES: tuple[Example, ...] = (
    Example("Two topics", {"t0": 3, "t1": 3}, members(c0="t0 t1", c1="t0 t1")),
    Example("One topic of seven partitions", {"t0": 7}, members(b="t0", d="t0")),
    Example("Two topics of seven partitions", {"t0": 7, "t1": 7}, members(b="t0 t1", d="t0 t1")),
    Example("Three topics", {"t0": 3, "t1": 3, "t2": 3}, members(c0="t0 t1 t2", c1="t0 t1 t2")),
    Example("Subscriptions that overlap", _THREE, members(a="t1 t2", b="t2 t3")),
    Example("Subscriptions that have nothing in common", {"t1": 3, "t2": 3}, members(a="t1", b="t2")),
    Example("Subscriptions that grow", _CHAIN, members(c0="t0", c1="t0 t1", c2="t0 t1 t2")),
    Example(
        "The same after c0 has left",
        _CHAIN,
        with_owned(members(c1="t0 t1", c2="t0 t1 t2"), c1="t1:0,1", c2="t2:0,1,2"),
    ),
    Example("More members than partitions", {"t0": 2}, members(a="t0", b="t0", c="t0")),
    Example("A member joins", {"a": 6}, with_owned(members(m1="a", m2="a"), m1="a:0,1,2,3,4,5")),
)
"""In the order of the page."""
