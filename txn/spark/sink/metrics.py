"""The metrics of each batch, as a dict for a StreamingQueryListener or any other code in the driver, and those of the newest batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct, field, to_builtins

from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.observe.prometheus import describe

HISTORY: Final = 100
"""The number of batches whose metrics are kept."""


class BatchMetrics(Struct, kw_only=True):
    """`ms`: by phase, added up. `guard`: the guard that was really used. `ledger`: open, committed, skipped, aborted or unknown. `reruns`:
    how often the batch was written again after an abort. `retries`: records that were sent again, counted each time. `stage_attempts`:
    attempts of the write stage beyond the first, if Spark tells. `unreachable`: jobs whose executors did not reach the driver, under the
    guard turns. `committed_at`: in seconds since 1970, by the driver's clock."""

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
    committed_at: float | None = None
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


class SparkWriterStats(Struct, frozen=True, kw_only=True):
    """A writer's totals since it was made, and figures of its newest committed batch: its number, -1 without one, its rows, its seconds,
    and the time of its commit. A batch counts once, as what it is in the end: `ledger` of its metrics. `started_at`: when the writer was
    made. It and `committed_at` are in seconds since 1970, by the driver's clock."""

    sink: str
    started_at: float
    committed: int = 0
    skipped: int = 0
    aborted: int = 0
    unknown: int = 0
    rows: int = 0
    bytes: int = 0
    bad_rows: int = 0
    reruns: int = 0
    retries: int = 0
    stage_attempts: int = 0
    batch: int = -1
    batch_rows: int | None = None
    batch_seconds: float | None = None
    committed_at: float | None = None


OUTCOMES: Final = ("committed", "skipped", "aborted", "unknown")
SUMS: Final = ("rows", "bytes", "bad_rows", "reruns", "retries", "stage_attempts")
"""Rows and bytes count in committed batches only."""

describe(
    SparkWriterStats,
    "fencepost_spark_",
    {"sink": "sink"},
    {
        "started_at": ("started_at_seconds", "When the writer was made, in seconds since 1970."),
        "committed": ("batches_committed_total", "Batches that were committed."),
        "skipped": ("batches_skipped_total", "Batches that the ledger had already."),
        "aborted": ("batches_aborted_total", "Batches that were aborted in the end."),
        "unknown": ("batches_unknown_total", "Batches whose commit got no answer. The next attempt finds out."),
        "rows": ("rows_total", "Rows of committed batches."),
        "bytes": ("bytes_total", "Bytes of keys, values and headers of committed batches."),
        "bad_rows": ("bad_rows_total", "Rows that could not be written."),
        "reruns": ("reruns_total", "Times that a batch was written again after an abort."),
        "retries": ("record_retry_total", "Times that a record was sent again."),
        "stage_attempts": ("stage_attempts_total", "Attempts of the write stage beyond the first."),
        "batch": ("batch", "Number of the newest committed batch."),
        "batch_rows": ("batch_rows", "Rows of the newest committed batch."),
        "batch_seconds": ("batch_seconds", "Seconds that the newest committed batch took."),
        "committed_at": ("committed_at_seconds", "When the newest committed batch was committed, in seconds since 1970."),
    },
)


class MetricsHistory:
    """The metrics of the newest batches. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._kept: list[BatchMetrics] = []
        self._before: Counter[str] = Counter()  # the totals of those that are not kept
        self.started_at = time.time()

    def add(self, metrics: BatchMetrics) -> None:
        """The metrics of a new batch."""
        with self._lock:
            for each in self._kept[: 1 - HISTORY]:
                self._before += _totals(each)
            self._kept = [*self._kept[1 - HISTORY :], metrics]

    def stats(self, sink: str) -> SparkWriterStats:
        """The totals of all batches, and the newest committed one."""
        with self._lock:
            kept, totals = list(self._kept), self._before.copy()
        for each in kept:
            totals.update(_totals(each))
        newest = next((each for each in reversed(kept) if each.ledger == "committed"), None)
        if newest is None:
            return SparkWriterStats(sink=sink, started_at=self.started_at, **totals)
        seconds = sum(newest.ms.values()) / 1000.0
        return SparkWriterStats(
            sink=sink,
            started_at=self.started_at,
            **totals,
            batch=newest.batch,
            batch_rows=newest.rows,
            batch_seconds=seconds,
            committed_at=newest.committed_at,
        )

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


def _totals(metrics: BatchMetrics) -> Counter[str]:
    totals = Counter({name: getattr(metrics, name) for name in SUMS if metrics.ledger == "committed" or name not in ("rows", "bytes")})
    if metrics.ledger in OUTCOMES:
        totals[metrics.ledger] += 1
    return totals
