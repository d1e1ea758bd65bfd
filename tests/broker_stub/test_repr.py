"""What a debugger, a failed assertion and a shell show of the stub's public objects: one line with what one wants to know."""

from __future__ import annotations

import pytest

from fencepost import Api, BrokerStub, ErrorCode, FaultProxy, Producer, VirtualClock
from fencepost.broker_stub.faults.rules import Rule


def test_a_stub_shows_its_address_and_its_size() -> None:
    """Before the start there is no address."""
    stub = BrokerStub(brokers=3)
    assert repr(stub) == "BrokerStub(bootstrap=None, brokers=3, topics=0)"
    with stub:
        stub.create_topic("orders")
        stub.create_topic("payments")
        assert repr(stub) == f"BrokerStub(bootstrap='{stub.bootstrap}', brokers=3, topics=2)"


def test_a_proxy_shows_both_addresses() -> None:
    """The clients' one only while the proxy runs."""
    with BrokerStub() as stub:
        proxy = FaultProxy(stub.bootstrap)
        assert repr(proxy) == f"FaultProxy('{stub.bootstrap}', bootstrap=None)"
        with proxy:
            assert repr(proxy) == f"FaultProxy('{stub.bootstrap}', bootstrap='{proxy.bootstrap}')"


def test_a_clock_shows_its_time() -> None:
    """The representation makes an equal clock."""
    clock = VirtualClock(1000)
    clock.advance(5)
    assert repr(clock) == "VirtualClock(1005)"


def test_a_journal_shows_how_much_it_has() -> None:
    """A journal with nothing in it, and one with as many exchanges as it keeps."""
    with BrokerStub(journal=2) as stub:
        assert repr(stub.journal) == "Journal(exchanges=0, limit=2)"
        with Producer(stub.settings) as producer:
            producer.send("orders", b"one").result(20)
        assert repr(stub.journal) == "Journal(exchanges=2, limit=2)"


def test_a_fault_shows_its_rule_and_its_hits() -> None:
    """As `fencepost fault list` does."""
    with BrokerStub() as stub:
        assert repr(stub.faults) == "Faults()"
        lost = stub.faults.on(Api.PRODUCE).where(topic="orders").drop_reply()
        stub.faults.on(Api.FETCH, Api.LIST_OFFSETS).error(ErrorCode.NOT_LEADER_OR_FOLLOWER).forever()
        with Producer(stub.settings) as producer:
            producer.send("orders", b"one").result(20)
        assert repr(lost) == "Fault(1: PRODUCE topic=orders at after_append: drop (times=1), 1 hit)"
        other = "Fault(2: FETCH,LIST_OFFSETS at before: error NOT_LEADER_OR_FOLLOWER (forever=True), 0 hits)"
        assert repr(stub.faults) == f"Faults({lost!r}, {other})"


@pytest.mark.parametrize("kind", [Rule, type(BrokerStub().faults), BrokerStub, FaultProxy, VirtualClock, type(BrokerStub().journal)])
def test_every_public_method_has_a_text_for_help(kind: type) -> None:
    """`help(stub)` says what each method does."""
    silent = [name for name, each in vars(kind).items() if not name.startswith("_") and callable(each) and not each.__doc__]
    assert silent == []
