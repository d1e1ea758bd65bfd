"""Two members of one group whose partitions change hands while transactions are open."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Message

from fencepost.txn import Pipeline
from tests.txn.pipeline.helpers import LIMIT_S, QUICK, bill, group_at, invoices, order, results, settings_for
from tests.waiting import until

N = 300


class Running:
    """A pipeline that runs in a thread until the block ends."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.pipeline.run(timeout=3 * LIMIT_S)  # The test ends it.
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pipeline.stop()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


def slowly(message: Message) -> bytes:
    time.sleep(0.002)
    return bill(message)


def members_come_and_go(bootstrap: str, consumer: Mapping[str, Any], **changed: Any) -> None:
    """A second member comes in the middle, and leaves again. Each open transaction is committed before its partitions are given up, and
    every message has one result, from any member."""
    total = 2 * N
    names = {**QUICK, **changed}
    source, sink, group = names["source"], names["sink"], names["group"]
    order(bootstrap, range(total), source)
    given = {"consumer": consumer, "batch_ms": 300, "batch_size": 1_000, "transform": slowly, **changed}
    with Running(Pipeline(**settings_for(bootstrap, **given))) as first:
        until(lambda: first.pipeline.stats().records_in > 0, "the first has begun", timeout_s=LIMIT_S)
        with Running(Pipeline(**settings_for(bootstrap, **given))) as second:
            until(lambda: second.pipeline.stats().partitions > 0, "the second has partitions", timeout_s=LIMIT_S)
            order(bootstrap, range(total, total + N), source)
            until(lambda: second.pipeline.stats().records_in > 0, "the second has processed some", timeout_s=LIMIT_S)
        until(lambda: sum(group_at(bootstrap, source, group)) == total + N, "everything is processed", timeout_s=LIMIT_S, pause_max_s=0.2)
    ours, theirs = first.pipeline.stats(), second.pipeline.stats()
    assert results(bootstrap, sink) == invoices(range(total + N))
    assert ours.rebalances >= 2
    assert (ours.lost, theirs.lost) == (0, 0), (ours, theirs)
    if not consumer:
        # Otherwise a member can learn of the next generation after the coordinator has begun it: its offsets are then refused.
        assert (ours.aborts, theirs.aborts) == (0, 0)
    assert ours.records_in + theirs.records_in == total + N
