"""Applies the program's transform to records of a source, and tries it again where it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from tenacity import AsyncRetrying, RetryCallState, RetryError, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from fencepost.producer.foundations.printable import said
from fencepost.txn.jobs.settings import JobSettings
from fencepost.txn.jobs.stats import Counters
from fencepost.txn.pipeline.applying import first_state, listing
from fencepost.txn.pipeline.calls import Calls
from fencepost.txn.pipeline.routing import Rows, rows_of_many
from fencepost.txn.pipeline.settings import is_async


class Failed(Struct, frozen=True):
    """A record that cannot be written. `attempts`: how often the transform was tried."""

    error: Exception
    attempts: int = 1

    @property
    def reason(self) -> str:
        """The error, as a dead letter says it."""
        return said(f"{type(self.error).__name__}: {self.error}")


class Transform:
    """See the module. `function`: the program's, or the source's own."""

    def __init__(self, function: Callable[[Any], object], settings: JobSettings, calls: Calls, counters: Counters) -> None:
        self._function = listing(function)
        self._is_async = is_async(function)
        self._topic = settings.topic
        self._attempts = settings.attempts
        self._calls = calls
        self._counters = counters
        self._pause = wait_random_exponential(
            multiplier=settings.retry_backoff_ms / 1000.0, max=max(settings.retry_backoff_ms, settings.retry_backoff_max_ms) / 1000.0
        )

    async def apply(self, item: Any) -> Rows | Failed:
        """The rows that the record becomes, by topic, or why it cannot be written."""
        try:
            made = await self._calls.call(self._function, item) if self._is_async else self._function(item)
        except Exception as error:  # noqa: BLE001 - the program's own function may raise anything
            made = await self._again(item, error)
        if isinstance(made, Failed):
            return made
        try:
            return rows_of_many([] if made is None else made if isinstance(made, list) else [made], self._topic)
        except TypeError as wrong:
            return Failed(wrong)

    async def _again(self, item: Any, error: Exception) -> object:
        """The result of another attempt, or Failed after the last."""
        if self._attempts == 1:
            return Failed(error)
        trying = AsyncRetrying(
            retry=retry_if_exception_type(Exception),
            stop=stop_after_attempt(self._attempts - 1),
            wait=self._pause,
            sleep=self._calls.sleep,
            before=self._say_again,
        )
        await self._calls.sleep(self._pause(first_state()))
        try:
            return await trying(self._calls.call, self._function, item)
        except RetryError as late:
            failure = late.last_attempt.exception()
            return Failed(failure if isinstance(failure, Exception) else error, self._attempts)

    def _say_again(self, state: RetryCallState) -> None:
        self._counters.retries += 1
