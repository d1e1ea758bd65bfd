"""What is looked at before a sink is taken over, as that ends whatever its driver is doing: who would be refused anyway leaves it alone.

That the ledger has nothing means little yet. What a transaction has written that is open may come to count or not, so that it takes both to
refuse; but another query's says that this query is at work, or was until lately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txn.ledger_errors import LedgerBusy, LedgerRefusal
from txn.spark.hold import Hold
from txn.spark.writer_settings import WriterSettings

if TYPE_CHECKING:
    from txn.spark.batch import Identity


def look_first(hold: Hold, identity: Identity, settings: WriterSettings) -> None:
    """Raises what the ledger has against it, and LedgerBusy where another query is writing into the sink."""
    hold.ledger.ensure(hold.timeout_s)
    standing = hold.ledger.standing(hold.key, hold.timeout_s)
    found, opened = standing.committed, standing.open
    if opened is None:
        if found is not None:
            identity.decide(found, settings)
        return
    if opened.query != identity.query and settings.on_new_checkpoint != "reset":
        raise LedgerBusy(
            f"sink {hold.key!r}: to be written is {identity.full_name}, and a transaction is open that writes batch {opened.batch} of query"
            f" {opened.query}: that query is at work, or it died not long ago, and what it left is aborted when its transaction timeout has"
            " passed. Give this query a sink id of its own; or wait; or on_new_checkpoint='reset' (option onNewCheckpoint), which ends the"
            " other one"
        )
    try:
        identity.decide(opened, settings)
    except LedgerRefusal:
        if found is not None:
            identity.decide(found, settings)
