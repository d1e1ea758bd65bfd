"""A follower's log that reaches its leader's: what it removes and what it copies."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.log import LogConfig, Origin, PartitionLog
from tests.broker_stub.log.log_tools import NOW, SetClock, data, marker, plain
from tests.broker_stub.stub_calls import Inside


def log_of(*epochs: tuple[int, int], end: int, high_watermark: int = 0) -> PartitionLog:
    """A log with a record for each offset. `epochs`: (epoch, the offset where it began)."""
    log = PartitionLog(clock_ms=SetClock())
    log.replicated_at_once = False
    ends = [*(start for _, start in epochs[1:]), end]
    for (epoch, start), stop in zip(epochs, ends, strict=True):
        for _ in range(start, stop):
            log.append(plain(), origin=Origin.CLIENT, leader_epoch=epoch)
    log.advance_high_watermark(high_watermark)
    return log


def catch_up(follower: PartitionLog, leader: PartitionLog, *, leader_epoch: int) -> int:
    """The follower fetches from the leader until it has everything. Returns where its log ended before it copied the first batch."""
    world = Inside(brokers=2)
    world.topic(replicas=2)
    partition = world.topic_named().partitions[0]
    node = next(each for each in partition.replicas if each != partition.leader)
    for each, log in ((partition.leader, leader), (node, follower)):
        replica = partition.on(each)
        assert replica is not None
        replica.log = log
    partition.state = replace(partition.state, leader_epoch=leader_epoch - 1)
    kept: list[int] = []

    class Seen(PartitionLog):
        def append(self, *given: Any, **more: Any) -> Any:
            kept.append(self.log_end_offset)
            return super().append(*given, **more)

    follower.__class__ = Seen
    partition.elect(preferred=partition.leader)
    world.cluster.tick()
    world.pass_time(500)
    assert follower.log_end_offset == leader.log_end_offset
    follower.__class__ = PartitionLog
    return (kept or [follower.log_end_offset])[0]


@pytest.mark.parametrize(
    ("follower", "leader", "left"),
    [
        (log_of((0, 0), end=5), log_of((0, 0), end=9), 5),
        (log_of((0, 0), end=9), log_of((0, 0), end=5), 5),
        (log_of((0, 0), end=9), log_of((0, 0), (1, 5), end=7), 5),
        (log_of((0, 0), (1, 10), end=12), log_of((0, 0), (2, 10), end=15), 10),
        (log_of((0, 0), (3, 20), end=25), log_of((0, 0), (1, 15), (2, 18), (4, 22), end=30), 15),
        (log_of((0, 0), (5, 20), end=25, high_watermark=7), log_of((0, 0), (1, 15), end=30), 15),
        (log_of((7, 0), end=3), log_of((8, 0), end=5), 0),
        (log_of((0, 0), end=0), log_of((0, 0), end=4), 0),
    ],
    ids=[
        "behind",
        "ahead",
        "a newer epoch",
        "fast fail-over",
        "two rounds",
        "an epoch that the leader lacks",
        "nothing in common",
        "empty",
    ],
)
def test_what_a_follower_keeps(follower: PartitionLog, leader: PartitionLog, left: int) -> None:
    """KIP-101's and KIP-279's cases: up to where the two logs are the same."""
    assert catch_up(follower, leader, leader_epoch=9) == left
    assert [*map(bytes_of, follower.batches())] == [*map(bytes_of, leader.batches())]
    assert follower.epochs == [each for each in leader.epochs if each[1] < leader.log_end_offset]


def test_a_follower_that_lacks_everything_begins_where_the_leader_begins() -> None:
    """Its own records lie below the leader's start, so they go."""
    follower, leader = log_of((0, 0), end=3), log_of((0, 0), end=20, high_watermark=20)
    leader.config = LogConfig(segment_bytes=100)
    for _ in range(5):
        leader.append(plain(), origin=Origin.CLIENT, leader_epoch=0)
    leader.advance_high_watermark(25)
    leader.advance_log_start(22)
    leader.delete_old_segments()
    catch_up(follower, leader, leader_epoch=0)
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (22, 25, 25)


def test_a_follower_learns_where_the_log_starts() -> None:
    """DeleteRecords on the leader, while the follower did not reach it."""
    follower, leader = log_of((0, 0), end=5, high_watermark=5), log_of((0, 0), end=9, high_watermark=9)
    leader.advance_log_start(7)
    catch_up(follower, leader, leader_epoch=0)
    assert (follower.log_start_offset, follower.log_end_offset) == (7, 9)


@pytest.mark.parametrize("seed", range(60))
def test_two_logs_that_went_apart_are_the_same_afterwards(seed: int) -> None:
    """Leaders change at random between two replicas that sometimes do not reach each other; producers and transactions write to the
    leader. After the follower has caught up, both have the same batches, epochs and producers."""
    rng = random.Random(f"apart {seed}")
    logs = [PartitionLog(clock_ms=SetClock(), config=LogConfig(segment_bytes=rng.choice([300, 3000, 1 << 20]))) for _ in range(2)]
    for log in logs:
        log.replicated_at_once = False
    leader, sequences = 0, dict.fromkeys((1, 2), 0)
    for epoch in range(rng.randrange(2, 9)):
        leader = rng.randrange(2)
        if rng.random() < 0.5:
            catch_up(logs[1 - leader], logs[leader], leader_epoch=epoch)
        else:
            logs[leader].lead(epoch)
        known = {active.producer_id: active for active in logs[leader].active_producers()}
        for _ in range(rng.randrange(6)):
            pid = rng.choice([1, 2])
            last = known.get(pid)
            sequences[pid] = last.last_sequence + 1 if last is not None else 0
            open_txn = last is not None and last.current_txn_start_offset >= 0
            match rng.randrange(3):
                case 0:
                    logs[leader].append(plain(NOW + epoch), origin=Origin.CLIENT, leader_epoch=epoch)
                case 1 if open_txn:
                    ended = marker(pid, 0, commit=rng.random() < 0.5)
                    logs[leader].append(ended, origin=Origin.COORDINATOR, leader_epoch=epoch)
                case _:
                    sent = data(pid, 0, sequences[pid], rng.randrange(1, 4), transactional=open_txn or pid == 2, timestamp=NOW)
                    logs[leader].append(sent, origin=Origin.CLIENT, leader_epoch=epoch)
            known = {active.producer_id: active for active in logs[leader].active_producers()}
    follower = logs[1 - leader]
    catch_up(follower, logs[leader], leader_epoch=99)
    assert [*map(bytes_of, follower.batches())] == [*map(bytes_of, logs[leader].batches())]
    written = {epoch for epoch, start in logs[leader].epochs if start < logs[leader].log_end_offset}
    assert [each for each in follower.epochs if each[0] in written] == [each for each in logs[leader].epochs if each[0] in written]
    by_pid = [sorted(log.active_producers(), key=lambda active: active.producer_id) for log in (follower, logs[leader])]
    assert by_pid[0] == by_pid[1]
    assert follower.aborted_transactions == logs[leader].aborted_transactions


def bytes_of(batch: tuple[object, memoryview]) -> bytes:
    return bytes(batch[1])
