"""The prepared transactions that this process knows: from its own `prepare`, or because a producer got the token (`prepared=`).

It sends no request.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.recovery.token import PreparedTransaction


class Outstanding:
    """Tokens by transactional id. Any thread may use it."""

    def __init__(self) -> None:
        self._lock: Final = RLock()
        self._tokens: dict[str, set[PreparedTransaction]] = {}

    def add(self, token: PreparedTransaction) -> None:
        """A caller has the token now. A transaction without writes needs no protection."""
        if token.wrote:
            with self._lock:
                self._tokens.setdefault(token.transactional_id, set()).add(token)

    def discard(self, token: PreparedTransaction) -> None:
        """The transaction has its outcome."""
        with self._lock:
            held = self._tokens.get(token.transactional_id, set())
            held.discard(token)
            if not held:
                self._tokens.pop(token.transactional_id, None)

    def of(self, transactional_id: str) -> tuple[PreparedTransaction, ...]:
        """Those of one id."""
        with self._lock:
            return tuple(self._tokens.get(transactional_id, ()))


OUTSTANDING: Final = Outstanding()
"""This process's tokens. A token stays until this process knows that the transaction is over: from its producer, from `resume`, or from a
producer's question."""
