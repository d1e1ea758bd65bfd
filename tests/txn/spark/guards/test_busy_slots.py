"""Another job of the application occupies slots. Tasks under `turns` need not run at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.txn.spark.site import Site
from tests.waiting import until

LIMIT_S = 60.0


@contextmanager
def one_slot_taken(site: Site, mark: Path) -> Iterator[Future[Any]]:
    """A task of another job occupies a slot until the block ends."""
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


@pytest.mark.parametrize("columns", [{"key": "value"}, {}], ids=["keyed", "keyless"])
def test_tasks_run_on_the_slots_that_are_left(site: Site, tmp_path: Path, columns: dict[str, str]) -> None:
    """More tasks than free slots write the batch once, while the other job runs."""
    writer = site.by_hand(guard="auto")
    rows = site.rows(*"abcdef", **columns).repartition(4)
    with one_slot_taken(site, tmp_path) as other:
        writer(rows, site.offsets(0))
        assert not other.done()
    assert (writer.metrics["guard"], writer.metrics["tasks"], writer.metrics["reruns"]) == ("turns", 4, 0)
    assert site.committed() == [*"abcdef"]
