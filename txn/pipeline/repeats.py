"""Which of librdkafka's reports are logged: the same text once in half a minute, however often librdkafka repeats it."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

SAME_S: Final = 30.0
"""The same text is logged once in this time."""
AFTER: Final = re.compile(r" \(after \d+ms in state [^)]*\)")
"""What makes librdkafka's text of the same error another one each time."""


class Repeats:
    """The texts that were logged lately, and when."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def is_new(self, words: str, now_s: float) -> bool:
        """Whether the text was not logged in the last SAME_S seconds. It counts as logged from now on."""
        same = AFTER.sub("", words)
        # A copy, because clients in several threads share the filter below.
        self._said = {text: at for text, at in self._said.copy().items() if now_s - at < SAME_S}
        if same in self._said:
            return False
        self._said[same] = now_s
        return True


class OnceInAWhile(logging.Filter):
    """For a logger of librdkafka's own lines. A broker that cannot be reached makes it write some each second."""

    def __init__(self) -> None:
        super().__init__()
        self._repeats = Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged. Lines below WARNING all are: a program has asked for them."""
        return record.levelno < logging.WARNING or self._repeats.is_new(record.getMessage(), time.monotonic())
