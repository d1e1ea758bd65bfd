"""What kind of function a program gave: asynchronous, or a generator function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: object) -> bool:
    """Whether a call returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def listing(function: Callable[[Any], object]) -> Callable[[Any], object]:
    """The function, or, of a generator function, one that returns a list: its errors are then raised in the call."""
    if not inspect.isgeneratorfunction(function):
        return function
    return lambda message: list(function(message))
