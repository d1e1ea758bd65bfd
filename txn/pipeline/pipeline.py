"""The blocking pipeline. It makes no connection before `run`."""

from __future__ import annotations

from typing import SupportsFloat, Unpack

from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.loop.runs import BlockingRuns
from fencepost.txn.pipeline.keywords import PipelineKeywords
from fencepost.txn.pipeline.making import IN_ANOTHER_PROCESS, Plan
from fencepost.txn.pipeline.stats import PipelineStats


class Pipeline(BlockingRuns[Plan]):
    """Reads messages, transforms them, and writes the results. Each message counts exactly once.

        Pipeline(bootstrap_servers="localhost:9092", source="orders", group="billing", sink="invoices", transform=invoice).run()

    `transform` takes confluent-kafka's Message, and returns None, bytes (the record gets the message's key), a (key, value) pair, an
    `OutputRecord`, or a list of these. `transform_many` takes a list of messages instead. Results and offsets are committed in one
    transaction, after `batch_size` messages or `batch_ms`.

    `run` opens the connections and closes them. In a `with` block they stay open until its end. docs/pipelines.md has the settings, and
    what happens at each failure.
    """

    _in_another_process = IN_ANOTHER_PROCESS

    def __init__(self, **settings: Unpack[PipelineKeywords]) -> None:
        super().__init__(Plan(settings, on_loop=False))

    def run(self, *, timeout: SupportsFloat | None = None, max_batches: int | None = None) -> PipelineStats:
        """Process messages until `stop` is called, `timeout` seconds have passed or `max_batches` transactions are committed. The open
        batch is committed before it returns.

        Raises PoisonMessage for a message that cannot be processed, if there is no topic for dead letters; PipelineFailed if the pipeline
        cannot continue; and Fenced if another process uses its transactional id. Ctrl-C aborts the open batch.
        """
        self._go(seconds(timeout, float("inf")), max_batches, until_idle=False)
        return self.stats()

    def run_until_idle(self, *, timeout: SupportsFloat | None = None) -> PipelineStats:
        """Process messages until every assigned partition is read to its end and all is committed. Raises TimeoutError if that takes
        longer than `timeout` seconds (None: 60)."""
        limit_s = seconds(timeout, 60.0)
        if not self._go(limit_s, None, until_idle=True) and not self._stopped:
            raise TimeoutError(f"the pipeline has not read everything within {limit_s:g} s; {self.stats()}")
        return self.stats()

    def stats(self) -> PipelineStats:
        """The counters now. Any thread may call this."""
        return self._plan.counters.snapshot()
