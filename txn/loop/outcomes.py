"""Asks for the outcome of a commit until it is known."""

from __future__ import annotations

import logging

from fencepost.producer.errors import FencepostError
from fencepost.txn.errors import CommitOutcomeUnknown, TransactionTimeout
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.patience import Patience


async def find_out(
    unknown: CommitOutcomeUnknown, turns: int, call_s: float, calls: Calls, patience: Patience, log: logging.Logger, name: str
) -> FencepostError | None:
    """Why the transaction is not committed, or None if it is. Raises CommitOutcomeUnknown if that stays unknown for so many turns."""
    for turn in range(1, max(1, turns) + 1):
        log.warning("%s: %s; asking for the outcome", name, unknown)
        try:
            await calls.call(unknown.resolve, patience.within(call_s))
        except CommitOutcomeUnknown as still:
            unknown = still
        except TransactionTimeout:
            pass
        except FencepostError as error:
            return error
        else:
            return None
        if patience.is_over:
            break
        await patience.pause(turn)
    raise unknown
