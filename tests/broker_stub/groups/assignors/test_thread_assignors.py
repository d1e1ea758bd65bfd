"""The assignors of consumers before Kafka 0.9: partitions go to threads."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors.thread_assignors import (
    StreamConsumer,
    UnequalStreams,
    assign_thread_ranges,
    assign_threads_round_robin,
)
from tests.broker_stub.groups.assignors.worked_examples import said


def test_ranges_over_threads() -> None:
    """Kafka's own example: five partitions, two consumers with two threads each."""
    group = [StreamConsumer("C2", {"p": 2}), StreamConsumer("C1", {"p": 2})]
    assert said(assign_thread_ranges(group, {"p": 5})) == {"C1-0": "p0 p1", "C1-1": "p2", "C2-0": "p3", "C2-1": "p4"}


def test_ranges_of_several_topics() -> None:
    """Each topic has its own threads. More threads than partitions leave some idle, and threads are sorted as text."""
    group = [StreamConsumer("a", {"t": 11, "u": 1}), StreamConsumer("b", {"u": 2})]
    found = said(assign_thread_ranges(group, {"t": 3, "u": 4}))
    assert (found["a-0"], found["a-1"], found["a-10"], found["a-2"]) == ("t0 u0 u1", "t1", "t2", "")
    assert (found["b-0"], found["b-1"]) == ("u2", "u3")


def test_round_robin_over_threads() -> None:
    """The partitions are in the order of the hash codes of their names, so that one topic's are spread."""
    group = [StreamConsumer("a", {"t": 2, "u": 2}), StreamConsumer("b", {"t": 1, "u": 1})]
    every = sorted((("t", n) for n in range(4)), key=lambda tp: string_hash(f"[{tp[0]},{tp[1]}]"))
    assert every == [("t", 0), ("t", 1), ("t", 2), ("t", 3)]
    assert [string_hash(f"[t,{number}]") for number in (0, 10)] == [87540032, -1581226645]
    found = said(assign_threads_round_robin(group, {"t": 11, "u": 2}))
    assert found == {"a-0": "t10 t2 t5 t8 u1", "a-1": "t0 t3 t6 t9", "b-0": "t1 t4 t7 u0"}


@pytest.mark.parametrize(
    "group",
    [
        [StreamConsumer("a", {"t": 1, "u": 2})],
        [StreamConsumer("a", {"t": 1, "u": 1}), StreamConsumer("b", {"t": 1})],
    ],
)
def test_streams_that_differ(group: list[StreamConsumer]) -> None:
    """Round robin needs equal subscriptions, and the same number of streams for every topic. The error names the threads that differ."""
    with pytest.raises(UnequalStreams, match=r"subscribe to the same topics.*topic 't' has the threads a-0.*; topic 'u' has a-0"):
        assign_threads_round_robin(group, {"t": 1, "u": 1})


def test_consumers_may_differ() -> None:
    """Two consumers may have different numbers of streams, if each has the same for every topic."""
    group = [StreamConsumer("a", {"t": 2, "u": 2}), StreamConsumer("b", {"t": 1, "u": 1})]
    assert sum(map(len, assign_threads_round_robin(group, {"t": 3, "u": 3}).values())) == 6
    assert assign_threads_round_robin([], {"t": 1}) == {}
