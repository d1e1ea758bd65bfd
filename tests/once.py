"""Tests that do not depend on the build run in only one of the two runs of `make test`: the compiled one."""

from __future__ import annotations

import os

import pytest


def once_is_enough(why: str) -> pytest.MarkDecorator:
    """Skip the test in the pure run, with this reason. Every other run has it."""
    return pytest.mark.skipif(
        os.environ.get("FENCEPOST_EXPECT") == "pure", reason=f"{why}, whatever is installed: the compiled run does it"
    )
