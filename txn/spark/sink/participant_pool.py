"""Borrowers that outlive tasks: Spark keeps its Python workers, and a borrower keeps its connections, from one batch to the next.

A worker runs one task at a time, so a borrower that is out belongs to the task. One that failed is closed, never kept. Brokers close idle
connections and Spark idle workers; a borrower opens its connections again by itself.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fencepost.txn.shared.participant import Borrower

log = logging.getLogger("fencepost.spark")

KEPT: Final = 4
"""Borrowers that are kept in a worker; one is closed before there are more."""
CLOSE_S: Final = 5.0

_lock = threading.Lock()
_kept: dict[object, Borrower] = {}
_process = os.getpid()


@contextmanager
def borrowed(key: object, make: Callable[[], Borrower]) -> Iterator[Borrower]:
    """A borrower without a loan. `key`: what it may be used again for, `make`: where there is none."""
    borrower = _take(key) or make()
    try:
        yield borrower
    except BaseException:
        _discard(borrower)
        raise
    _keep(key, borrower)


def close_all() -> None:
    """Close what is kept."""
    with _lock:
        kept = [*_kept.values()]
        _kept.clear()
    for borrower in kept:
        borrower.close(CLOSE_S)


def _take(key: object) -> Borrower | None:
    global _process
    with _lock:
        if _process != os.getpid():
            # What a parent had belongs to its threads, which are not here.
            _kept.clear()
            _process = os.getpid()
        return _kept.pop(key, None)


def _keep(key: object, borrower: Borrower) -> None:
    with _lock:
        surplus = [_kept.pop(next(iter(_kept)))] if len(_kept) >= KEPT else []
        surplus += [_kept.pop(key)] if key in _kept else []
        _kept[key] = borrower
    for each in surplus:
        each.close(CLOSE_S)


def _discard(borrower: Borrower) -> None:
    try:
        borrower.abandon()
    finally:
        borrower.close(CLOSE_S)
