"""Breaks rules of transactions on purpose in the stub, to check that the random runs notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from fencepost.broker_stub.cluster.internal_append import PLAINLY, How, Then, append
from fencepost.broker_stub.groups.coordinators import GroupCoordinators
from fencepost.broker_stub.log import producer_append_info
from fencepost.broker_stub.log.last_stable_offset import UnstableTransactions
from fencepost.broker_stub.log.txn_index import AbortedTxn, TransactionIndex
from fencepost.broker_stub.transactions import (
    coordinators as transactions,
)
from fencepost.broker_stub.transactions import (
    end_table as txn_end_table,
)
from fencepost.broker_stub.transactions import (
    init_and_add_table as txn_table,
)
from fencepost.broker_stub.transactions import (
    markers,
)
from fencepost.broker_stub.transactions import (
    state_log as txn_shard,
)
from fencepost.broker_stub.transactions.coordinators import TransactionCoordinators
from fencepost.broker_stub.transactions.markers import Markers
from fencepost.broker_stub.transactions.state_log import TxnShard
from fencepost.broker_stub.transactions.states import COMPLETE, PREPARED, State, TransactionMetadata, Txn
from fencepost.broker_stub.transactions.verification import Question, ThenEach, TransactionVerification
from fencepost.producer.wire import ErrorCode

RUNS_MAX: Final = 1_500
Rows = tuple[Any, ...]
Patch = tuple[object, str, object]


def _without(rows: Rows, *names: str) -> Rows:
    return tuple(row for row in rows if row.name not in names)


def _with(rows: Rows, name: str, **changed: object) -> Rows:
    """Replace the rows of that name. Rows that write nothing still write nothing."""
    return tuple(replace(row, **changed) if row.name == name and (row.becomes or "becomes" not in changed) else row for row in rows)


def _at_its_epoch(raised: Callable[[Txn, Any], Txn]) -> Callable[[Txn, Any], Txn]:
    return lambda txn, asked: replace(raised(txn, asked), epoch=max(txn.epoch, 0), next_producer_id=-1)


def _newest_partitions_only(txn: Txn, asked: Any) -> Txn:
    return replace(txn_table._with_partitions(txn, asked), partitions=asked.partitions)


def _rotated_in_place(txn: Txn, asked: Any) -> Txn:
    return replace(txn_table._rotated(txn, asked), producer_id=txn.producer_id)


def _has_ended(known: TransactionMetadata, asked: Any) -> bool:
    return known.txn.state in COMPLETE


def _append_and_go_on(cluster: Any, partition: Any, data: bytes, *, timeout_ms: int, then: Then, how: How = PLAINLY) -> None:
    """Answer at once, without waiting for the outcome."""
    waiting: list[Then] = [then]
    append(cluster, partition, data, timeout_ms=timeout_ms, then=lambda code: waiting.pop()(code) if waiting else None, how=how)
    if waiting:
        waiting.pop()(ErrorCode.NONE)


def _load_and_leave(shard: TxnShard, load: Callable[[TxnShard], None] = TxnShard.load) -> None:
    with patch.object(TxnShard, "finish", lambda *_: None):
        load(shard)


def _read_and_abort(partition: Any, read: Callable[[Any], dict[str, Txn]] = txn_shard._read) -> dict[str, Txn]:
    return {name: replace(txn, state=State.PREPARE_ABORT) if txn.state in PREPARED else txn for name, txn in read(partition).items()}


def _send_one(self: Markers, send: Callable[[Markers], None] = Markers.send) -> None:
    self.left = set(sorted(self.left)[:1])
    send(self)


def _from_here_on(self: TransactionIndex, offset: int, end: int) -> list[AbortedTxn]:
    return [txn for txn in self.aborted if offset <= txn.first_offset < end]


def _not_asked(self: TransactionVerification, node_id: int, question: Question, then: ThenEach) -> None:
    then(dict.fromkeys(question.partitions, 0))


def _verify_all(self: TransactionCoordinators, name: str, node_id: int, identity: object, partitions: Sequence[Any]) -> dict[Any, int]:
    return dict.fromkeys(partitions, 0)


def _committed(self: GroupCoordinators, *ended: Any, commit: bool, end: Any = GroupCoordinators.end_transaction) -> None:
    end(self, *ended, commit=True)


MUTANTS: Final[dict[str, tuple[str, Patch]]] = {
    "a zombie ends its transaction": ("TV2", (txn_end_table, "END_ROWS_WITH_BUMP", _without(txn_end_table.END_ROWS_WITH_BUMP, "F3"))),
    "a zombie of version 1 ends its successor's transaction": ("TV1", (txn_end_table, "END_ROWS", _without(txn_end_table.END_ROWS, "E2"))),
    "a zombie adds partitions": ("TV2", (txn_table, "ADD_ROWS", _without(txn_table.ADD_ROWS, "A3"))),
    "a new owner gets the epoch of the old one": (
        "TV1",
        (txn_table, "INIT_ROWS", _with(txn_table.INIT_ROWS, "I5", becomes=_at_its_epoch(txn_table._raised))),
    ),
    "the epoch stays when a transaction ends": (
        "TV2",
        (
            txn_end_table,
            "END_ROWS_WITH_BUMP",
            _with(txn_end_table.END_ROWS_WITH_BUMP, "F4", becomes=_at_its_epoch(txn_end_table._prepared_with_bump)),
        ),
    ),
    "used up epochs begin anew with the same producer id": (
        "TV1",
        (txn_table, "INIT_ROWS", _with(txn_table.INIT_ROWS, "I4", becomes=_rotated_in_place)),
    ),
    "a partition takes the place of those before it": (
        "TV1",
        (txn_table, "ADD_ROWS", _with(txn_table.ADD_ROWS, "A6", becomes=_newest_partitions_only)),
    ),
    "an abort after the commit is taken for its retry": (
        "TV1",
        (txn_end_table, "END_ROWS", _with(txn_end_table.END_ROWS, "E5", matches=_has_ended)),
    ),
    "a coordinator answers before its followers have it": ("TV2", (txn_shard, "append", _append_and_go_on)),
    "a coordinator that moves ends nothing": ("TV2", (TxnShard, "load", _load_and_leave)),
    "a coordinator that moves aborts what it was committing": ("TV1", (txn_shard, "_read", _read_and_abort)),
    "a transaction may take for ever": ("TV2", (transactions, "is_timed_out", lambda known, now_ms: False)),
    "a marker that cannot be written is not tried again": ("TV1", (markers, "_AGAIN", frozenset())),
    "one partition gets the marker": ("TV2", (Markers, "send", _send_one)),
    "a repeated marker ends the next transaction": (
        "TV2",
        (producer_append_info, "_MARKER_ROWS", _without(producer_append_info._MARKER_ROWS, "M3")),
    ),
    "records are written without asking the coordinator": ("TV2", (TransactionVerification, "ask", _not_asked)),
    "the coordinator verifies every partition without a check": ("TV1", (TransactionCoordinators, "verify", _verify_all)),
    "readers do not stop at open transactions": (
        "TV1",
        (UnstableTransactions, "last_stable_offset", lambda self, high_watermark: high_watermark),
    ),
    "readers hear of no abort": ("TV2", (TransactionIndex, "aborted_between", lambda self, offset, end: [])),
    "readers hear of the aborts that begin where they read": ("TV2", (TransactionIndex, "aborted_between", _from_here_on)),
    "offsets of aborted transactions count": ("TV1", (GroupCoordinators, "end_transaction", _committed)),
}


BEGIN_AT: Final = {
    "used up epochs begin anew with the same producer id": 30,
    "an abort after the commit is taken for its retry": 110,
    "a coordinator that moves ends nothing": 300,
    "a coordinator that moves aborts what it was committing": 180,
    "a marker that cannot be written is not tried again": 215,
    "a repeated marker ends the next transaction": 150,
    "readers do not stop at open transactions": 70,
    "readers hear of the aborts that begin where they read": 785,
}
"""The first seed for a mutant that shows late: the hundreds of runs before that notice nothing take minutes."""
