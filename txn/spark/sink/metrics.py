"""The metrics of each batch, as a dict for a StreamingQueryListener or any other code in the driver, and those of the newest batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct, field, to_builtins

HISTORY: Final = 100
"""The number of batches whose metrics are kept."""


class BatchMetrics(Struct, kw_only=True):
    """`ms`: by phase, added up. `guard`: the guard that was really used. `ledger`: open, committed, skipped, aborted or unknown. `reruns`:
    how often the batch was written again after an abort. `retries`: records that were sent again, counted each time. `stage_attempts`:
    attempts of the write stage beyond the first, if Spark tells. `unreachable`: jobs whose executors did not reach the driver, under the
    guard turns."""

    sink: str
    query: str | None
    batch: int
    rows: int = 0
    bytes: int = 0
    partitions: int = 0
    tasks: int = 0
    reruns: int = 0
    retries: int = 0
    bad_rows: int = 0
    stage_attempts: int = 0
    unreachable: int = 0
    guard: str = ""
    guard_reason: str = ""
    ledger: str = "open"
    staged: bool = False
    ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The time of the block belongs to the phase."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0.0) + (time.perf_counter() - began) * 1000.0

    def as_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = to_builtins(self)
        return result


class MetricsHistory:
    """The metrics of the newest batches. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[BatchMetrics] = []

    def add(self, metrics: BatchMetrics) -> None:
        """The metrics of a new batch."""
        with self._lock:
            self._kept = [*self._kept[1 - HISTORY :], metrics]

    def newest(self) -> dict[str, Any]:
        """Empty before the first batch."""
        with self._lock:
            return self._kept[-1].as_dict() if self._kept else {}

    def all(self) -> list[dict[str, Any]]:
        """The newest last."""
        with self._lock:
            return [each.as_dict() for each in self._kept]

    def committed_before(self, metrics: BatchMetrics) -> BatchMetrics | None:
        """The metrics of the newest committed batch other than this one."""
        earlier = [each for each in self._kept if each.ledger == "committed" and each is not metrics]
        return earlier[-1] if earlier else None
