"""What a pipeline has done so far: counters, which only the pipeline changes, and a copy of them for the program."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from fencepost.producer.foundations.counted import counted
from fencepost.producer.observe.prometheus import describe
from fencepost.txn.loop.progress import Progress

log = logging.getLogger("fencepost.pipeline")


class PipelineStats(Struct, frozen=True, kw_only=True):
    """A pipeline's counters since it was made. `records_in`: committed messages, filtered ones and dead letters included. `records_out`:
    committed records, without dead letters. `aborts`: transactions that were aborted, and whose messages were read again. `lag`: how many
    offsets the assigned partitions are behind their ends, as far as the consumer knows them; markers of transactions count."""

    group: str
    transactional_id: str
    batches: int
    records_in: int
    records_out: int
    dead_letters: int
    retries: int
    aborts: int
    rebalances: int
    lost: int
    partitions: int
    lag: int
    seconds: float

    def __str__(self) -> str:
        """The progress line."""
        rate = self.records_in / self.seconds if self.seconds > 0 else 0.0
        told = [
            f"{counted(self.records_in, 'message', spec=',')} in ({rate:,.0f}/s)",
            f"{counted(self.records_out, 'record', spec=',')} out",
            f"{counted(self.batches, 'transaction', spec=',')}",
            f"lag {self.lag:,} on {counted(self.partitions, 'partition')}",
        ]
        named = {"dead letter": self.dead_letters, "abort": self.aborts, "rebalance": self.rebalances}
        return ", ".join([*told, *(counted(number, name) for name, number in named.items() if number)])


class Counters(Progress[PipelineStats]):
    """The counters, and the pace of the progress line."""

    def __init__(
        self, progress_ms: int, on_progress: Callable[[PipelineStats], object] | None, *, group: str = "", transactional_id: str = ""
    ) -> None:
        super().__init__(log, progress_ms, on_progress)
        self._group, self._transactional_id = group, transactional_id
        self.batches = 0
        self.records_in = 0
        self.records_out = 0
        self.dead_letters = 0
        self.retries = 0
        self.aborts = 0
        self.rebalances = 0
        self.lost = 0
        self.partitions = 0
        self.lag = 0

    def snapshot(self) -> PipelineStats:
        """The counters now."""
        return PipelineStats(
            group=self._group,
            transactional_id=self._transactional_id,
            batches=self.batches,
            records_in=self.records_in,
            records_out=self.records_out,
            dead_letters=self.dead_letters,
            retries=self.retries,
            aborts=self.aborts,
            rebalances=self.rebalances,
            lost=self.lost,
            partitions=self.partitions,
            lag=self.lag,
            seconds=self.seconds,
        )


describe(
    PipelineStats,
    "fencepost_pipeline_",
    {"group": "group", "transactional_id": "transactional_id"},
    {
        "batches": ("transactions_total", "Transactions that were committed."),
        "records_in": ("records_in_total", "Messages that were committed, filtered ones and dead letters included."),
        "records_out": ("records_out_total", "Records that were committed, dead letters not included."),
        "dead_letters": ("dead_letters_total", "Messages that became dead letters."),
        "retries": ("retries_total", "Calls of the transform after one that raised."),
        "aborts": ("aborts_total", "Transactions that were aborted, and whose messages were read again."),
        "rebalances": ("rebalances_total", "Changes of the assigned partitions."),
        "lost": ("lost_total", "Partitions that were lost without a revocation."),
        "partitions": ("partitions", "Partitions that are assigned."),
        "lag": ("lag", "Offsets that the assigned partitions are behind their ends."),
    },
)
