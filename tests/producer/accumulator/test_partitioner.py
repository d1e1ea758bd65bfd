"""Where records go: murmur2 as Java has it, sticky-adaptive without a key (KIP-794), round-robin, and the choice between them."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import Shared
from fencepost.producer.accumulator.partitioner import (
    STICKY_BYTES,
    RoundRobin,
    Sticky,
    draw_weighted,
    murmur2,
    partition_for_key,
)

VECTORS = [
    # key, signed hash, partition of 3, of 12, of 50
    (b"", 275646681, 0, 9, 31),
    (b"\x00", 375494588, 2, 8, 38),
    (b"\xff", -311467685, 0, 3, 13),
    (b"a", -1563381124, 1, 4, 24),
    (b"ab", 316155434, 2, 2, 34),
    (b"abc", 479470107, 0, 3, 7),
    (b"abcd", -1323649548, 2, 8, 0),
    (b"21", -973932308, 0, 0, 40),
    (b"foobar", -790332482, 0, 6, 16),
    (b"kafka", -798503068, 1, 4, 30),
    (b"key-0", 29210041, 1, 1, 41),
    (b"key-1", 193331640, 0, 0, 40),
    (b"key-2", 852269702, 2, 2, 2),
    (b"\xff\xff\xff\xff", 644171429, 2, 5, 29),
    (bytes.fromhex("80818283848586"), -47880214, 1, 10, 34),
    (b"12345678", 338742798, 0, 6, 48),
    ((42).to_bytes(8, "big"), 506863552, 1, 4, 2),
    (bytes.fromhex("0123456789abcdef0123456789abcdef"), -1219422933, 2, 11, 15),
    ("ключ".encode(), 2122343024, 2, 8, 24),
    (b"a-little-bit-long-string", -985981536, 2, 8, 12),
    (b"a-little-bit-longer-string", -1486304829, 2, 11, 19),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 2, 5, 27),
]


def queues(partitions: int, *, available: list[int] | None = None, round_robin: bool = False, draw: int = 0) -> TopicQueues:
    topic = TopicQueues("t", draw=lambda: draw, round_robin=round_robin)
    topic.grow(partitions)
    topic.partitions = partitions
    topic.available = list(range(partitions)) if available is None else available
    return topic


@pytest.mark.parametrize(("key", "signed", "of_3", "of_12", "of_50"), VECTORS, ids=[repr(v[0][:12]) for v in VECTORS])
def test_keys_go_where_java_sends_them(key: bytes, signed: int, of_3: int, of_12: int, of_50: int) -> None:
    """murmur2 gives Java's bits, and the partition is the masked (not absolute) hash modulo all partitions."""
    assert murmur2(key, 0, len(key)) == signed & 0xFFFFFFFF
    assert [partition_for_key(key, n) for n in (3, 12, 50)] == [of_3, of_12, of_50]


def test_a_strangers_murmur2_agrees() -> None:
    """kafka-python's implementation, written by others, gives the same for keys of every length up to 64."""
    from kafka.partitioner.default import murmur2 as theirs

    rng = random.Random(794)
    keys = [rng.randbytes(length) for length in range(65) for _ in range(20)]
    assert [murmur2(key, 0, len(key)) for key in keys] == [theirs(key) & 0xFFFFFFFF for key in keys]


def test_a_key_counts_over_all_partitions() -> None:
    """A key's partition does not depend on which partitions have a leader: the same key always lands in the same one."""
    topic = queues(3, available=[0])
    assert topic.queue_for(b"key-2", 3).partition == 2


def test_a_grown_topic_places_keys_over_the_new_count() -> None:
    """After a topic grew, keys are placed as a producer started afterwards would place them."""
    topic = queues(3)
    topic.grow(12)
    topic.partitions = 12
    assert topic.queue_for(b"abcd", topic.partitions).partition == 8


def test_round_robin_takes_turns_over_available_partitions() -> None:
    """Round-robin visits each partition with a leader once a round, keyed records included, and others never."""
    topic = queues(4, available=[0, 2, 3], round_robin=True)
    seen = [topic.queue_for(key, 4).partition for key in (None, b"k", None, b"k", None, None)]
    assert seen == [0, 2, 3, 0, 2, 3]


def test_round_robin_uses_all_partitions_when_none_has_a_leader() -> None:
    """With no leader anywhere every partition takes its turn, so that records can wait for their leaders."""
    rotation = RoundRobin()
    assert [rotation.choose([], 3) for _ in range(4)] == [0, 1, 2, 0]


def test_the_weights_are_those_of_the_java_client() -> None:
    """Queues 0, 3 and 1 give the table 4, 5, 8: draws 0-3 choose the first, 4 the second, 5-7 the third."""
    assert [draw_weighted([0, 3, 1], draw) for draw in range(8)] == [0, 0, 0, 0, 1, 2, 2, 2]
    assert draw_weighted([0, 3, 1], 8) == 0, "the draw is taken modulo the table's last entry"


def test_equal_queues_are_drawn_evenly() -> None:
    """Without differences every candidate has the same chance."""
    assert [draw_weighted([7, 7, 7], draw) for draw in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_fuller_partition_is_chosen_less_often() -> None:
    """The sticky partitioner sees how much is queued: an empty partition gets most of the new batches, the fullest still some."""
    rng = random.Random(1)
    sticky = Sticky(draw=lambda: rng.getrandbits(31))
    drawn = Counter(sticky.choose([0, 1, 2], 3, [0, 3 * STICKY_BYTES, STICKY_BYTES]) for _ in range(8000))
    assert [round(drawn[p] / 1000) for p in range(3)] == [4, 1, 3]


def test_the_partition_sticks_until_its_bytes_are_spent() -> None:
    """Keyless records stay together until the sticky bytes are used up; the very next one is drawn anew."""
    draws = itertools.count()
    sticky = Sticky(draw=lambda: next(draws), sticky_bytes=1000)
    assert sticky.choose([0, 1, 2], 3, [0, 0, 0]) == 0
    sticky.spend(999)
    assert sticky.current == 0
    sticky.spend(1)
    assert sticky.current == -1, "used up"
    assert sticky.choose([0, 1, 2], 3, [0, 0, 0]) == 1


@pytest.mark.parametrize(("partition", "key"), [(2, None), (-1, b"key"), (2, b"key")])
def test_what_has_its_place_does_not_move_the_others_on(partition: int, key: bytes | None) -> None:
    """Records with a partition or a key leave the bytes that keyless records share a partition for to those, as Kafka's do."""
    draws = itertools.count()
    topic = TopicQueues("t", draw=lambda: next(draws), round_robin=False)
    topic.grow(3)
    topic.partitions, topic.available = 3, [0, 1, 2]
    shared = Shared(patience_s=1.0)
    shared.wake = lambda: None
    accumulator = Accumulator(batch_size=0, buffer_memory=1 << 20, clock=lambda: 0.0, shared=shared)
    assert accumulator.append(topic, -1, 0, None, b"x", None, None)
    stuck = topic.sticky.current
    assert accumulator.append(topic, partition, 0, key, b"x" * STICKY_BYTES, None, None)
    assert topic.sticky.current == stuck
    assert accumulator.append(topic, -1, 0, None, b"x" * STICKY_BYTES, None, None)
    assert topic.sticky.current < 0


def test_a_partition_without_leader_is_not_chosen() -> None:
    """Keyless records avoid partitions without a leader. If no partition has a leader, any of them may be chosen."""
    for draw in range(10):
        assert queues(5, available=[1, 3], draw=draw).queue_for(None, 5).partition in (1, 3)
    assert {queues(3, available=[], draw=draw).queue_for(None, 3).partition for draw in range(3)} == {0, 1, 2}


def test_the_draw_ignores_queues_of_partitions_without_leader() -> None:
    """The weights are those of the candidates alone: a stuck partition's long queue does not shift the others' chances."""
    sticky = Sticky(draw=lambda: 4)
    assert sticky.choose([0, 2], 3, [0, 90 * STICKY_BYTES, STICKY_BYTES]) == 0, "table 2, 3: the draw 4 mod 3 = 1 is the first one's"


def test_a_sticky_partition_that_is_gone_is_drawn_again() -> None:
    """When a topic comes back with fewer partitions, keyless records do not go on to one that no longer exists."""
    topic = queues(4, draw=3)
    assert topic.queue_for(None, 4).partition == 3
    topic.partitions, topic.available = 2, [0, 1]
    assert topic.queue_for(None, 2).partition in (0, 1)


@given(st.binary(max_size=60), st.binary(max_size=10), st.binary(max_size=10))
def test_murmur2_of_a_range(key: bytes, before: bytes, after: bytes) -> None:
    """The hash of a range of bytes does not depend on the bytes before and after it."""
    assert murmur2(before + key + after, len(before), len(key)) == murmur2(key, 0, len(key))
