"""What does not depend on the build under test is tried by one of the two runs of `make test`: by the compiled one."""

from __future__ import annotations

import os

import pytest


def once_is_enough(why: str) -> pytest.MarkDecorator:
    """Leaves the test out of the pure run, with this reason; any other run has it."""
    return pytest.mark.skipif(
        os.environ.get("FENCEPOST_EXPECT") == "pure", reason=f"{why}, whatever is installed: the compiled run does it"
    )
