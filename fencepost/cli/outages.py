"""Shows the producer's warnings of brokers that cannot be used, while a command sends. All else that it logs is in the command's report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fencepost.producer.core.cluster.cluster_connection_states import NO_BROKER, NOT_THIS_BROKER, log


class _Outages(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg in (NO_BROKER, NOT_THIS_BROKER):
            self._say(record.getMessage())


@contextmanager
def telling_outages(say: Callable[[str], None]) -> Iterator[None]:
    """Inside the block. `say` is called on the producer's thread."""
    handler = _Outages(say)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
