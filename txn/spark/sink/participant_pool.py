"""Participants that outlive tasks: Spark keeps its Python workers, and a participant keeps its connections, from batch to batch.

A worker runs one task at a time, so a participant in use belongs to that task. A participant that failed is closed, never kept. Brokers
close idle connections, and Spark idle workers; a participant opens its connections again by itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.shared.participant import Participant

log = logging.getLogger("fencepost.spark")

KEPT: Final = 4
"""A worker keeps so many participants; it closes one before it keeps another."""
CLOSE_S: Final = 5.0

_lock = RLock()
_kept: dict[object, Participant] = {}
_process = os.getpid()


@contextmanager
def pooled(key: object, make: Callable[[], Participant]) -> Iterator[Participant]:
    """A participant without a participation. `key`: equal for equal settings. `make`: makes one if none is kept."""
    participant = _take(key) or make()
    try:
        yield participant
    except BaseException:
        _discard(participant)
        raise
    _keep(key, participant)


def close_kept() -> None:
    """Close the participants that this process keeps. A later task makes new ones."""
    with _lock:
        _forget_the_parents()
        kept = [*_kept.values()]
        _kept.clear()
    for each in kept:
        each.close(CLOSE_S)


def _take(key: object) -> Participant | None:
    with _lock:
        _forget_the_parents()
        return _kept.pop(key, None)


def _forget_the_parents() -> None:
    """The participants of a parent process belong to its threads, which do not exist in a fork."""
    global _process
    if _process != os.getpid():
        _kept.clear()
        _process = os.getpid()


def _keep(key: object, participant: Participant) -> None:
    with _lock:
        surplus = [_kept.pop(next(iter(_kept)))] if len(_kept) >= KEPT else []
        surplus += [_kept.pop(key)] if key in _kept else []
        _kept[key] = participant
    for each in surplus:
        each.close(CLOSE_S)


def _discard(participant: Participant) -> None:
    try:
        participant.abandon()
    finally:
        participant.close(CLOSE_S)
