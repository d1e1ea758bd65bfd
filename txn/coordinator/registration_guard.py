"""Whether a producer may register under its transactional id while a transaction is open under it.

A coordinator cannot tell a prepared transaction from any other open one: a registration under the id aborts both. So a producer with a
token, or with `on_open_transaction="refuse"`, first asks the coordinator (DescribeTransactions). It refuses to register if that would abort
a transaction that must stay open. A transaction that only another process knows is not protected. Another producer can still register
between the question and the registration.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.errors import TransactionOpen
from fencepost.txn.recovery.outcome import ONGOING, is_open
from fencepost.txn.recovery.prepared_here import OUTSTANDING
from fencepost.txn.recovery.token import PreparedTransaction

log = logging.getLogger("fencepost.txn")


class Guard:
    """Checks before a producer's first registration."""

    def __init__(self, transactional_id: str, policy: OnOpen = OnOpen.ABORT_UNPREPARED, given: Iterable[PreparedTransaction] = ()) -> None:
        self._id: Final = transactional_id
        self._policy: Final = policy
        self._given: Final = tuple(token for token in given if token.transactional_id == transactional_id and token.wrote)
        self._warned = self._policy is not OnOpen.ABORT_UNPREPARED

    @property
    def looks(self) -> bool:
        """Whether a transaction must stay open."""
        return self._policy is OnOpen.REFUSE or (self._policy is OnOpen.ABORT_UNPREPARED and bool(self._tokens()))

    def refusal(self, state: TransactionState, cluster_id: str | None) -> TransactionOpen | None:
        """The error if a registration now would abort a transaction that must stay open."""
        here = [token for token in self._tokens() if cluster_id in (None, token.cluster_id)]
        for token in here:
            if not is_open(token, state):
                OUTSTANDING.discard(token)  # another process has ended it
        if state.transaction_state != ONGOING:
            return None
        prepared = any(is_open(token, state) for token in here)
        if not prepared and self._policy is not OnOpen.REFUSE:
            return None
        kind = "a prepared transaction" if prepared else "a transaction"
        return TransactionOpen(
            f"transactional id {self._id!r} has {kind} open (producer id {state.producer_id}, epoch {state.producer_epoch}), which "
            "registering under the id would abort: end it with its token, resume(token).commit() or .abort(), or give it up with "
            "on_open_transaction='abort'"
        )

    def warn(self) -> None:
        """The coordinator says that the id's previous transaction is not over. Unless the user has asked for the abort, the log says once
        what the registration aborts."""
        if not self._warned:
            self._warned = True
            log.warning(
                "transactional id %s: the coordinator aborts the id's previous transaction, if it is still open. After a crash this is "
                "normal. But it also aborts a transaction that was prepared for another process. To keep such a transaction, pass "
                "prepared=[token] or on_open_transaction='refuse'; on_open_transaction='abort' aborts without this warning",
                self._id,
            )

    def _tokens(self) -> tuple[PreparedTransaction, ...]:
        return (*self._given, *OUTSTANDING.of(self._id))


def kept(identity: tuple[int, int], transactional_id: str) -> TransactionOpen:
    """The coordinator was asked to keep an open transaction (KIP-939), and has one."""
    return TransactionOpen(
        f"transactional id {transactional_id!r} has a transaction open (producer id {identity[0]}, epoch {identity[1]}), which its "
        "coordinator has kept: end it with its token, resume(token).commit() or .abort(), or give it up with on_open_transaction='abort'"
    )
