"""The keyword arguments of a transactional producer, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.recovery.token import PreparedTransaction


class TransactionalKeywords(ProducerKeywords, total=False):
    transactional_id: str
    transaction_timeout_ms: int
    on_open_transaction: OnOpen | Literal["abort_unprepared", "abort", "refuse"]
    prepared: Iterable[PreparedTransaction | str | bytes]
    transaction_two_phase_commit_enable: bool
    existing_topics: Iterable[str]
