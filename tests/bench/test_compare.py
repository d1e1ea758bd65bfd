"""What `make bench-compare` reports as worse."""

from __future__ import annotations

import math

import pytest

from tests.bench.compare import Compared


def compared(ratios: list[float], *, more_is_better: bool) -> Compared:
    return Compared(broker="b", row="r", figure="f", more_is_better=more_is_better, ratios=ratios)


@pytest.mark.parametrize(
    ("ratios", "more_is_better", "worse"),
    [
        ([1.10, 1.11, 1.12, 1.11], False, True),
        ([1.10, 1.11, 1.12, 1.11], True, False),
        ([0.90, 0.89, 0.91, 0.90], True, True),
        ([0.90, 0.89, 0.91, 0.90], False, False),
        ([1.04, 1.04, 1.04, 1.05], False, False),
        ([1.60, 0.90, 1.40, 0.95], False, False),
    ],
)
def test_worse_is_what_lies_wholly_beyond(ratios: list[float], *, more_is_better: bool, worse: bool) -> None:
    """A row is worse if its whole interval is beyond 5 %, on the wrong side."""
    assert compared(ratios, more_is_better=more_is_better).worse is worse


def test_the_interval_is_students() -> None:
    """For four ratios whose logarithms have a mean of 0, t is 3.182 at three degrees of freedom."""
    low, high = compared([math.exp(each) for each in (-0.2, -0.1, 0.1, 0.2)], more_is_better=True).interval
    assert high == pytest.approx(math.exp(3.182 * math.sqrt(0.1 / 3) / 2))
    assert low * high == pytest.approx(1)


def test_one_round_proves_nothing() -> None:
    """One round alone is never worse, for any ratio."""
    assert not compared([9.0], more_is_better=False).worse
