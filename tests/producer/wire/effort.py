"""How many examples the tests with hypothesis draw: a few in every run, different ones each time. `make fuzz` draws many."""

from __future__ import annotations

import os

import hypothesis
from hypothesis import HealthCheck

EFFORT = float(os.environ.get("FENCEPOST_EFFORT", "1"))


def drawing(examples: int) -> hypothesis.settings:
    """The settings for so many examples in an ordinary run."""
    return hypothesis.settings(
        max_examples=max(1, round(examples * EFFORT)), deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
    )
