"""The random runs notice each rule of replication that is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.replication import replica_fetcher
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.remote_replica import RemoteReplica
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.replication.replica_fetcher import ReplicaFetcher
from fencepost.producer.wire import ErrorCode
from tests.broken_rules import assert_noticed
from tests.broker_stub.replication.test_random_replication import World
from tests.drawn import drawn
from tests.once import once_is_enough

pytestmark = once_is_enough("the rules of replication are the same Python")

RUNS_MAX = 200


def _up_to_the_leaders_end(self: Replica) -> bool:
    before = self.log.high_watermark
    self.log.advance_high_watermark(self.log.log_end_offset)
    return self.log.high_watermark > before


def _with_too_few(self: Replica) -> bool:
    before = self.log.high_watermark
    if self.leads:
        ends = [each.end_offset for node, each in self._remotes.items() if node in self.isr]
        self.log.advance_high_watermark(min([self.log.log_end_offset, *ends]))
    return self.log.high_watermark > before


def _joins_at_once(self: Replica, node: int, offset: int, log_start_offset: int, fetched: Callable[..., None] = Replica.fetched) -> None:
    fetched(self, node, offset, log_start_offset)
    if node not in self.isr:
        self.partition.alter_isr(self.node, [*self.isr, node])


def _anybody(
    self: Partition, state: Any, *, preferred: Any = None, unclean: bool = False, elected: Callable[..., Any] = Partition._elected
) -> Any:
    return elected(self, state, preferred=preferred, unclean=True)


def _at_once(self: Replica, end_offset: int, leader_epoch: int) -> ErrorCode:
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


def _by_high_watermark(self: ReplicaFetcher, replica: Replica, follow: Callable[..., None] = ReplicaFetcher.follow) -> None:
    replica._cluster.leader_epochs = False  # type: ignore[attr-defined]
    follow(self, replica)


def _stays(self: Partition, node: int, lose: Callable[..., None] = Partition.lose) -> None:
    isr = list(self.isr)
    lose(self, node)
    if self.leader != node:
        self._decide(replace(self.state, isr=isr))


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "the high watermark is the leader's end": (Replica, "_raise_high_watermark", _up_to_the_leaders_end),
    "the high watermark rises with too few in sync": (Replica, "_raise_high_watermark", _with_too_few),
    "the ISR does not shrink": (Replica, "shrink_isr", lambda self, *, lag_max_ms: False),
    "a follower is in sync with its first fetch": (Replica, "fetched", _joins_at_once),
    "any replica may lead": (Partition, "_elected", _anybody),
    "acks=all is answered at once": (Replica, "replicated", _at_once),
    "a fetch counts as having everything": (RemoteReplica, "fetched", _caught_up),
    "followers truncate to the high watermark": (ReplicaFetcher, "follow", _by_high_watermark),
    "a follower removes nothing": (replica_fetcher, "truncate_to_leader", lambda follower, epoch, end_offset: None),
    "a follower keeps what is past its leader's end": (replica_fetcher, "start_within", lambda log, *, start_offset, end_offset: None),
    "a broker that is down stays in the ISR": (Partition, "lose", _stays),
}


@drawn(4)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_runs_bite(mutant: str) -> None:
    """The random runs find each mutant of replication."""
    assert_noticed(mutant, MUTANTS[mutant], run=lambda seed: World(seed).run(), seeds=range(RUNS_MAX))
