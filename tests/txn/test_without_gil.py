"""What other threads may see in the middle of a step of a transaction if Python has no GIL: between any two steps, and without a lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import ProducerClosed
from fencepost.txn import MustAbort, TransactionalProducer
from fencepost.txn.coordinator.send_admission import NO_TRANSACTION
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from fencepost.txn.pool.calls import BlockingCalls
from fencepost.txn.pool.instance import Instance
from fencepost.txn.pool.instance_registration import InstanceRegistration
from fencepost.txn.pool.program import PoolProgram
from fencepost.txn.pool.settings import read_pool_settings
from tests.interleaved import at_each_step, at_every_step, needs_steps
from tests.txn.coordinator.harness import CoordinatorHarness
from tests.txn.stub_helpers import SETTINGS

pytestmark = needs_steps
LIMIT_S = 20.0


def test_a_transaction_whose_abort_begins_a_new_one() -> None:
    """A send that asks why the transaction must be aborted, while the abort ends it, is told that or nothing."""

    def attempt() -> tuple[Callable[[], object], Callable[[], object]]:
        manager = TransactionManager("tx", timeout_ms=60_000)
        manager.spoilt = MustAbort("a record failed")

        def ask() -> None:
            with suppress(MustAbort):
                manager.refuse_spoilt()

        return ask, partial(setattr, manager, "spoilt", None)

    assert at_each_step(attempt) > 3


@pytest.mark.parametrize("event", [Event.COMMIT, Event.ABORT])
def test_a_transaction_that_is_over_is_known(event: Event) -> None:
    """From the moment at which the producer is between transactions, it knows how the last one ended. A pool counts it by that."""
    harness = CoordinatorHarness().begin()
    manager = harness.manager
    harness.send(b"row")
    harness.ack(harness.produces()[0])
    harness.call(event)
    number, seen = manager._number, set()

    def look() -> None:
        if manager.machine.state in (State.READY, State.RENEWING):
            seen.add(manager.knows(number) and manager.about_the_past(event, number) is None)

    at_every_step(harness.end, look)
    assert seen == {True}


def test_a_transaction_that_opens_while_the_producer_closes() -> None:
    """The sender opens a transaction while another thread closes the producer: after both, no record is accepted."""
    refusals: set[type] = set()

    def attempt() -> tuple[Callable[[], object], Callable[[], object]]:
        admission = producer._inner.admission
        producer._inner._accumulator.refusal = NO_TRANSACTION
        closing = threading.Thread(target=producer._inner._refuse_records)

        def close() -> None:
            closing.start()
            closing.join(0.05)  # It waits longer where the sender holds the lock.

        def call() -> None:
            admission._open(admission.call(Event.BEGIN, 1.0), None)
            if closing.ident is not None:
                closing.join(LIMIT_S)
                refusals.add(type(producer._inner._accumulator.refusal))

        return call, close

    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, **SETTINGS) as producer:
        assert at_each_step(attempt) > 10
    assert refusals == {ProducerClosed}


def test_a_close_lets_no_record_in() -> None:
    """Between transactions, and while the producer closes, each step of `close` refuses records."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, **SETTINGS) as producer:
        refused: list[bool] = []
        at_every_step(producer._inner._refuse_records, lambda: refused.append(producer._inner._accumulator.refusal is not None))
        assert all(refused)
        assert isinstance(producer._inner._accumulator.refusal, ProducerClosed)


def test_a_pool_that_looks_for_its_instance() -> None:
    """The name of the instance, while another thread finds that it belongs to another process now: the old one, or none."""
    names: set[str | None] = set()

    def attempt() -> tuple[Callable[[], object], Callable[[], object]]:
        settings, own = read_pool_settings({"bootstrap_servers": "localhost:1", "transactional_id_prefix": "p"})
        program = PoolProgram(settings, own, BlockingCalls())
        program._registration = InstanceRegistration(Instance("ours", chosen=True), SimpleNamespace())
        return lambda: names.add(program.instance), partial(setattr, program, "_registration", None)

    assert at_each_step(attempt) > 3
    assert names == {"ours", None}
