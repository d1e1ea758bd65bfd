"""Calls of several threads on one transactional producer, stopped at each line of the calls' module in turn."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import FencepostError
from fencepost.txn.coordinator import send_gate, transaction_calls, transaction_spans
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.transaction import Transaction
from tests.txn.stub_helpers import LIMIT_S, SETTINGS, committed
from tests.txn.stub_helpers import stub as stub

FILES = (send_gate.__file__, transaction_calls.__file__, transaction_spans.__file__)


def stopped_at(line: int, call: Callable[[], object], meanwhile: Callable[[], object]) -> bool:
    """Make the call on a thread of its own, and `meanwhile` where the call has reached its n-th line. False if it has fewer lines."""
    reached, resumed = threading.Event(), threading.Event()
    left = line

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                reached.set()
                resumed.wait(LIMIT_S)
        return trace

    def run() -> None:
        sys.settrace(trace)
        call()
        sys.settrace(None)
        reached.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert reached.wait(LIMIT_S)
    try:
        if left == 0:
            meanwhile()
    finally:
        resumed.set()
        thread.join(LIMIT_S)
    assert not thread.is_alive()
    return left <= 0


@pytest.mark.parametrize("commits_too", [False, True])
def test_a_transaction_that_begins_while_another_thread_ends_the_last_one(stub: BrokerStub, *, commits_too: bool) -> None:
    """Wherever that thread is in its commit: as soon as the next transaction has begun, it accepts records and can be committed.
    `commits_too`: this thread commits the last transaction as well."""
    told: list[bytes] = []
    with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:

        def begin() -> None:
            try:
                if commits_too:
                    last.commit(LIMIT_S)
                newer.append(producer.begin(LIMIT_S))
            except FencepostError:
                return  # The last one is open, or ends.

        begun = 0
        for line in count(1):
            last, newer = producer.begin(LIMIT_S), list[Transaction]()
            told += [b"last %d" % line]
            last.send("t", told[-1], partition=0)
            if not stopped_at(line, partial(last.commit, LIMIT_S), begin):
                break
            for tx in newer:
                begun += 1
                told += [b"newer %d" % line]
                tx.send("t", told[-1], partition=0)
                producer.commit(LIMIT_S)
    assert begun
    assert committed(stub, "t") == told
