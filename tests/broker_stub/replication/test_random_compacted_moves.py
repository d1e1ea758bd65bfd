"""Random runs of a compacted partition that moves: between brokers and between log directories, while leaders change, logs are truncated
and compacted, and brokers are killed, cut off and slow.

The newest acknowledged record of each key stays, or a newer one of the key. An older one never counts again. What two replicas have at an
offset is the same.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from fencepost.broker_stub.log import PartitionLog
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire.messages.replicas import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from fencepost.producer.wire.records import encode_batch, read_records
from tests.broker_stub.replication.test_random_replication import LAG_MS, STEPS, World
from tests.broker_stub.stub_calls import Inside, Pending, only, produce_request
from tests.drawn import drawn

SEEDS = int(os.environ.get("FENCEPOST_COMPACTED_MOVES", "40"))
NODES = (1, 2, 3)
KEYS = 5

Pair = tuple[bytes, bytes | None]
"""The key and the value of a record. None: a tombstone."""


def pairs(log: PartitionLog) -> dict[int, Pair]:
    """What is at each offset."""
    return {
        record.offset: (bytes(record.key or b""), None if record.value is None else bytes(record.value))
        for _, data in log.batches()
        for record in read_records(data)
    }


class CompactedWorld(World):
    """One run. `acked`: what was acknowledged with acks=all."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"compacted moves {seed}")
        Inside.__init__(self, brokers=3, journal=0, log_dirs=self.rng.choice((1, 2)), config={"replica.fetch.max.bytes": "300"})
        self.topic(
            replicas=self.rng.choice((1, 2, 3)),
            min_insync_replicas=self.rng.choice("12"),
            segment_bytes=self.rng.choice(("300", "700")),
            cleanup_policy="compact",
            min_cleanable_dirty_ratio="0.01",
            file_delete_delay_ms="0",
        )
        self.partition = self.topic_named().partitions[0]
        self.asked: list[tuple[list[Pair], Pending]] = []
        self.acked: dict[int, Pair] = {}
        self.written = 0

    def keyed(self) -> tuple[list[Pair], bytes]:
        found: list[Pair] = []
        for _ in range(self.rng.randrange(1, 4)):
            self.written += 1
            key, value = b"k%d" % self.rng.randrange(KEYS), None if self.rng.random() < 0.1 else b"%d" % self.written
            found.append((key, value))
        return found, encode_batch([(self.clock.now_ms(), key, value) for key, value in found])

    def write(self, acks: int = -1) -> None:
        if self.partition.leader != NO_LEADER:
            self.write_at(self.partition.leader, acks)

    def write_to_one_that_led(self) -> None:
        node = self.rng.choice(NODES)
        if self.cluster.brokers[node].alive:
            self.write_at(node, -1)

    def write_at(self, node: int, acks: int) -> None:
        found, data = self.keyed()
        pending = Pending()
        self.send(produce_request("t", data, acks=acks), 12, node=node, replies=pending.replies)
        if acks == -1:
            self.asked.append((found, pending))

    def compact(self) -> None:
        with suppress(StorageFailed):
            self.cluster.clean_logs()

    def reassign(self) -> None:
        target = self.rng.sample(NODES, self.rng.choice((1, 2, 2, 3)))
        wanted = None if self.rng.random() < 0.2 else target
        asked = ReassignablePartition(partition_index=0, replicas=wanted)
        request = AlterPartitionReassignmentsRequest(timeout_ms=1_000, topics=[ReassignableTopic(name="t", partitions=[asked])])
        node = self.rng.choice(NODES)
        if self.cluster.brokers[node].alive:
            self.send(request, 0, node=node, replies=[])

    def change_directory(self) -> None:
        node = self.rng.choice(self.partition.replicas)
        broker, replica = self.cluster.brokers[node], self.partition.on(node)
        targets = [each for each in broker.logs.online if not {*each.logs, *each.futures}]
        usable = replica is not None and not replica.is_offline and ("t", 0) in broker.logs.logs
        broker.move_bytes_per_second = self.rng.choice((None, 1, 1_000))
        if replica is not None and usable and broker.alive and not broker.paused and len(broker.logs.online) == 2 and targets:
            with suppress(StorageFailed):
                self.cluster.logs.moves.begin(replica, targets[0])

    def steps(self) -> list[tuple[Callable[[], None], int]]:
        return [*((step, often) for step, often in super().steps() if step != self.shorten), (self.compact, 6), (self.reassign, 3)]

    def _check(self) -> None:
        for found, pending in self.asked:
            for reply in pending.replies:
                answer = only(reply.response)
                if not answer.error_code:
                    self.acked.update(enumerate(found, answer.base_offset))
        self.asked = [each for each in self.asked if not each[1].replies]
        leads = self.partition.leader != NO_LEADER and not self.partition.leading.is_offline
        logs = {node: pairs(log) for node, log in self.partition.logs.items()}
        leader = logs[self.partition.leading.node]
        for node, log in self.partition.logs.items():
            there = logs[node]
            below = min(log.high_watermark, self.partition.log.high_watermark)
            assert [each for each in there.items() if each[0] < below and leader.get(each[0], each[1]) != each[1]] == []
            if leads and log is self.partition.log:
                self.check_keys(there, max([*self.acked, -1]) + 1)
            elif node in self.partition.isr and self.is_true_to_the_leader(node):
                self.check_keys(there, log.high_watermark)

    def is_true_to_the_leader(self, node: int) -> bool:
        replica = self.partition.on(node)
        return replica is not None and not replica.is_offline and replica.log.log_end_offset > 0

    def check_keys(self, there: dict[int, Pair], end: int) -> None:
        """What counts for each key, as far as its newest acknowledged record is below `end`."""
        newest = {key: offset for offset, (key, _) in sorted(self.acked.items())}
        counts = {key: offset for offset, (key, _) in sorted(there.items())}
        for key, offset in newest.items():
            if offset < end:
                assert counts.get(key, -1) >= offset, f"{key!r} at offset {offset} is lost"
                assert there.get(offset, self.acked[offset]) == self.acked[offset]

    def run(self) -> None:
        steps = self.steps()
        for step in self.rng.choices([step for step, _ in steps], [weight for _, weight in steps], k=STEPS):
            step()
            self.check()
        self.cluster.faults.clear()
        self.heal()
        for _ in range(4):
            self.pass_time(LAG_MS + 1)
            self.check()
            if {*self.partition.assignment.adding} & {*self.partition.assignment.removing}:
                self.partition.cancel_reassignment()  # as in Kafka, one that adds and removes the same broker does not end
        self.pass_time(1_000)  # the followers learn the high watermark
        assert len(self.cluster.logs.moves) == 0
        assert not self.partition.assignment.is_changing
        assert sorted(self.partition.isr) == sorted(self.partition.replicas) == sorted(self.partition.logs)
        leader = self.partition.log
        assert leader.high_watermark == leader.log_end_offset
        for _ in range(2):
            self.compact()
        self.check()
        ends = {(log.log_end_offset, log.high_watermark) for log in self.partition.logs.values()}
        assert ends == {(leader.log_end_offset, leader.high_watermark)}
        for broker in self.cluster.brokers.values():
            there = [key for each in broker.logs.dirs for key in (*each.logs, *each.futures)]
            assert there == [("t", 0)] * (broker.node_id in self.partition.replicas)
            names = [name for each in broker.logs.dirs for name in each.directory.directories()]
            assert names == ["t-0"] * (broker.node_id in self.partition.replicas)


@drawn(4)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_newest_record_of_each_key_stays(seed: int) -> None:
    """After random moves, truncations and compactions."""
    CompactedWorld(seed).run()


def test_a_follower_learns_a_high_watermark_that_it_could_not_take() -> None:
    """A leader epoch begins while the response with it is under way, and the leader's high watermark does not move any more."""
    CompactedWorld(647).run()
