"""The check before a batch takes a sink over. A takeover ends what the sink's driver is doing, so a batch that is refused makes none.

An entry of an open transaction may still be committed or aborted. So the check refuses a batch only where both that entry and the
committed one do. An open entry of another query shows that the other query is at work, or was a short time ago.
"""

from __future__ import annotations

from fencepost.txn.keyed_topic.errors import LedgerBusy
from fencepost.txn.ledger.errors import LedgerRefusal
from fencepost.txn.spark.sink.query_identity import Identity
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.sink_session import SinkSession


def look_first(sink_session: SinkSession, identity: Identity, settings: WriterSettings) -> None:
    """Raises the ledger's refusal of the batch, and LedgerBusy if another query is writing into the sink."""
    sink_session.ledger.ensure(sink_session.timeout_s)
    standing = sink_session.ledger.standing(sink_session.key, sink_session.timeout_s)
    found, opened = standing.committed, standing.open
    if opened is None:
        if found is not None:
            identity.decide(found, settings)
        return
    if opened.query != identity.query and settings.on_new_checkpoint != "reset":
        raise LedgerBusy(
            f"sink {sink_session.key!r}: to be written is {identity.full_name}, and a transaction is open that writes batch"
            f" {opened.batch} of query"
            f" {opened.query}: that query is at work, or it died recently and its transaction is aborted after its timeout. Give this"
            " query a sink id of its own; or wait; or set on_new_checkpoint='reset' (option onNewCheckpoint), which ends the other one"
        )
    try:
        identity.decide(opened, settings)
    except LedgerRefusal:
        if found is not None:
            identity.decide(found, settings)
