"""Pauses between attempts are random; a test that ends a run in one needs a long one."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

LONG: Final[dict[str, Any]] = {"retry_backoff_ms": 25_000, "retry_backoff_max_ms": 25_000}
LONG_S: Final = 25.0


@pytest.fixture
def longest_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is as long as it may be."""
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
