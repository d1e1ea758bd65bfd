"""What both jobs are made of: checked settings, counters, and the runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.jobs.entry import BadJobEntry, job_name
from fencepost.txn.jobs.positions import Positions
from fencepost.txn.jobs.runner import Runner
from fencepost.txn.jobs.settings import JobSettings, producer_settings, read_job_settings
from fencepost.txn.jobs.stats import Counters
from fencepost.txn.loop.calls import Calls

IN_ANOTHER_PROCESS: Final = "make one in the process that runs it"


class Plan:
    """See the module. Raises ConfigError."""

    def __init__(self, name: object, source: object, given: Mapping[str, Any], *, on_loop: bool) -> None:
        try:
            self.name = job_name(name)
        except BadJobEntry as error:
            raise ConfigError(str(error)) from None
        if not callable(getattr(source, "open", None)):
            raise ConfigError(
                f"source={source!r:.300}: a source has a method open(position), which yields pairs of a record and the position after it:"
                " FileSource(...), DatabaseCursor(...), HttpPages(...), IteratorSource(...), or a class of yours"
            )
        self._source = source
        self._settings: JobSettings = read_job_settings(given, on_loop=on_loop)
        self._own = producer_settings(self._settings, self.name)
        ours, rest = read_transaction_settings(self._own)
        self.transactional_id = ours.transactional_id
        self._newest: Runner | None = None
        self.counters = Counters(self._settings.progress_ms, self._settings.on_progress, job=self.name)
        self._positions = Positions(read_settings(rest), self._settings.positions_topic)

    def runner(self, calls: Calls, make_producer: Callable[[dict[str, Any]], Any]) -> Runner:
        """What runs the job."""
        self._newest = Runner(self.name, self._source, self._settings, self._own, self._positions, self.counters, calls, make_producer)
        return self._newest

    @property
    def position(self) -> Any:
        """The position of the last commit, None before the first run."""
        return self._newest.position if self._newest is not None else None

    def described(self) -> str:
        """The job, as `repr` shows it."""
        return f"{self.name!r}, {self._source!r}, topic={self._settings.topic!r}, transactional_id={self.transactional_id!r}"
