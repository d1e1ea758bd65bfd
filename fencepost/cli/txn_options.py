"""Shared by the commands of `fencepost txn`: exit codes, the names of states, and times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from fencepost.cli.cluster_options import asking_as

CLIENT_ID: Final = "fencepost-txn"
OTHER_WAY: Final = 1
NOBODY_KNOWS: Final = 3
STATES: Final = {
    state.lower(): state
    for state in ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
}
"""Kafka's states of a transaction (`TransactionState`), by their names in lower case."""

asks_cluster = asking_as(CLIENT_ID)


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000.0, UTC).isoformat(timespec="milliseconds")
