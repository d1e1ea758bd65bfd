"""A driver and its JVM are killed or frozen at a point between two steps of the protocol.

These tests reach the points by wrapping the driver's sink session and its transactions. The product has no code for this.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from fencepost.producer import RecordFuture
from fencepost.txn.ledger.entry import LedgerEntry
from fencepost.txn.spark.sink.sink_session import SinkSession
from fencepost.txn.transaction import Transaction
from tests.txn.spark.chaos.plan import END_TXN, INIT, LEDGER, TASKS, Plan

ACK_WITHIN_S = 30.0


class Mortal:
    """Ends the driver at the plan's point. `batch`: the batch that is under way."""

    def __init__(self, plan: Plan, jvm: int) -> None:
        self.batch = -1
        self._plan = plan
        self._jvm = jvm

    def reached(self, point: str) -> None:
        """The driver has reached this point."""
        plan = self._plan
        if point != plan.death or self.batch < plan.death_batch or not plan.events.first(f"death-{plan.run}"):
            return
        how = signal.SIGSTOP if plan.freezes else signal.SIGKILL
        plan.events.tell("frozen driver" if plan.freezes else "death", run=plan.run, point=point, batch=self.batch, jvm=self._jvm)
        os.kill(self._jvm, how)
        os.kill(os.getpid(), how)

    def wrap(self) -> None:
        """Watch every sink session from now on."""
        patched: Any = SinkSession
        take_over, begin, record, send = SinkSession.take_over, SinkSession.begin, SinkSession.record, SinkSession._send
        mortal = self
        sent: list[RecordFuture] = []

        def watched_take_over(sink_session: SinkSession) -> None:
            take_over(sink_session)
            mortal.reached(INIT)

        def watched_begin(sink_session: SinkSession, *entry: Any) -> Any:
            return Watched(begin(sink_session, *entry), mortal)

        def watched_record(sink_session: SinkSession, entry: LedgerEntry) -> None:
            mortal.reached(TASKS)
            record(sink_session, entry)
            sent[-1].result(ACK_WITHIN_S)
            mortal.reached(LEDGER)

        def watched_send(sink_session: SinkSession, entry: LedgerEntry) -> RecordFuture:
            sent.append(send(sink_session, entry))
            return sent[-1]

        patched.take_over, patched.begin = watched_take_over, watched_begin
        patched.record, patched._send = watched_record, watched_send


class Watched:
    """A transaction that reports its points."""

    def __init__(self, transaction: Transaction, mortal: Mortal) -> None:
        self._transaction = transaction
        self._mortal = mortal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def commit(self, timeout: float | None = None) -> None:
        self._transaction.commit(timeout)
        self._mortal.reached(END_TXN)
