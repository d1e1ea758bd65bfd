"""Which of the slow stories in this directory run: a few of them, drawn with the seed FENCEPOST_STORIES, which the first lines of the run
print. `make spark-chaos` runs all of them, and so does FENCEPOST_STORIES=all."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.txn.spark.chaos.campaign import FULL

DRAWN: Final = 3


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seed = os.environ["FENCEPOST_STORIES"]
    here = Path(__file__).parent
    stories = [item for item in items if here in item.path.parents and item.get_closest_marker("skipif") is None]
    if FULL or seed == "all" or len(stories) <= DRAWN:
        return
    stories.sort(key=lambda item: item.nodeid)
    drawn = random.Random(seed).sample(stories, DRAWN)
    for item in stories:
        if item not in drawn:
            reason = f"not among the {DRAWN} stories that FENCEPOST_STORIES={seed} draws: `make spark-chaos` runs them all"
            item.add_marker(pytest.mark.skip(reason=reason))
