"""Random runs of a log that moves between three log directories, while it is written, shortened, compacted and truncated, and while its
broker stops, is killed, and loses its power at any write.

In each directory the log has what was written to it: it equals a plain list. A move changes nothing that clients can see. The
directories have this log, at most one future log, and nothing else.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.log_dir import FUTURE, LogDir
from fencepost.broker_stub.log import Origin, PartitionLog
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.storage.volatile import Power, PowerLost, VolatileDirectory
from fencepost.producer.wire.records import ControlType, encode_batch, encode_marker, read_records

SEEDS = int(os.environ.get("FENCEPOST_LOG_DIR_MOVES", "60"))
STEPS = 120
DIRS = 3


def seen(log: PartitionLog) -> dict[str, object]:
    """What clients and followers can see of a log besides its batches."""
    return {
        "end": log.log_end_offset,
        "high watermark": log.high_watermark,
        "last stable offset": log.last_stable_offset,
        "first dirty offset": log.first_dirty_offset,
        "epochs": [each for each in log.epochs if each[1] > log.log_start_offset],
        "producers": sorted((each.producer_id, each.last_sequence, each.current_txn_start_offset) for each in log.active_producers()),
        "aborted": [each for each in log.aborted_transactions if each.last_offset >= log.log_start_offset],
        "replicated at once": log.replicated_at_once,
    }


class World:
    """One run. `written`: key and value at each offset; None for a marker. `doubtful`: the offset of an append that was under way."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"log dir moves {seed}")
        self.clock = VirtualClock(1_700_000_000_000)
        self.directory = VolatileDirectory()
        self.written: dict[int, tuple[bytes, bytes] | None] = {}
        self.aborted: set[int] = set()
        self.open: dict[int, list[int]] = {}  # by producer: the offsets of its transaction
        self.ended = 0, list[int]()  # the transaction whose end was written last
        self.sequences: dict[int, int] = {}
        self.doubtful = self.lost_power = False
        self.policy = self.rng.choice(("delete", "delete", "compact", "compact,delete"))
        self.cluster = self.load()
        self.overrides = {
            "flush.messages": "1",
            "segment.bytes": str(self.rng.choice((300, 1_000, 1 << 20))),
            "cleanup.policy": self.policy,
            "retention.bytes": "2000" if "delete" in self.policy and self.rng.random() < 0.5 else "-1",
            "min.cleanable.dirty.ratio": "0.01",
            "file.delete.delay.ms": "0",
        }
        self.cluster.create_topic("t", partitions=1, replication_factor=1, overrides=self.overrides)

    def load(self) -> Cluster:
        return Cluster(self.clock, log_dirs=DIRS, storage=lambda _: self.directory, config={"replica.fetch.max.bytes": "200"})

    @property
    def partition(self) -> Partition:
        topic = self.cluster.topics.named("t")
        assert topic is not None
        return topic.partitions[0]

    @property
    def replica(self) -> Replica:
        return self.partition.leading

    @property
    def is_up(self) -> bool:
        return self.cluster.brokers[1].alive

    def append(self) -> None:
        pid = self.rng.choice((-1, 1, 2, 3))
        if pid in self.open or not self.is_up:
            return
        self.write(pid, transactional=False)

    def write(self, pid: int, *, transactional: bool) -> None:
        count = self.rng.randrange(1, 4)
        records = [
            (self.clock.now_ms(), b"k%d" % self.rng.randrange(6), self.rng.randbytes(self.rng.randrange(1, 60))) for _ in range(count)
        ]
        sequence = self.sequences.get(pid, 0)
        batch = encode_batch(
            records,
            producer_id=pid,
            producer_epoch=-1 if pid < 0 else 0,
            base_sequence=-1 if pid < 0 else sequence,
            transactional=transactional,
        )
        base = self.partition.log.log_end_offset
        self.doubtful = True
        for number, (_, key, value) in enumerate(records):
            self.written[base + number] = (key, value)
        if pid >= 0:
            self.sequences[pid] = sequence + count
        if transactional:
            self.open.setdefault(pid, []).extend(range(base, base + count))
        result = self.replica.append(batch, origin=Origin.CLIENT)
        assert result.base_offset == base, "a batch is taken for a duplicate"
        self.doubtful = False

    def begin(self) -> None:
        if self.is_up:
            self.write(self.rng.choice((11, 12)), transactional=True)

    def end(self) -> None:
        if not self.open or not self.is_up:
            return
        pid = self.rng.choice([*self.open])
        commits = self.rng.random() < 0.5
        marker = encode_marker(
            ControlType.COMMIT if commits else ControlType.ABORT,
            producer_id=pid,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.clock.now_ms(),
        )
        self.doubtful = True
        self.written[self.partition.log.log_end_offset] = None
        offsets = self.open.pop(pid)
        self.ended = pid, offsets
        if not commits:
            self.aborted.update(offsets)
        self.replica.append(marker, origin=Origin.COORDINATOR)
        self.doubtful = False

    def shorten(self) -> None:
        log = self.partition.log
        if self.is_up and log.log_start_offset < log.high_watermark:
            self.replica.advance_log_start(self.rng.randint(log.log_start_offset, log.high_watermark))

    def clean(self) -> None:
        moves, before = self.replica.future is not None, self.partition.log.segments
        self.cluster.clean_logs()
        assert not moves or self.partition.log.segments == before, "a log that moves is cleaned"

    def truncate(self) -> None:
        """As a follower does: what is behind the cut is written anew in a later epoch. Only where no transaction and producer is cut."""
        log = self.partition.log
        if not self.is_up or self.open or self.sequences or "compact" in self.policy:
            return
        cut = self.rng.randint(log.log_start_offset, log.log_end_offset)
        log.truncate(cut)
        for offset in [each for each in self.written if each >= log.log_end_offset]:
            del self.written[offset]
        self.cut_batch()
        self.partition.elect()

    def cut_batch(self) -> None:
        """A truncation removes whole batches, also what of them was before the start, to which a loss of power may go back."""
        end = max((header.last_offset + 1 for header, _ in self.partition.log.batches()), default=0)
        for offset in [each for each in self.written if each >= end]:
            del self.written[offset]

    def move(self) -> None:
        if not self.is_up:
            return
        manager = self.cluster.brokers[1].logs
        target = self.rng.choice(manager.dirs)
        self.cluster.brokers[1].move_bytes_per_second = self.rng.choice((None, 1, 500))
        if self.replica.future is not None and ("t", 0) not in target.futures:
            self.cluster.logs.moves.cancel(self.replica)
        if ("t", 0) not in target.logs and ("t", 0) not in target.futures:
            self.cluster.logs.moves.begin(self.replica, target)

    def tick(self) -> None:
        """A move that ends changes nothing."""
        self.clock.advance(self.rng.choice((0, 1, 300, 3_000)))
        was = self.partition.log
        self.cluster.tick()
        now = self.partition.log
        if now is not was:
            assert now.log_start_offset == was.log_start_offset or (self.lost_power and now.log_start_offset > was.log_start_offset)
            was.advance_high_watermark(now.high_watermark)
            was.advance_log_start(now.log_start_offset)
            assert seen(now) == seen(was)

    def toggle(self) -> None:
        if self.is_up:
            self.cluster.stop_broker(1, clean=self.rng.random() < 0.5)
        else:
            self.cluster.start_broker(1)

    def check(self, *, at_rest: bool = True) -> None:
        log, manager = self.partition.log, self.cluster.brokers[1].logs
        records = [(record, header) for header, batch in log.batches() for record in read_records(batch)]
        there = {
            record.offset: None if header.is_control else (bytes(record.key or b""), bytes(record.value or b""))
            for record, header in records
            if record.offset >= log.log_start_offset
        }
        wanted = {offset: each for offset, each in self.written.items() if offset >= log.log_start_offset}
        if "compact" not in self.policy:
            assert there == wanted
        else:
            assert there.items() <= wanted.items()
            newest = {each[0]: offset for offset, each in sorted(wanted.items()) if each is not None and offset not in self.aborted}
            assert {*newest.values()} <= there.keys(), "the newest record of a key is lost"
        if at_rest:
            names = sorted(name for each in manager.dirs for name in each.directory.directories())
            future = [name for name in names if name.endswith(FUTURE)]
            assert [name for name in names if name not in future] == ["t-0"]
            assert len(future) == (manager.dir_of_future(("t", 0)) is not None)

    def act(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.append, 12),
            (self.begin, 4),
            (self.end, 4),
            (self.shorten, 2),
            (self.clean, 3),
            (self.truncate, 2),
            (self.move, 5),
            (self.tick, 8),
            (self.toggle, 2),
        ]
        self.rng.choices([step for step, _ in steps], [weight for _, weight in steps])[0]()

    def lose_power(self) -> None:
        """In the middle of a step, or only the process is killed. What was acknowledged is there."""
        self.directory.power.trip_at = None
        self.lost_power = True
        if self.rng.random() < 0.7:
            self.directory.lose_power(self.rng)
        while True:
            if self.rng.random() < 0.3:
                self.directory.power.trip_at = self.directory.power.steps + self.rng.randrange(1, 40)
            try:
                self.cluster = self.load()
                break
            except PowerLost:
                self.directory.power.trip_at = None
                self.directory.lose_power(self.rng)
        self.directory.power.trip_at = None
        if self.doubtful:
            self.forget_doubtful()
        self.check()
        self.know_producers()

    def forget_doubtful(self) -> None:
        """The last append may be there or not. Its producer and transaction are not used again."""
        self.doubtful = False
        log = self.partition.log
        for offset in [each for each in self.written if each >= log.log_end_offset]:
            del self.written[offset]
        self.aborted.update(offset for offsets in self.open.values() for offset in offsets)
        open_there = {each.producer_id for each in log.active_producers() if each.current_txn_start_offset >= 0}
        pid, offsets = self.ended
        if pid in open_there and pid not in self.open:  # its marker is not there
            self.open[pid] = offsets
        self.open = {pid: offsets for pid, offsets in self.open.items() if pid in open_there}
        self.aborted.difference_update(offset for offsets in self.open.values() for offset in offsets)
        self.aborted.intersection_update(self.written)  # what is not there leaves its offset to the next record
        self.open = {pid: [each for each in offsets if each in self.written] for pid, offsets in self.open.items()}

    def know_producers(self) -> None:
        """As in Kafka, a broker that lost its power knows producers by their batches, of which some may have been deleted."""
        log = self.partition.log
        known = {each.producer_id: each.last_sequence + 1 for each in log.active_producers()}
        data = [header for header, _ in log.batches() if header.producer_id >= 0 and not header.is_control]
        assert {header.producer_id: header.last_sequence + 1 for header in data}.items() <= known.items()
        self.sequences = {pid: known.get(pid, 0) for pid in self.sequences}


def test_a_log_that_moves() -> None:
    """Among random writes, stops and losses of power. Each record is there once afterwards."""
    base = random.SystemRandom().randrange(1 << 32)
    for seed in range(base, base + SEEDS):
        try:
            run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_a_broker_is_killed_when_a_log_has_moved_and_loses_its_power_when_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each pair of steps. The kill leaves what was not synced, and the loss of power after it takes some of that away: the log is in one
    directory nevertheless, with each record."""
    take_out = LogDir.take_out
    both = 0
    for step, later in product(range(1, 5), range(1, 20)):
        world = World(step * 100 + later)
        world.write(-1, transactional=False)
        power, manager = world.directory.power, world.cluster.brokers[1].logs

        def killed_soon(*given: Any, power: Power = power, step: int = step) -> None:
            power.trip_at = power.steps + step
            take_out(*given)

        monkeypatch.setattr(LogDir, "take_out", killed_soon)
        world.cluster.logs.moves.begin(world.replica, next(each for each in manager.dirs if ("t", 0) not in each.logs))
        with pytest.raises(PowerLost):
            world.cluster.tick()
        power.trip_at = power.steps + later
        try:
            world.cluster = world.load()
        except PowerLost:
            both += 1
        power.trip_at = None
        world.directory.lose_power(world.rng)
        world.cluster = world.load()
        world.check()
    assert both > 40


@pytest.mark.parametrize("step", range(1, 5))
def test_a_batch_that_is_lost_belongs_to_no_transaction(step: int) -> None:
    """The next record has its offset. When the transaction is aborted, that record still counts as the newest of its key."""
    for seed in range(8):
        world = World(seed)
        world.write(11, transactional=True)
        world.directory.power.trip_at = world.directory.power.steps + step
        with suppress(PowerLost):
            world.write(11, transactional=True)
        world.lose_power()
        assert world.open == {11: [*range(world.partition.log.log_end_offset)]}


def run(seed: int) -> None:
    world = World(seed)
    power = world.directory.power
    for _ in range(3):
        if world.rng.random() < 0.8:
            power.trip_at = power.steps + world.rng.randrange(1, 2_000)
        try:
            for _ in range(STEPS):
                world.act()
                world.check()
        except PowerLost:
            pass
        world.lose_power()
    if not world.is_up:
        world.cluster.start_broker(1)
    world.cluster.brokers[1].move_bytes_per_second = None
    world.tick()
    world.clock.advance(10_000)
    world.cluster.tick()
    world.check()
    assert len(world.cluster.logs.moves) == 0
    assert world.replica.future is None
    assert world.cluster.next_deadline() is None
