"""Random runs of a partition on three brokers, which are killed, paused, cut off (also from the controller) and slow, while leaders move,
replicas move between log directories, and directories fail.

What was acknowledged with acks=all stays, wherever the leader is. Below the high watermark of two replicas their logs are the same. When
the troubles end, every replica has the same log, and is in sync.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from fencepost.broker_stub.cluster.context import CONTROLLER
from fencepost.broker_stub.log import PartitionLog
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import Api
from fencepost.producer.wire.records import read_records
from tests.broker_stub.stub_calls import Inside, Pending, batch, only, produce_request
from tests.drawn import drawn

STEPS = 120
LAG_MS = 30_000


def values(log: PartitionLog) -> dict[int, bytes]:
    """The value at each offset."""
    return {record.offset: bytes(record.value or b"") for _, data in log.batches() for record in read_records(data)}


class World(Inside):
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"replication {seed}")
        super().__init__(brokers=3, journal=0, log_dirs=self.rng.choice((1, 2)))
        self.topic(replicas=3, min_insync_replicas=self.rng.choice("12"), segment_bytes=self.rng.choice(("400", "100000")))
        self.partition = self.topic_named().partitions[0]
        self.sent: list[tuple[list[bytes], Pending]] = []
        self.acknowledged: dict[int, bytes] = {}

    def write(self, acks: int = -1) -> None:
        if self.partition.leader != NO_LEADER:
            some, pending = self.next_values(), Pending()
            self.sent.append((some, pending))
            self.send(produce_request("t", batch(*some), acks=acks), 12, replies=pending.replies if acks == -1 else [])

    def next_values(self) -> list[bytes]:
        """Of the next batch."""
        return [b"%d %d" % (len(self.sent), number) for number in range(1 + len(self.sent) % 3)]

    def write_to_the_leader_alone(self) -> None:
        self.write(acks=1)

    def wait(self) -> None:
        self.pass_time(self.rng.choice((1, 100, 500, 1_000, LAG_MS // 2, LAG_MS)))

    def tick(self) -> None:
        self.cluster.tick()

    def stop(self) -> None:
        self.cluster.stop_broker(self.rng.choice((1, 2, 3)), clean=self.rng.random() < 0.5)

    def start(self) -> None:
        node = self.rng.choice((1, 2, 3))
        if self.cluster.controller_link.is_up(node):
            self.repair(node)
            self.cluster.start_broker(node)

    def repair(self, node: int) -> None:
        for each in self.cluster.brokers[node].logs.dirs:
            each.disk.fault = None

    def heal(self) -> None:
        """Every broker runs, with all its directories, and reaches the others."""
        for one, other in [*self.cluster.broker_links.down, *self.cluster.broker_links.one_way]:
            self.cluster.broker_links.mend(one, other)
        for node in (1, 2, 3):
            self.cluster.resume_broker(node)
            self.cluster.tick()
            self.repair(node)
            if len(self.cluster.brokers[node].logs.online) < len(self.cluster.brokers[node].logs.dirs):
                self.cluster.stop_broker(node)
            self.cluster.start_broker(node)
            self.cluster.logs.moves.limit(node, None)

    def fail_a_directory(self) -> None:
        """A broker halts when its last one fails."""
        dirs = self.cluster.brokers[self.rng.choice((1, 2, 3))].logs.dirs
        self.rng.choice(dirs).disk.fault = self.rng.choice(("full", "failed"))

    def repair_disks(self) -> None:
        """Directories that are offline stay so until their broker starts again."""
        self.repair(self.rng.choice((1, 2, 3)))

    def change_directory(self) -> None:
        node = self.rng.choice((1, 2, 3))
        broker, replica = self.cluster.brokers[node], self.partition.on(node)
        assert replica is not None
        broker.move_bytes_per_second = self.rng.choice((None, 1, 1_000))
        targets = [each for each in broker.logs.online if not {*each.logs, *each.futures}]
        if broker.alive and not broker.paused and not replica.is_offline and len(broker.logs.online) == 2 and targets:
            with suppress(StorageFailed):
                self.cluster.logs.moves.begin(replica, targets[0])

    def sever(self) -> None:
        """The controller is an end, too."""
        one, other = self.rng.sample((CONTROLLER, 1, 2, 3), 2)
        self.cluster.broker_links.sever(one, other, one_way=self.rng.random() < 0.3)

    def mend(self) -> None:
        self.cluster.broker_links.mend(*self.rng.sample((CONTROLLER, 1, 2, 3), 2))

    def pause(self) -> None:
        self.cluster.pause_broker(self.rng.choice((1, 2, 3)))

    def resume(self) -> None:
        self.cluster.resume_broker(self.rng.choice((1, 2, 3)))

    def write_to_one_that_led(self) -> None:
        """A broker that may not know yet that another one leads. acks=all is acknowledged only by the one that does."""
        node, some, pending = self.rng.choice((1, 2, 3)), self.next_values(), Pending()
        if self.cluster.brokers[node].alive:
            self.sent.append((some, pending))
            self.send(produce_request("t", batch(*some)), 12, node=node, replies=pending.replies)

    def move(self) -> None:
        able = [node for node in self.partition.isr if node != self.partition.leader and self.cluster.brokers[node].alive]
        if able and self.partition.leader != NO_LEADER:
            self.cluster.move_leader(self.partition, to=self.rng.choice(able))

    def slow_down(self) -> None:
        """A fetch of a follower, or its response, is late, lost or processed twice."""
        rule = self.cluster.faults.on(Api.FETCH).where(client_id=f"broker-{self.rng.randrange(1, 4)}-fetcher-0").times(1)
        rule = self.rng.choice((rule.before, rule.after_append, rule.reply))()
        self.rng.choice((rule.drop, rule.disconnect, lambda: rule.delay(self.rng.choice((1, 700, LAG_MS)))))()

    def shorten(self) -> None:
        """The log's start rises."""
        if self.partition.leader != NO_LEADER:
            with suppress(StorageFailed):
                self.partition.leading.advance_log_start(self.rng.randint(0, self.partition.log.high_watermark))

    def check(self) -> None:
        """It reads logs whose disks fail, too."""
        faults = {each.disk: each.disk.fault for broker in self.cluster.brokers.values() for each in broker.logs.dirs}
        for disk in faults:
            disk.fault = None
        self._check()
        for disk, fault in faults.items():
            disk.fault = fault

    def _check(self) -> None:
        for some, pending in self.sent:
            for reply in pending.replies:
                answer = only(reply.response)
                if not answer.error_code:
                    self.acknowledged.update(enumerate(some, answer.base_offset))
        self.sent = [each for each in self.sent if not each[1].replies] if self.rng.random() < 0.1 else self.sent
        there = values(self.partition.log)
        start = self.partition.log.log_start_offset
        if self.partition.leader != NO_LEADER and not self.partition.leading.is_offline:
            lost = {offset: value for offset, value in self.acknowledged.items() if offset >= start and there.get(offset) != value}
            assert lost == {}, "acknowledged records are lost"
        for log in self.partition.logs.values():
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
            common = min(log.high_watermark, self.partition.log.high_watermark)
            mine = values(log)
            first = max(log.log_start_offset, self.partition.log.log_start_offset)
            assert [mine[offset] for offset in range(first, common)] == [there[offset] for offset in range(first, common)]

    def steps(self) -> list[tuple[Callable[[], None], int]]:
        """What can happen, and how often."""
        return [
            (self.write, 10),
            (self.write_to_the_leader_alone, 4),
            (self.tick, 6),
            (self.wait, 6),
            (self.stop, 2),
            (self.start, 3),
            (self.write_to_one_that_led, 3),
            (self.pause, 1),
            (self.resume, 2),
            (self.sever, 2),
            (self.mend, 3),
            (self.move, 2),
            (self.slow_down, 3),
            (self.shorten, 1),
            (self.change_directory, 3),
            (self.fail_a_directory, 1),
            (self.repair_disks, 2),
        ]

    def calm(self) -> None:
        """What ends before it is looked at which followers are waited for."""

    def run(self) -> None:
        steps = self.steps()
        for step in self.rng.choices([step for step, _ in steps], [weight for _, weight in steps], k=STEPS):
            step()
            self.check()
        self.cluster.faults.clear()
        self.calm()
        for _ in range(3):
            self.pass_time(LAG_MS + 1)  # for followers that are cut off
        for _ in range(20):
            self.pass_time(1_000)  # for fetches over slow links
        leader_knows = self.partition.leader != NO_LEADER and self.partition.leading.known is self.partition.state
        if leader_knows and len(self.partition.isr) >= self.partition.min_isr:
            assert self.partition.log.high_watermark == self.partition.log.log_end_offset, "a follower is waited for that does not fetch"
        for one, other, _ in self.cluster.broker_links.slow:
            self.cluster.broker_links.slow_down(one, other, 0)
        self.heal()
        for _ in range(3):
            self.pass_time(LAG_MS + 1)
        self.pass_time(1_000)
        self.check()
        leader = self.partition.log
        assert len(self.cluster.logs.moves) == 0
        assert sorted(self.partition.isr) == [1, 2, 3]
        assert leader.high_watermark == leader.log_end_offset
        for log in self.partition.logs.values():
            assert log.log_start_offset >= leader.log_start_offset  # a leader that was replaced raised it, and told no other replica
            assert values(log).items() >= {each for each in values(leader).items() if each[0] >= log.log_start_offset}
            assert (log.log_end_offset, log.high_watermark) == (leader.log_end_offset, leader.high_watermark)
            for epoch, start in leader.epochs:
                if log.log_start_offset <= start < leader.log_end_offset:
                    assert log.end_offset_for(epoch) == leader.end_offset_for(epoch)
        assert self.cluster.next_deadline() is None


@drawn(4)
@pytest.mark.parametrize("seed", range(40))
def test_replicas_agree_on_what_was_acknowledged(seed: int) -> None:
    """After random faults all replicas hold the same, and all that was acknowledged."""
    World(seed).run()
