"""A whole cluster whose power fails at random writes: topics are there as a whole or not at all, and what was acknowledged is there.

Every topic has flush.messages=1. A step that was under way may be done or not.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.log import Origin
from fencepost.broker_stub.storage.volatile import PowerLost, VolatileDirectory
from fencepost.producer.wire.records import encode_batch, read_records

SEEDS = int(os.environ.get("FENCEPOST_POWER_LOSSES", "400")) // 4
STEPS_MAX = 250


@dataclass
class Known:
    """What was promised about a topic. `doubtful`: a step about it was under way."""

    partitions: int
    overrides: dict[str, str]
    acknowledged: dict[int, list[bytes]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)


class World:
    """One directory, and the cluster of the process at hand."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"cluster power {seed}")
        self.clock = VirtualClock(1_700_000_000_000)
        self.directory = VolatileDirectory()
        self.brokers = self.rng.choice((1, 3))
        self.topics: dict[str, Known] = {}
        self.gone: set[str] = set()
        self.doubtful: str | None = None
        self.ids: set[object] = set()
        self.cluster = self.load()

    def load(self) -> Cluster:
        return Cluster(self.clock, brokers=self.brokers, storage=lambda _: self.directory)

    def act(self) -> None:
        """One random step. It is doubtful until it returns."""
        weights = {
            self.create: 2,
            self.delete: 1,
            self.grow: 1,
            self.configure: 1,
            self.take_an_id: 1,
            self.toggle_a_broker: 1,
            self.append: 8,
        }
        step = self.rng.choices([*weights], [*weights.values()])[0]
        if step == self.create or self.topics:
            step()
        self.doubtful = None

    def create(self) -> None:
        name = self.doubtful = f"t{self.rng.randrange(1 << 30)}"
        overrides = {"flush.messages": "1", "segment.bytes": str(self.rng.choice((200, 400, 1 << 20)))}
        count = self.rng.randrange(1, 4)
        topic = self.cluster.create_topic(name, partitions=count, replication_factor=self.brokers, overrides=overrides)
        assert topic.id not in self.ids, "a topic id is given twice"
        self.ids.add(topic.id)
        self.topics[name] = Known(count, overrides)

    def delete(self) -> None:
        name = self.doubtful = self.rng.choice([*self.topics])
        self.cluster.delete_topic(self.found(name))
        del self.topics[name]
        self.gone.add(name)

    def grow(self) -> None:
        name = self.doubtful = self.rng.choice([*self.topics])
        self.cluster.add_partitions(self.found(name), self.topics[name].partitions + 1)
        self.topics[name].partitions += 1

    def configure(self) -> None:
        name = self.doubtful = self.rng.choice([*self.topics])
        overrides = {**self.topics[name].overrides, "retention.ms": str(self.rng.randrange(1 << 40, 1 << 41))}
        self.cluster.configure(self.found(name), overrides)
        self.topics[name].overrides = overrides

    def take_an_id(self) -> None:
        fresh = self.cluster.producer_ids.fresh()
        assert fresh not in self.ids, "a producer id is given twice"
        self.ids.add(fresh)

    def toggle_a_broker(self) -> None:
        node = self.rng.randrange(1, self.brokers + 1)
        (self.cluster.stop_broker if self.cluster.brokers[node].alive else self.cluster.start_broker)(node)

    def append(self) -> None:
        name = self.rng.choice([*self.topics])
        partition = self.rng.choice(self.found(name).partitions)
        if partition.leader < 0:
            return
        value = self.rng.randbytes(self.rng.randrange(1, 40)) + b"%d" % self.rng.randrange(1 << 40)
        partition.leading.append(encode_batch([(self.clock.now_ms(), value, value)]), origin=Origin.CLIENT)
        known = self.topics[name]
        if partition.log.high_watermark == partition.log.log_end_offset:
            known.acknowledged.setdefault(partition.index, []).append(value)
            known.epochs[partition.index] = partition.leader_epoch

    def found(self, name: str) -> Topic:
        topic = self.cluster.topics.named(name)
        assert topic is not None, f"{name} is gone"
        return topic

    def check(self) -> None:
        """After a start. What was doubtful is known now."""
        there = {topic.name: topic for topic in self.cluster.topics}
        assert not there.keys() & self.gone - {self.doubtful}, "a deleted topic is back"
        assert there.keys() - {self.doubtful} == self.topics.keys() - {self.doubtful}
        if self.doubtful not in there:
            self.topics.pop(self.doubtful or "", None)
        for name, topic in there.items():
            known = self.topics.setdefault(name, Known(len(topic.partitions), dict(topic.overrides)))
            if name == self.doubtful:
                assert len(topic.partitions) in (known.partitions, known.partitions + 1)
                known.partitions, known.overrides = len(topic.partitions), dict(topic.overrides)
            assert (len(topic.partitions), dict(topic.overrides)) == (known.partitions, known.overrides)
            for partition in topic.partitions:
                values = [record.value for _, batch in partition.log.batches() for record in read_records(batch)]
                wanted = known.acknowledged.get(partition.index, [])
                assert [value for value in values if value in wanted] == wanted, f"{partition}: acknowledged records are lost or doubled"
                assert partition.leader_epoch >= known.epochs.get(partition.index, -1)
        self.gone.discard(self.doubtful or "")


def test_a_cluster_whose_power_fails() -> None:
    """At a random write, several times. What was acknowledged under the promised settings stays."""
    base = random.SystemRandom().randrange(1 << 32)
    for seed in range(base, base + SEEDS):
        try:
            lose_power_often(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def lose_power_often(seed: int) -> None:
    world = World(seed)
    power, rng = world.directory.power, world.rng
    for _ in range(4):
        power.trip_at = power.steps + rng.randrange(1, STEPS_MAX)
        try:
            while True:
                world.act()
        except PowerLost:
            pass
        while True:
            power.trip_at = None
            if rng.random() < 0.7:  # else only the process was killed
                world.directory.lose_power(rng)
            if rng.random() < 0.2:
                power.trip_at = power.steps + rng.randrange(1, 40)
            try:
                world.cluster = world.load()
                break
            except PowerLost:
                pass
        power.trip_at = None
        world.check()
        world.doubtful = None
