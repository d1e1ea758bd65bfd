"""Whether the package aiokafka is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

INSTALLED: Final = find_spec("aiokafka") is not None
