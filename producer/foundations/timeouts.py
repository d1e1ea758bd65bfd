"""The `timeout` of a public call: seconds, or None for the call's own limit. A wrong value is refused before the call does anything."""

from __future__ import annotations


def seconds(timeout: object, limit_s: float) -> float:
    """The timeout, or the call's own limit if it is None. Raises TypeError or ValueError."""
    if timeout is None:
        return limit_s
    if isinstance(timeout, float):
        given = timeout
    elif isinstance(timeout, bool) or not hasattr(type(timeout), "__float__"):
        raise TypeError(f"timeout={timeout!r:.80}: it must be a number of seconds or None, not {type(timeout).__name__}")
    else:
        given = float(timeout)  # type: ignore[arg-type]  # it has the method
    if not given >= 0.0:
        raise ValueError(f"timeout={timeout!r:.80}: it must be at least 0 seconds; leave it out for the call's own limit")
    return given
