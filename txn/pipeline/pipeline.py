"""The blocking pipeline. It makes no connection before `run`."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, SupportsFloat, Unpack

from fencepost.producer.errors import bound_to_process
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.pipeline.calls import Blocking, finished
from fencepost.txn.pipeline.checks import check_batches
from fencepost.txn.pipeline.keywords import PipelineKeywords
from fencepost.txn.pipeline.making import Plan
from fencepost.txn.pipeline.stats import PipelineStats
from fencepost.txn.producer import TransactionalProducer

if TYPE_CHECKING:
    from fencepost.txn.pipeline.runner import Runner


class Pipeline:
    """Reads messages, transforms them, and writes the results. Each message counts exactly once.

        Pipeline(bootstrap_servers="localhost:9092", source="orders", group="billing", sink="invoices", transform=invoice).run()

    `transform` takes confluent-kafka's Message, and returns None, bytes (the record gets the message's key), a (key, value) pair, an
    `OutputRecord`, or a list of these. `transform_many` takes a list of messages instead. Results and offsets are committed in one
    transaction, after `batch_size` messages or `batch_ms`.

    `run` opens the connections and closes them. In a `with` block they stay open until its end. docs/pipelines.md has the settings, and
    what happens at each failure.
    """

    def __init__(self, **settings: Unpack[PipelineKeywords]) -> None:
        self._plan = Plan(settings, on_loop=False)
        self._runner: Runner | None = None
        self._kept = False
        self._stopped = False
        self.transactional_id = self._plan.transactional_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._plan.described()})"

    def __reduce__(self) -> NoReturn:
        raise bound_to_process(type(self).__name__, "make one in each process, with the same group")

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

    def stop(self) -> None:
        """Have `run` commit what is processed and return, within `stop_timeout_ms`. Returns at once. A signal handler or another thread may
        call it."""
        self._stopped = True
        runner = self._runner
        if runner is not None:
            runner.stopping = True

    def stats(self) -> PipelineStats:
        """The counters now. Any thread may call this."""
        return self._plan.counters.snapshot()

    def close(self) -> None:
        """Leave the group, and close the producer. Not needed outside a `with` block."""
        self._end(failed=False)

    def __enter__(self) -> Self:
        self._kept = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._kept = False
        self._end(failed=error is not None)

    def _go(self, limit_s: float, batches: int | None, *, until_idle: bool) -> bool:
        check_batches(batches)
        try:
            if self._runner is None:
                self._runner = self._plan.runner(Blocking(self._is_stopped), TransactionalProducer)
            self._runner.stopping = self._stopped
            idle = finished(self._runner.run(ends_at=time.monotonic() + limit_s, batches=batches, until_idle=until_idle))
        except BaseException:
            self._end(failed=True)
            raise
        if not self._kept:
            self._end(failed=False)
        return idle

    def _end(self, *, failed: bool) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            finished(runner.close(failed=failed))

    def _is_stopped(self) -> bool:
        return self._stopped
