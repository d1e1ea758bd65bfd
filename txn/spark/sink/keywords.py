"""The keyword arguments of the Spark writer, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.producer.config.keywords import ProducerOptions


class WriterKeywords(ProducerOptions, total=False):
    topics: Iterable[str] | None
    guard: str
    on_bad_row: str
    bad_row_limit: int
    on_new_checkpoint: str
    on_missing_ledger: str
    on_gap: str
    stage: str
    max_reruns: int
    transaction_timeout_ms: int
    timeout_ms: int
    tasks: int | None
    collect_bytes_max: int
    checkpoint: str | None
    query: str | None
    ledger_topic: str
    claims_topic: str
    transactional_id_prefix: str
