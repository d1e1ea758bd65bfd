"""Barrier stages whose slots others have: given up after `barrier_wait_ms`, and the batch is written under another guard, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.txn.spark import BatchFailed
from fencepost.txn.spark.guards.selection import TABLE
from tests.txn.spark.site import Site
from tests.waiting import until

LIMIT_S = 60.0
WAIT_MS = 1_500


@contextmanager
def one_slot_taken(site: Site, mark: Path) -> Iterator[Future[Any]]:
    """A task of somebody else's has a slot until the block ends."""
    running, leave = str(mark / "running"), str(mark / "leave")

    def occupy(_: int) -> int:
        Path(running).touch()
        deadline = time.monotonic() + LIMIT_S
        while not Path(leave).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return 0

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(lambda: site.spark.sparkContext.parallelize([0], 1).map(occupy).collect())
        try:
            until(lambda: Path(running).exists() or job.done(), "the other job runs", timeout_s=LIMIT_S)
            yield job
        finally:
            Path(leave).touch()
            job.result(LIMIT_S)


def test_another_guard_is_taken(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `auto`, where tasks cannot take turns, the batch goes on with the status store as its guard, on the slots that there are,
    and is there once."""
    monkeypatch.setattr("fencepost.txn.spark.guards.selection.TABLE", [row for row in TABLE if row.guard != "turns"])
    writer = site.by_hand(guard="auto", barrier_wait_ms=WAIT_MS)
    rows = site.rows(*"abcdef", key="value")
    with one_slot_taken(site, tmp_path):
        writer(rows, site.offsets(0))
        metrics = writer.metrics
    assert (metrics["guard"], metrics["starved"], metrics["reruns"]) == ("status", 1, 1)
    assert site.committed() == [*"abcdef"]


def test_a_barrier_that_was_asked_for_says_what_it_waits_for(site: Site, tmp_path: Path) -> None:
    """With `guard="barrier"` the batch fails, names the setting, and leaves nothing; afterwards it is written as ever."""
    writer = site.by_hand(guard="barrier", barrier_wait_ms=WAIT_MS, max_reruns=0)
    rows = site.rows(*"abcdef", key="value")
    with one_slot_taken(site, tmp_path), pytest.raises(BatchFailed, match=r"did not get all its slots within 1.5 s \(barrier_wait_ms\)"):
        writer(rows, site.offsets(0))
    assert site.committed() == []
    site.by_hand(guard="barrier")(rows, 0)
    assert site.committed() == [*"abcdef"]
