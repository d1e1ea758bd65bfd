"""The keyword arguments of a job, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Required, TypedDict

from fencepost.txn.jobs.stats import JobStats


class JobKeywords(TypedDict, total=False):
    bootstrap_servers: Required[str | Sequence[str]]
    topic: Required[str]
    transform: Callable[[Any], object] | None
    batch_size: int
    batch_ms: int
    attempts: int
    dead_letters: str | None
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    call_timeout_ms: int
    stop_timeout_ms: int
    aborts_max: int
    progress_ms: int
    on_progress: Callable[[JobStats], object] | None
    positions_topic: str
    producer: Mapping[str, Any]
