"""The random runs notice each rule of replication that is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from fencepost.broker_stub.replication import replica_fetcher
from fencepost.broker_stub.replication.partition import NO_LEADER, Partition
from fencepost.broker_stub.replication.remote_replica import RemoteReplica
from fencepost.broker_stub.replication.replica_fetcher import ReplicaFetcher
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.replication.test_random_replication import World
from tests.once import once_is_enough

pytestmark = once_is_enough("the rules of replication are the same Python")

RUNS_MAX = 200


def _up_to_the_leaders_end(self: Partition) -> bool:
    before = self.log.high_watermark
    self.log.advance_high_watermark(self.log.log_end_offset)
    return self.log.high_watermark > before


def _with_too_few(self: Partition) -> bool:
    before = self.log.high_watermark
    if self.leader != NO_LEADER:
        ends = [each.end_offset for node, each in self._remotes.items() if node in self.isr]
        self.log.advance_high_watermark(min([self.log.log_end_offset, *ends]))
    return self.log.high_watermark > before


def _joins_at_once(
    self: Partition, node: int, offset: int, log_start_offset: int, fetched: Callable[..., None] = Partition.fetched
) -> None:
    fetched(self, node, offset, log_start_offset)
    if node not in self.isr:
        self._in_sync([*self.isr, node])


def _anybody(
    self: Partition, live: Any, *, preferred: Any = None, unclean: bool = False, elect: Callable[..., None] = Partition.elect
) -> None:
    elect(self, live, preferred=preferred, unclean=True)


def _at_once(self: Partition, end_offset: int, leader_epoch: int) -> ErrorCode:
    return ErrorCode.NONE


def _caught_up(
    self: RemoteReplica,
    offset: int,
    log_start_offset: int,
    *,
    leader_end: int,
    now_ms: int,
    fetched: Callable[..., None] = RemoteReplica.fetched,
) -> None:
    fetched(self, leader_end, log_start_offset, leader_end=leader_end, now_ms=now_ms)


def _by_high_watermark(self: ReplicaFetcher, partition: Partition, follow: Callable[..., None] = ReplicaFetcher.follow) -> None:
    partition.leader_epochs = False
    follow(self, partition)


def _stays(self: Partition, node: int, *, live: Any, lose: Callable[..., None] = Partition.lose) -> None:
    isr = list(self.isr)
    lose(self, node, live=live)
    self.isr = isr if self.leader != node else self.isr


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "the high watermark is the leader's end": (Partition, "_raise_high_watermark", _up_to_the_leaders_end),
    "the high watermark rises with too few in sync": (Partition, "_raise_high_watermark", _with_too_few),
    "the ISR does not shrink": (Partition, "shrink_isr", lambda self, *, lag_max_ms: False),
    "a follower is in sync with its first fetch": (Partition, "fetched", _joins_at_once),
    "any replica may lead": (Partition, "elect", _anybody),
    "acks=all is answered at once": (Partition, "replicated", _at_once),
    "a fetch counts as having everything": (RemoteReplica, "fetched", _caught_up),
    "followers truncate to the high watermark": (ReplicaFetcher, "follow", _by_high_watermark),
    "a follower removes nothing": (replica_fetcher, "truncate_to_leader", lambda follower, epoch, end_offset: None),
    "a follower keeps what is past its leader's end": (replica_fetcher, "start_within", lambda log, *, start_offset, end_offset: None),
    "a broker that is down stays in the ISR": (Partition, "lose", _stays),
}


def hunt(mutant: str) -> int | None:
    """The seed of the first run that notices the broken rule."""
    target, name, broken = MUTANTS[mutant]
    with patch.object(target, name, broken):
        for seed in range(RUNS_MAX):
            try:
                World(seed).run()
            except AssertionError as error:
                print(f"{mutant}: run {seed}: {error}")
                return seed
    return None


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_runs_bite(mutant: str) -> None:
    assert hunt(mutant) is not None, f"{mutant}: not noticed in {RUNS_MAX} runs"
