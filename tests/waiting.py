"""Waits for another thread, process or broker: asks again and again, with longer and longer pauses, and always with a deadline.

An exception of the question ends the wait, except the one type that `despite` accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_not_result, stop_after_delay, wait_random_exponential

TIMEOUT_S = 20.0
PAUSE_MIN_S = 0.001
PAUSE_MAX_S = 0.02

T = TypeVar("T")


def until(
    ask: Callable[[], T], what: str, *, good: Callable[[T], bool] = bool, timeout_s: float = TIMEOUT_S, pause_max_s: float = PAUSE_MAX_S
) -> T:
    """The first answer that is good. At the deadline it raises TimeoutError with `what` and the last answer."""
    asking = Retrying(retry=retry_if_not_result(good), **_pace(timeout_s, pause_max_s))
    try:
        return asking(ask)
    except RetryError as late:
        raise TimeoutError(f"{what}: not within {timeout_s:g} s, but {late.last_attempt.result()!r:.500}") from None


def despite(kind: type[BaseException], call: Callable[[], T], *, timeout_s: float = TIMEOUT_S, pause_max_s: float = PAUSE_MAX_S) -> T:
    """The result of the call once it stops raising that type of error; at the deadline, that error."""
    calling = Retrying(retry=retry_if_exception_type(kind), reraise=True, **_pace(timeout_s, pause_max_s))
    return calling(call)


def _pace(timeout_s: float, pause_max_s: float) -> dict[str, Any]:
    # The pause before an attempt is drawn from a range that doubles.
    return {"stop": stop_after_delay(timeout_s), "wait": wait_random_exponential(multiplier=PAUSE_MIN_S, max=pause_max_s)}
