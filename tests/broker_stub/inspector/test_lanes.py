"""A partition's lane: its newest batches, and its transactions as bars."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost import BrokerStub, Producer
from fencepost.broker_stub.inspector.lanes import ABORT, BATCHES_MAX, COMMIT, CONTROL, TXN, Batch, bars
from fencepost.broker_stub.log.txn_index import AbortedTxn

DEADLINE_S = 20.0


def data(offset: int, pid: int, *, count: int = 1, epoch: int = 0, flags: int = TXN) -> Batch:
    return [offset, offset + count - 1, count, pid, epoch, 0, flags, 0, 0, 70]


def marker(offset: int, pid: int, end: int) -> Batch:
    return data(offset, pid, flags=TXN | CONTROL | end)


def shapes(found: list[dict[str, Any]]) -> list[tuple[int, int, int, int, str]]:
    return [(each["pid"], each["first"], each["last"], each["records"], each["state"]) for each in found]


def test_markers_end_bars() -> None:
    """Each transaction is one bar, from its first batch to its marker; the next one of the same producer is another."""
    batches = [data(0, 1, count=2), data(2, 2), marker(3, 1, COMMIT), data(4, 1), marker(5, 2, ABORT), marker(6, 1, ABORT)]
    assert shapes(bars(batches, open_since={})) == [(1, 0, 3, 2, "committed"), (2, 2, 5, 1, "aborted"), (1, 4, 6, 1, "aborted")]


def test_open_transactions_have_no_end() -> None:
    """They reach to their newest batch, and begin where the log says, also before the first batch that is shown."""
    batches = [data(10, 1), data(11, 2, flags=0), data(12, 1, count=3)]
    assert shapes(bars(batches, open_since={1: 4})) == [(1, 4, 14, 4, "open")]
    assert shapes(bars([], open_since={7: 3})) == [(7, 3, 3, 0, "open")]


def test_a_marker_without_batches_takes_its_start_from_the_index() -> None:
    """The start of an aborted transaction is known though its batches are not shown; that of a committed one is not."""
    aborted = [AbortedTxn(1, 2, 20, 21)]
    found = bars([marker(20, 1, ABORT), marker(21, 2, COMMIT)], open_since={}, aborted=aborted)
    assert shapes(found) == [(1, 2, 20, 0, "aborted"), (2, 21, 21, 0, "committed")]


@pytest.mark.parametrize("count", [1, 3, 700])
def test_the_newest_batches_are_shown(count: int) -> None:
    """At most 200 of them, the newest ones, for any number and size."""
    with BrokerStub() as stub:
        with Producer(stub.settings, linger_ms=0, batch_size=1) as producer:
            for future in [producer.send("t", b"v") for _ in range(count)]:
                future.result(DEADLINE_S)
        ((part,),) = [topic["partitions"] for topic in stub.snapshot()["topics"]]
    assert len(part["batches"]) == min(count, BATCHES_MAX)
    assert part["batches"][-1][1] == part["end"] - 1 == count - 1
    assert [each[0] for each in part["batches"]] == sorted(each[0] for each in part["batches"])


def test_a_damaged_batch_ends_the_lane_and_breaks_nothing() -> None:
    """The page shows what can be read."""
    with BrokerStub() as stub:
        with Producer(stub.settings, linger_ms=0) as producer:
            for _ in range(3):
                producer.send("t", b"v").result(DEADLINE_S)
        stub.corrupt("t", 0, 1)
        ((part,),) = [topic["partitions"] for topic in stub.snapshot()["topics"]]
        assert part["end"] == 3
        assert part["batches"][0][0] == 0
