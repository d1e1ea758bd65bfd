"""Decisions about many partitions are kept with one sync, and before anything follows from them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.metadata_log import NAME
from fencepost.broker_stub.cluster.partition_decisions import PartitionDecisions
from fencepost.broker_stub.replication.partition_state import PartitionState
from tests.waiting import until

PARTITIONS = 40


def state(index: int, leader: int) -> PartitionState:
    return PartitionState(UUID(int=1), index, (1, 2), leader, 0, [1, 2], [], -1)


def test_what_follows_comes_after_the_newest_state_of_each_partition() -> None:
    """The newest state of each partition is kept once, and then the rest happens."""
    happened: list[object] = []

    def keep(states: Collection[PartitionState]) -> None:
        happened.append([(each.index, each.leader) for each in states])

    decisions = PartitionDecisions(keep)
    decisions.add(state(0, 1))
    decisions.then(lambda: happened.append("alone"))
    tell = lambda: happened.append("told")  # noqa: E731 - the same one twice
    with pytest.raises(ValueError, match="in between"), decisions.together():
        decisions.add(state(0, 2))
        with decisions.together():
            decisions.then(tell)
        decisions.add(state(1, 1))
        decisions.add(state(0, 1))
        decisions.then(tell)
        raise ValueError("in between")
    with decisions.together():
        pass
    assert happened == [[(0, 1)], "alone", [(0, 1), (1, 1)], "told"]


def test_a_broker_with_many_partitions_goes_and_comes_back(tmp_path: Path) -> None:
    """Each line of the file is synced."""

    def lines() -> int:
        return (tmp_path / NAME).read_bytes().count(b"\n")

    def in_sync() -> bool:
        return all(len(stub.isr("t", index)) == 3 for index in range(PARTITIONS))

    with BrokerStub(brokers=3, data_dir=tmp_path) as stub:
        stub.create_topic("t", partitions=PARTITIONS, replication_factor=3)
        until(in_sync, "in sync")
        before = lines()
        stub.stop_broker(2, clean=False)
        assert {len(stub.isr("t", index)) for index in range(PARTITIONS)} == {2}
        assert lines() == before + 1
        stub.start_broker(2)
        until(in_sync, "in sync again")
        assert lines() <= before + 1 + 2 * 4  # some fetches from each of two leaders
    with BrokerStub(brokers=3, data_dir=tmp_path) as stub:
        assert in_sync()
