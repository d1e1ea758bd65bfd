"""What a transaction has to know of itself to be prepared: where its first records went, and what the coordinator says of it.

The manager asks; this remembers, judges the answer, and makes the token. It asks nothing itself, and forgets everything with the next
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import Command, Settle
from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.recovery.token import CoordinatorHint, PreparedTransaction, WrittenPartition
from fencepost.txn.shared.participation import Written

ONGOING: Final = "Ongoing"
NO_DEADLINE_MS: Final = (1 << 31) - 1
"""The timeout that the coordinator keeps for a transaction that never times out (KIP-939)."""


class Preparation:
    """See the module. `token`: of the transaction, once it is prepared. `handed_out`: somebody was given it, so that only they decide.
    `in_question`: what would be its token, where it was to be committed and nobody knows whether it was."""

    def __init__(self) -> None:
        self.token: PreparedTransaction | None = None
        self.in_question: PreparedTransaction | None = None
        self.handed_out = False
        self._first: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """Another transaction."""
        self.token = self.in_question = None
        self.handed_out = False
        self._first = {}

    def looked(self, commands: Iterable[Command]) -> None:
        """Of each partition the lowest offset that was acknowledged, -1 while none was told: it was found out that the records are there,
        and not where."""
        for command in commands:
            if isinstance(command, Settle) and command.failure is None:
                self._note((command.batch.topic, int(command.batch.partition)), command.base_offset)

    def told(self, written: Iterable[Written]) -> None:
        """The same of what a participant wrote."""
        for each in written:
            if each.records:
                self._note((each.topic, each.partition), each.first_offset)

    def nothing(self, transactional_id: str, identity: tuple[int, int], *, version2: bool, view: ClusterView) -> None:
        """Nothing was written, so nobody is asked."""
        self.token = _token(transactional_id, identity, version2=version2, view=view, wrote=False)

    def doubt(self, transactional_id: str, identity: tuple[int, int], *, version2: bool, view: ClusterView) -> None:
        """It had everything acknowledged, and the answer to its commit never came."""
        self.in_question = _token(transactional_id, identity, version2=version2, view=view, wrote=True, partitions=_places(self._first))

    def confirm(
        self,
        state: TransactionState,
        identity: tuple[int, int],
        *,
        version2: bool,
        view: ClusterView,
        coordinator: int | None,
        groups: Iterable[str] = (),
    ) -> str | None:
        """Take what the coordinator says of the transaction: None, and there is a token, or why there cannot be one."""
        if state.transaction_state != ONGOING or (state.producer_id, state.producer_epoch) != identity:
            return (
                f"the coordinator has no such transaction open any more: {state.transactional_id!r} is {state.transaction_state} under "
                f"producer id {state.producer_id}, epoch {state.producer_epoch}, and this was {identity[0]}, {identity[1]}"
            )
        places = dict(self._first)
        for topic in state.topics:
            for partition in topic.partitions:
                places.setdefault((topic.topic, partition), -1)
        timeless = state.transaction_timeout_ms == NO_DEADLINE_MS
        self.token = _token(
            state.transactional_id,
            identity,
            version2=version2,
            view=view,
            wrote=True,
            started_ms=state.transaction_start_time_ms,
            deadline_ms=None if timeless else state.transaction_start_time_ms + state.transaction_timeout_ms,
            coordinator=_hint(coordinator, view),
            partitions=_places(places),
            groups=tuple(sorted(groups)),
        )
        return None

    def _note(self, tp: tuple[str, int], offset: int) -> None:
        known = self._first.get(tp, -1)
        self._first[tp] = offset if known < 0 else min(known, offset) if offset >= 0 else known


def _token(
    transactional_id: str, identity: tuple[int, int], *, version2: bool, view: ClusterView, wrote: bool, **known: Any
) -> PreparedTransaction:
    return PreparedTransaction(
        transactional_id=transactional_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        transaction_version=2 if version2 else 1,
        cluster_id=view.cluster_id,
        wrote=wrote,
        **known,
    )


def _places(first: dict[tuple[str, int], int]) -> tuple[WrittenPartition, ...]:
    return tuple(WrittenPartition(*tp, offset if offset >= 0 else None) for tp, offset in sorted(first.items()))


def _hint(node: int | None, view: ClusterView) -> CoordinatorHint | None:
    address = view.brokers.get(node) if node is not None else None
    return CoordinatorHint(node, address.host, address.port) if node is not None and address is not None else None
