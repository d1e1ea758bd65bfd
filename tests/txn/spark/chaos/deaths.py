"""How a driver ends in the middle of a batch: its own process and its JVM killed, or frozen, at a point between two steps of the protocol.

The points are reached by wrapping the driver's hold of the sink and its transactions, here and nowhere in the product.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.txn.spark.chaos.plan import END_TXN, INIT, LEDGER, TASKS, Plan
from txn.spark.hold import Hold
from txn.transaction import Transaction

ACK_WITHIN_S = 30.0


class Mortal:
    """Ends the driver at the plan's point. `batch`: the one that is under way."""

    def __init__(self, plan: Plan, jvm: int) -> None:
        self.batch = -1
        self._plan = plan
        self._jvm = jvm

    def reached(self, point: str) -> None:
        """The driver is there."""
        plan = self._plan
        if point != plan.death or self.batch < plan.death_batch or not plan.events.first(f"death-{plan.run}"):
            return
        how = signal.SIGSTOP if plan.freezes else signal.SIGKILL
        plan.events.tell("frozen driver" if plan.freezes else "death", run=plan.run, point=point, batch=self.batch, jvm=self._jvm)
        os.kill(self._jvm, how)
        os.kill(os.getpid(), how)

    def wrap(self) -> None:
        """Watch every hold from now on."""
        patched: Any = Hold
        take_over, begin = Hold.take_over, Hold.begin
        mortal = self

        def watched_take_over(hold: Hold) -> None:
            take_over(hold)
            mortal.reached(INIT)

        def watched_begin(hold: Hold) -> Any:
            return Watched(begin(hold), mortal, hold.ledger.topic)

        patched.take_over = watched_take_over
        patched.begin = watched_begin


class Watched:
    """A transaction."""

    def __init__(self, transaction: Transaction, mortal: Mortal, ledger_topic: str) -> None:
        self._transaction = transaction
        self._mortal = mortal
        self._ledger_topic = ledger_topic

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def send(self, topic: str, value: object, **given: Any) -> Any:
        if topic == self._ledger_topic:
            self._mortal.reached(TASKS)
        future = self._transaction.send(topic, value, **given)
        if topic == self._ledger_topic:
            future.result(ACK_WITHIN_S)
            self._mortal.reached(LEDGER)
        return future

    def commit(self, timeout: float | None = None) -> None:
        self._transaction.commit(timeout)
        self._mortal.reached(END_TXN)
