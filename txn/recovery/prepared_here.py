"""The prepared transactions that wait for their end, as far as this process knows, and what registering may do to one that is open.

A coordinator cannot tell a prepared transaction from any other that is open: registering under the id aborts both. So a producer that has
reason to looks first (DescribeTransactions), and is refused where it would abort what it was told to spare. Tokens are known here from
`prepare` in this process, or because they were handed to the producer (`prepared=`). What only another process knows is not protected,
and nothing holds another producer back between the look and the registration.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from threading import Lock
from typing import Final

from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.errors import TransactionOpen
from fencepost.txn.recovery.outcome import is_open
from fencepost.txn.recovery.prepare import ONGOING
from fencepost.txn.recovery.token import PreparedTransaction


class OnOpen(enum.Enum):
    """What becomes of a transaction that is open when a producer registers under its id."""

    ABORT_UNPREPARED = "abort_unprepared"
    ABORT = "abort"
    REFUSE = "refuse"


class Outstanding:
    """Tokens by transactional id. Any thread may use it."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._tokens: dict[str, set[PreparedTransaction]] = {}

    def add(self, token: PreparedTransaction) -> None:
        """It was handed out. One that holds nothing has nothing to be spared."""
        if token.wrote:
            with self._lock:
                self._tokens.setdefault(token.transactional_id, set()).add(token)

    def discard(self, token: PreparedTransaction) -> None:
        """It has its outcome."""
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
"""This process's. A token stays until it is known here that it is over: from its producer, from `resume`, or because a producer looked."""


class Guard:
    """Asked before a producer registers for the first time."""

    def __init__(self, transactional_id: str, policy: OnOpen = OnOpen.ABORT_UNPREPARED, given: Iterable[PreparedTransaction] = ()) -> None:
        self._id: Final = transactional_id
        self._policy: Final = policy
        self._given: Final = tuple(token for token in given if token.transactional_id == transactional_id and token.wrote)

    @property
    def looks(self) -> bool:
        """Whether there is anything to be spared."""
        return self._policy is OnOpen.REFUSE or (self._policy is OnOpen.ABORT_UNPREPARED and bool(self._tokens()))

    def refusal(self, state: TransactionState, cluster_id: str | None) -> TransactionOpen | None:
        """Why registering would be wrong now, if it would."""
        here = [token for token in self._tokens() if cluster_id in (None, token.cluster_id)]
        for token in here:
            if not is_open(token, state):
                OUTSTANDING.discard(token)  # somebody else has ended it
        if state.transaction_state != ONGOING:
            return None
        prepared = any(is_open(token, state) for token in here)
        if not prepared and self._policy is not OnOpen.REFUSE:
            return None
        kind = "a prepared transaction" if prepared else "a transaction"
        return TransactionOpen(
            f"transactional id {self._id!r} has {kind} open (producer id {state.producer_id}, epoch {state.producer_epoch}), which "
            "would be aborted by registering under the id: end it with its token, resume(token).commit() or .abort(), or give it up with "
            "on_open_transaction='abort'"
        )

    def _tokens(self) -> tuple[PreparedTransaction, ...]:
        return (*self._given, *OUTSTANDING.of(self._id))


def kept(identity: tuple[int, int], transactional_id: str) -> TransactionOpen:
    """The coordinator was asked to keep what is open (KIP-939), and there is something."""
    return TransactionOpen(
        f"transactional id {transactional_id!r} has a transaction open (producer id {identity[0]}, epoch {identity[1]}), which its "
        "coordinator has kept: end it with its token, resume(token).commit() or .abort(), or give it up with on_open_transaction='abort'"
    )
