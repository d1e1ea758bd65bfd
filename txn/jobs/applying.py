"""Applies the program's transform to records of a source, and tries it again where it raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fencepost.txn.jobs.settings import JobSettings
from fencepost.txn.jobs.stats import Counters
from fencepost.txn.loop.attempts import Attempts, Failed, called, inside
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.functions import is_async, listing
from fencepost.txn.loop.routing import Rows, rows_of_many


class Transform:
    """See the module. `function`: the program's, or the source's own. `left_s`: how long the run may still last."""

    def __init__(
        self, function: Callable[[Any], object], settings: JobSettings, calls: Calls, counters: Counters, left_s: Callable[[], float]
    ) -> None:
        self._function = listing(function)
        self._is_async = is_async(function)
        self._topic = settings.topic
        self._attempts = Attempts(settings.attempts, settings.retry_backoff_ms, settings.retry_backoff_max_ms, calls, counters, left_s)
        self._calls = calls

    async def apply(self, item: Any, before_pause: Callable[[], None]) -> Rows | Failed:
        """The rows that the record becomes, by topic, or why it cannot be written. `before_pause`: called before each pause between two
        calls of the function; what it raises is passed on. Raises Postponed if the run ends in a pause."""
        try:
            made = await called(self._calls, self._function, item) if self._is_async else self._function(item)
        except Exception as error:  # noqa: BLE001 - the program's own function may raise anything
            made = await self._attempts.again(error, self._function, item, before_pause)
        except asyncio.CancelledError as error:
            if self._is_async:
                raise
            made = await self._attempts.again(inside(error), self._function, item, before_pause)
        if isinstance(made, Failed):
            return made
        try:
            return rows_of_many([] if made is None else made if isinstance(made, list) else [made], self._topic)
        except TypeError as wrong:
            return Failed(wrong)
