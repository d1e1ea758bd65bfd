"""The `timeout` of a public call: seconds, or None for the call's own limit. What can be no time is refused before anything has begun."""

from __future__ import annotations


def seconds(timeout: object, limit_s: float) -> float:
    """The timeout, or the call's own limit where it is None. Raises TypeError or ValueError."""
    if timeout is None:
        return limit_s
    if isinstance(timeout, float):
        given = timeout
    elif isinstance(timeout, bool) or not hasattr(type(timeout), "__float__"):
        raise TypeError(f"timeout={timeout!r:.80}: a number of seconds, or None, not {type(timeout).__name__}")
    else:
        given = float(timeout)  # type: ignore[arg-type]  # it has the method
    if not given >= 0.0:
        raise ValueError(f"timeout={timeout!r:.80}: seconds, from 0 on; leave it out for the limit that the call has by itself")
    return given
