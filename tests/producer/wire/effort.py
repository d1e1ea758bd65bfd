"""How much the tests that draw examples draw: a little in every run, other examples each time; `make fuzz` draws many."""

from __future__ import annotations

import os

import hypothesis
from hypothesis import HealthCheck

EFFORT = float(os.environ.get("FENCEPOST_EFFORT", "1"))


def drawing(examples: int) -> hypothesis.settings:
    """Settings for so many examples in an ordinary run."""
    return hypothesis.settings(
        max_examples=max(1, round(examples * EFFORT)), deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
    )
