"""Breaks a rule on purpose, and looks for a random run that notices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from unittest.mock import patch

import pytest

Patch = tuple[object, str, object]
"""A class or a module, the name in it, and what stands there instead."""


def assert_noticed(
    rule: str, *patches: Patch, run: Callable[[int], object], seeds: range, errors: tuple[type[Exception], ...] = (AssertionError,)
) -> None:
    """Run the seeds until one raises one of these errors."""
    with ExitStack() as broken:
        for target, name, instead in patches:
            broken.enter_context(patch.object(target, name, instead))
        seed = _first(run, seeds, errors)
    if seed is None:
        pytest.fail(f"{rule}: not noticed in {len(seeds)} runs")


def _first(run: Callable[[int], object], seeds: Iterable[int], errors: tuple[type[Exception], ...]) -> int | None:
    for seed in seeds:
        try:
            run(seed)
        except errors as error:
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:100]}")
            return seed
    return None
