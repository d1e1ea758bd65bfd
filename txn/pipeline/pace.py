"""How many messages are transformed at once, before the pipeline looks whether the batch is old and the group still has it.

Quick transforms get long pieces, slow ones short pieces. An async transform gets at least as many messages as run at once. A transform of
lists gets long lists even if a call takes a while, because that is what it is for.
"""

from __future__ import annotations

from typing import Final

from fencepost.txn.loop.functions import is_async
from fencepost.txn.pipeline.settings import PipelineSettings

READ_MAX: Final = 5_000
"""How many messages one read takes: their results are being sent while the next ones are read."""
PIECE_MAX: Final = 1_000


class Pace:
    """See the module. `size`: the messages of the next piece."""

    def __init__(self, settings: PipelineSettings) -> None:
        if settings.transform_many is not None:
            self._least, self._most, self._quick_s, self._slow_s = 1, READ_MAX, 1.0, 5.0
        else:
            least = settings.concurrency if is_async(settings.transform) else 1
            self._least, self._most, self._quick_s, self._slow_s = least, max(least, PIECE_MAX), 0.01, 0.02
        self.size = self._most if settings.transform_many is not None else self._least

    def took(self, seconds: float) -> None:
        """The last piece took so long."""
        if seconds < self._quick_s:
            self.size = min(self._most, 2 * self.size)
        elif seconds > self._slow_s:
            self.size = max(self._least, self.size // 2)
