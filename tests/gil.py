"""Whether Python runs without its global interpreter lock, and the mark of tests that need the lock."""

from __future__ import annotations

import sys

import pytest

GIL_IS_OFF = hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled()
needs_gil = pytest.mark.skipif(GIL_IS_OFF, reason="the GIL is off")
starts_as_usual = pytest.mark.skipif(GIL_IS_OFF, reason="Python without the GIL starts more slowly")
