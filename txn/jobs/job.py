"""The blocking job. It makes no connection before `run`."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsFloat, Unpack

from fencepost.producer.errors import bound_to_process
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.jobs.keywords import JobKeywords
from fencepost.txn.jobs.making import Plan
from fencepost.txn.jobs.runner import Runner
from fencepost.txn.jobs.source import Source
from fencepost.txn.jobs.stats import JobStats
from fencepost.txn.pipeline.calls import Blocking, finished
from fencepost.txn.pipeline.checks import check_batches
from fencepost.txn.producer import TransactionalProducer


class Job:
    """Reads a source, and writes its records to a topic. Killed anywhere and run again, it writes each record once.

        Job("flights", FileSource("flights.csv", key_field="tailnum"), bootstrap_servers="localhost:9092", topic="flights").run()

    The position of the source is committed in the same transaction as the records before it, so that a run continues exactly where the
    last one committed. One run of a job works at a time: a new one ends the former, wherever that runs.

    Sources: `FileSource`, `DatabaseCursor`, `HttpPages`, `IteratorSource`, or any object with `open(position)`. `transform` takes a record
    of the source, and returns None, bytes, a (key, value) pair, an `OutputRecord`, or a list of these. docs/jobs.md has the settings, and
    what happens at each failure.
    """

    def __init__(self, name: str, source: Source, **settings: Unpack[JobKeywords]) -> None:
        self._plan = Plan(name, source, settings, on_loop=False)
        self._runner: Runner | None = None
        self._kept = False
        self._stopped = False
        self._last: Any = None
        self.name = self._plan.name
        self.transactional_id = self._plan.transactional_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._plan.described()})"

    def __reduce__(self) -> NoReturn:
        raise bound_to_process(type(self).__name__, "make one in the process that runs it")

    @property
    def position(self) -> Any:
        """The position that was committed last, None at the start of the source. It is known from the first run on."""
        return self._runner.position if self._runner is not None else self._last

    def run(self, *, timeout: SupportsFloat | None = None, max_batches: int | None = None) -> JobStats:
        """Write the source's records from the committed position to its end, or until `stop` is called, `timeout` seconds have passed or
        `max_batches` transactions are committed. The open batch is committed before it returns.

        Raises BadRecord for a record that cannot be written, if there is no topic for dead letters; SourceChanged if the source is not the
        one that the job has read; JobFailed if the job cannot continue; and Fenced if another run of the job has begun. Ctrl-C aborts the
        open batch. After any error of the source, and after Ctrl-C, the next run continues at the committed position.
        """
        limit_s = seconds(timeout, float("inf"))
        check_batches(max_batches)
        try:
            if self._runner is None:
                self._runner = self._plan.runner(Blocking(self._is_stopped), TransactionalProducer)
            self._runner.stopping = self._stopped
            finished(self._runner.run(ends_at=time.monotonic() + limit_s, batches=max_batches))
        except BaseException:
            self._end(failed=True)
            raise
        if not self._kept:
            self._end(failed=False)
        return self.stats()

    def stop(self) -> None:
        """Have `run` commit what is read and return, within `stop_timeout_ms`. Returns at once. A signal handler or another thread may call
        it."""
        self._stopped = True
        runner = self._runner
        if runner is not None:
            runner.stopping = True

    def stats(self) -> JobStats:
        """The counters now. Any thread may call this."""
        return self._plan.counters.snapshot()

    def close(self) -> None:
        """Close the producer. Not needed outside a `with` block."""
        self._end(failed=False)

    def __enter__(self) -> Self:
        self._kept = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._kept = False
        self._end(failed=error is not None)

    def _end(self, *, failed: bool) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            self._last = runner.position
            finished(runner.close(failed=failed))

    def _is_stopped(self) -> bool:
        return self._stopped
