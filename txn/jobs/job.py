"""The blocking job. It makes no connection before `run`."""

from __future__ import annotations

from typing import Any, SupportsFloat, Unpack

from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.jobs.keywords import JobKeywords
from fencepost.txn.jobs.making import IN_ANOTHER_PROCESS, Plan
from fencepost.txn.jobs.source import Source
from fencepost.txn.jobs.stats import JobStats
from fencepost.txn.loop.runs import BlockingRuns


class Job(BlockingRuns[Plan]):
    """Reads a source, and writes its records to a topic. Killed anywhere and run again, it writes each record once.

        Job("flights", FileSource("flights.csv", key_field="tailnum"), bootstrap_servers="localhost:9092", topic="flights").run()

    The position of the source is committed in the same transaction as the records before it, so that a run continues exactly where the
    last one committed. One run of a job works at a time: a new one ends the former, wherever that runs.

    Sources: `FileSource`, `DatabaseCursor`, `HttpPages`, `IteratorSource`, or any object with `open(position)`. `transform` takes a record
    of the source, and returns None, bytes, a (key, value) pair, an `OutputRecord`, or a list of these. docs/jobs.md has the settings, and
    what happens at each failure.
    """

    _in_another_process = IN_ANOTHER_PROCESS

    def __init__(self, name: str, source: Source, **settings: Unpack[JobKeywords]) -> None:
        super().__init__(Plan(name, source, settings, on_loop=False))
        self.name = self._plan.name

    @property
    def position(self) -> Any:
        """The position that was committed last, None at the start of the source. It is known from the first run on."""
        return self._plan.position

    def run(self, *, timeout: SupportsFloat | None = None, max_batches: int | None = None) -> JobStats:
        """Write the source's records from the committed position to its end, or until `stop` is called, `timeout` seconds have passed or
        `max_batches` transactions are committed. The open batch is committed before it returns.

        Raises BadRecord for a record that cannot be written, if there is no topic for dead letters; SourceChanged if the source is not the
        one that the job has read; JobFailed if the job cannot continue; and Fenced if another run of the job has begun. Ctrl-C aborts the
        open batch. After any error of the source, and after Ctrl-C, the next run continues at the committed position.
        """
        self._go(seconds(timeout, float("inf")), max_batches)
        return self.stats()

    def stats(self) -> JobStats:
        """The counters now. Any thread may call this."""
        return self._plan.counters.snapshot()
