"""The keyword arguments of a pool, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Literal

from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.recovery.token import PreparedTransaction


class PoolKeywords(ProducerKeywords, total=False):
    transactional_id_prefix: str
    instance: str | None
    size: int
    warm: int
    acquire_timeout_ms: int
    close_timeout_ms: int
    lock_directory: str | PathLike[str] | None
    transaction_timeout_ms: int
    on_open_transaction: OnOpen | Literal["abort_unprepared", "abort", "refuse"]
    prepared: Iterable[PreparedTransaction | str | bytes]
    transaction_two_phase_commit_enable: bool
    existing_topics: Iterable[str]
