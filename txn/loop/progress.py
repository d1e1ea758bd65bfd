"""The pace of a progress line: when it is due, and which function gets it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

S = TypeVar("S")

MILLISECONDS: Final = 1000.0


class Progress(Generic[S]):
    """See the module. `on_progress`: also gets the statistics at each line."""

    def __init__(self, log: logging.Logger, progress_ms: int, on_progress: Callable[[S], object] | None) -> None:
        self._log = log
        self._began = time.monotonic()
        self._every_s = progress_ms / MILLISECONDS
        self._on_progress = on_progress
        self._told_at = self._began

    @property
    def seconds(self) -> float:
        """The time since the object was made."""
        return time.monotonic() - self._began

    @property
    def due(self) -> bool:
        """Whether it is time for a progress line."""
        return self._every_s > 0 and time.monotonic() - self._told_at >= self._every_s

    def snapshot(self) -> S:
        """The statistics now."""
        raise NotImplementedError

    def tell(self, name: str) -> None:
        """Log the progress line, and call `on_progress`. An exception of the latter is logged."""
        self._told_at = time.monotonic()
        stats = self.snapshot()
        self._log.info("%s: %s", name, stats)
        if self._on_progress is not None:
            try:
                self._on_progress(stats)
            except Exception:  # noqa: BLE001 - it is logged, and the program's own function may raise anything
                self._log.exception("%s: on_progress raised", name)
