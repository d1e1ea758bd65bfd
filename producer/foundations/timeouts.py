"""The `timeout` of a public call: seconds, or None for the call's own limit. A wrong value is refused before the call does anything.

The parameters are typed SupportsFloat, not float. Compiled, a parameter that is typed float refuses numpy's numbers, and takes True for 1.
"""

from __future__ import annotations

from typing import Final, SupportsFloat, cast

LARGE_S: Final = 1 << 60
"""Ints below this become floats without a further check."""


def seconds(timeout: object, limit_s: float) -> float:
    """The timeout, or the call's own limit if it is None. Raises TypeError or ValueError."""
    if timeout is None:
        return limit_s
    if isinstance(timeout, float):
        given = timeout
    elif type(timeout) is int and 0 <= timeout < LARGE_S:
        given = float(timeout)  # The fast way, because a program may call `future.result(0)` for each record.
    elif isinstance(timeout, bool) or not hasattr(type(timeout), "__float__"):
        raise TypeError(f"timeout={_shown(timeout)}: it must be a number of seconds or None, not {type(timeout).__name__}")
    else:
        given = _number(cast(SupportsFloat, timeout))
    if not given >= 0.0:
        raise ValueError(f"timeout={_shown(timeout)}: it must be at least 0 seconds; leave it out for the call's own limit")
    return given


def _number(timeout: SupportsFloat) -> float:
    try:
        return float(timeout)
    except OverflowError:
        raise ValueError(f"timeout={_shown(timeout)}: it is too large; leave it out for the call's own limit") from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"timeout={_shown(timeout)}: it must be a number of seconds or None: {error}") from None


def _shown(value: object) -> str:
    """The beginning of its repr. Python makes no text of an int with thousands of digits."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        return f"<{type(value).__name__}>"
