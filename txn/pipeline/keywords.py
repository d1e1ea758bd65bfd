"""The keyword arguments of a pipeline, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

from fencepost.txn.pipeline.stats import PipelineStats

if TYPE_CHECKING:
    from confluent_kafka import Message


class PipelineKeywords(TypedDict, total=False):
    bootstrap_servers: Required[str | Sequence[str]]
    source: Required[str | Sequence[str]]
    group: Required[str]
    sink: str | None
    transform: Callable[[Message], object] | None
    transform_many: Callable[[list[Message]], object] | None
    batch_size: int
    batch_ms: int
    attempts: int
    dead_letters: str | None
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    concurrency: int
    instance: str | None
    transactional_id: str | None
    transaction_timeout_ms: int
    call_timeout_ms: int
    stop_timeout_ms: int
    aborts_max: int
    progress_ms: int
    on_progress: Callable[[PipelineStats], object] | None
    connection: Mapping[str, Any]
    consumer: Mapping[str, Any]
    producer: Mapping[str, Any]
