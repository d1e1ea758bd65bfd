"""SIGINT and SIGTERM as a state to check instead of an exception, so that a record is never lost between two lines of code.

The module ends nothing itself. Only the main thread may use it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Stop:
    """Within `with`: `signal` is the first signal, 0 for none; `count` is the number of signals; `fd` becomes readable with the first.
    `then`: called in the handler, after that is noted."""

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self._then = then
        self.signal = 0
        self.count = 0
        self.fd, self._trigger = os.pipe()
        os.set_blocking(self._trigger, False)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._came) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._trigger)

    def _came(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        self.count += 1
        if self.count == 1:
            os.write(self._trigger, b"!")
        if self._then is not None:
            self._then()
