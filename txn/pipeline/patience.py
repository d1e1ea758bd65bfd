"""How long a pipeline waits for the brokers, and the pauses in between.

`stopping`: the pipeline is to end. `ends_at`: when `run` is to end. From then on, and from a stop on, `stop_timeout_ms` are left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from fencepost.producer.errors import TopicUnavailable
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.pipeline.calls import Calls
from fencepost.txn.pipeline.settings import PipelineSettings

log = logging.getLogger("fencepost.pipeline")

TOO_LATE: Final = (TransactionTimeout, TopicUnavailable)
"""The time of a call has passed, and nothing is decided."""


class Patience:
    """See the module."""

    def __init__(self, settings: PipelineSettings, calls: Calls, name: str) -> None:
        self.stopping = False
        self._calls = calls
        self._name = name
        self._pause = pauses(settings)
        self._ends_at = float("inf")
        self._stop_s = settings.stop_timeout_ms / 1000.0
        self._stop_ends_at: float | None = None

    def runs_until(self, ends_at: float) -> None:
        """A run begins."""
        self._ends_at, self._stop_ends_at = ends_at, None

    def stops(self) -> None:
        """The run is ending: the time for that begins."""
        self._stop_ends_at = time.monotonic() + self._stop_s

    @property
    def is_over(self) -> bool:
        """Whether the pipeline is ending, and its time for that has passed."""
        now = time.monotonic()
        if self.stopping and self._stop_ends_at is None:
            self._stop_ends_at = now + self._stop_s
        return now >= (self._ends_at + self._stop_s if self._stop_ends_at is None else self._stop_ends_at)

    async def insist(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call that is made again when its time passes: nothing is decided then. So a pipeline waits while no broker answers."""
        try:
            return await self._calls.call(function, *arguments)
        except TOO_LATE as late:
            if self.is_over:
                raise
            log.warning("%s: asks again: %s", self._name, late)
        calling = AsyncRetrying(
            retry=retry_if_exception_type(TOO_LATE),
            stop=lambda state: self.is_over,
            wait=self._pause,
            sleep=self._calls.sleep,
            before_sleep=self._say_waiting,
            reraise=True,
        )
        return await calling(self._calls.call, function, *arguments)

    async def pause(self, turn: int) -> None:
        """The pause before the next of several attempts; 1 for the first."""
        state = first_state()
        state.attempt_number = turn
        await self._calls.sleep(self._pause(state))

    def _say_waiting(self, state: RetryCallState) -> None:
        outcome = state.outcome
        log.warning("%s: asks again after a pause: %s", self._name, outcome.exception() if outcome is not None else "")


def pauses(settings: PipelineSettings) -> wait_random_exponential:
    """The pauses between attempts, as the settings say."""
    first_s, longest_s = settings.retry_backoff_ms / 1000.0, settings.retry_backoff_max_ms / 1000.0
    return wait_random_exponential(multiplier=first_s, max=max(first_s, longest_s))


def first_state() -> RetryCallState:
    """For tenacity's pauses: the state before the second attempt."""
    return RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]  # a pause reads only the number
