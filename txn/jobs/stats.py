"""What a job has done so far: counters, which only the job changes, and a copy of them for the program."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from fencepost.producer.foundations.counted import counted
from fencepost.producer.observe.prometheus import describe
from fencepost.txn.loop.progress import Progress

log = logging.getLogger("fencepost.job")


class JobStats(Struct, frozen=True, kw_only=True):
    """A job's counters since it was made. `before`: records of the source that earlier runs have committed. `records_in`: records of the
    source that this object has committed, filtered ones and dead letters included. `records_out`: committed records, without dead letters.
    `aborts`: transactions that were aborted, and whose records were read again."""

    job: str
    batches: int
    before: int
    records_in: int
    records_out: int
    dead_letters: int
    retries: int
    aborts: int
    seconds: float

    def __str__(self) -> str:
        """The progress line."""
        rate = self.records_in / self.seconds if self.seconds > 0 else 0.0
        told = [
            f"{counted(self.records_in, 'record', spec=',')} in ({rate:,.0f}/s)",
            f"{counted(self.records_out, 'record', spec=',')} out",
            f"{counted(self.batches, 'transaction', spec=',')}",
        ]
        named = {"dead letter": self.dead_letters, "abort": self.aborts}
        more = [*told, *(counted(number, name) for name, number in named.items() if number)]
        return ", ".join([*more, *([f"{self.before:,} before"] if self.before else [])])


class Counters(Progress[JobStats]):
    """The counters, and the pace of the progress line."""

    def __init__(self, progress_ms: int, on_progress: Callable[[JobStats], object] | None, *, job: str = "") -> None:
        super().__init__(log, progress_ms, on_progress)
        self._job = job
        self.batches = 0
        self.before = 0
        self.records_in = 0
        self.records_out = 0
        self.dead_letters = 0
        self.retries = 0
        self.aborts = 0

    def snapshot(self) -> JobStats:
        """The counters now."""
        return JobStats(
            job=self._job,
            batches=self.batches,
            before=self.before,
            records_in=self.records_in,
            records_out=self.records_out,
            dead_letters=self.dead_letters,
            retries=self.retries,
            aborts=self.aborts,
            seconds=self.seconds,
        )


describe(
    JobStats,
    "fencepost_job_",
    {"job": "job"},
    {
        "batches": ("transactions_total", "Transactions that were committed."),
        "before": ("records_before", "Records of the source that earlier runs have committed."),
        "records_in": ("records_in_total", "Records of the source that were committed, filtered ones and dead letters included."),
        "records_out": ("records_out_total", "Records that were committed, dead letters not included."),
        "dead_letters": ("dead_letters_total", "Records that became dead letters."),
        "retries": ("retries_total", "Calls of the transform after one that raised."),
        "aborts": ("aborts_total", "Transactions that were aborted, and whose records were read again."),
    },
)
