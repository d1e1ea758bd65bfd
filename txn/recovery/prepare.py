"""What a transaction needs to be prepared: the offsets of its first records, and the coordinator's state of it.

The manager sends the request. This module keeps the offsets, judges the answer and makes the token. It forgets everything with the next
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import Command, Settle
from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.recovery.outcome import ONGOING, deadline_of
from fencepost.txn.recovery.token import CoordinatorHint, PreparedTransaction, WrittenPartition
from fencepost.txn.shared.participation import Written


class Preparation:
    """See the module. `token`: that of the prepared transaction. `handed_out`: a caller has the token, so only callers decide.
    `in_question`: the would-be token of a transaction whose commit has no known outcome."""

    def __init__(self) -> None:
        self.token: PreparedTransaction | None = None
        self.in_question: PreparedTransaction | None = None
        self.handed_out = False
        self._first: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """A new transaction begins."""
        self.token = self.in_question = None
        self.handed_out = False
        self._first = {}

    def looked(self, commands: Iterable[Command]) -> None:
        """For each partition the lowest acknowledged offset, or -1 if none is known: the records were found to be there, but not their
        offsets."""
        for command in commands:
            if isinstance(command, Settle) and command.failure is None:
                self._note((command.batch.topic, int(command.batch.partition)), command.base_offset)

    def told(self, written: Iterable[Written]) -> None:
        """The same for what a participant wrote."""
        for each in written:
            if each.records:
                self._note((each.topic, each.partition), each.first_offset)

    def nothing(self, transactional_id: str, identity: tuple[int, int], *, version2: bool, view: ClusterView) -> None:
        """Nothing was written, so no coordinator is asked."""
        self.token = _token(transactional_id, identity, version2=version2, view=view, wrote=False)

    def doubt(self, transactional_id: str, identity: tuple[int, int], *, version2: bool, view: ClusterView) -> None:
        """All its records were acknowledged, and the answer to its commit was lost."""
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
        """Take the coordinator's state of the transaction. Returns None if there is a token now, and otherwise why there cannot be one."""
        if state.transaction_state != ONGOING or (state.producer_id, state.producer_epoch) != identity:
            return (
                f"the coordinator has no such transaction open any more: {state.transactional_id!r} is {state.transaction_state} under "
                f"producer id {state.producer_id}, epoch {state.producer_epoch}, and this was {identity[0]}, {identity[1]}"
            )
        places = dict(self._first)
        for topic in state.topics:
            for partition in topic.partitions:
                places.setdefault((topic.topic, partition), -1)
        self.token = _token(
            state.transactional_id,
            identity,
            version2=version2,
            view=view,
            wrote=True,
            started_ms=state.transaction_start_time_ms,
            deadline_ms=deadline_of(state),
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
