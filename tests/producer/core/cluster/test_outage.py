"""The warning that no broker can be used."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from fencepost.producer import Producer, TopicUnavailable
from fencepost.producer.core.cluster import outage
from fencepost.producer.core.cluster.cluster_connection_states import LinkState
from fencepost.producer.core.events import TopicWanted
from fencepost.txn import TransactionalProducer, TransactionTimeout
from tests.producer.core.harness import CoreHarness
from tests.producer.stub_helpers import QUICK

WORDS = "no broker can be used for "


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def lose_all(harness: CoreHarness) -> None:
    """Every connection is lost, and no broker accepts another one."""
    harness.down = {node.node_id for node in harness.core.nodes}
    for node in harness.core.nodes:
        if node.state is LinkState.UP:
            harness.lose(node.node_id)


def seconds_of_warnings(harness: CoreHarness, caplog: pytest.LogCaptureFixture, seconds: int) -> list[int]:
    """Let that time pass; after how many seconds a warning came."""
    found = []
    for tenth in range(1, seconds * 10 + 1):
        before = len(warnings(caplog))
        harness.advance(100)
        found += [round(tenth / 10)] * (len(warnings(caplog)) - before)
    return found


def test_after_five_seconds_and_then_after_pauses_that_double(caplog: pytest.LogCaptureFixture) -> None:
    """While no broker is connected, the log warns after 5, 15 and 35 seconds: what waits, each address with its last failure, and what to
    check. A connection ends the outage."""
    harness = CoreHarness(delivery_timeout_ms=200_000.0).introduce()
    lose_all(harness)
    harness.send(b"x")
    assert seconds_of_warnings(harness, caplog, 40) == [5, 15, 35]
    assert all(each.startswith(WORDS) for each in warnings(caplog))
    for words in ("1 record waits for an acknowledgement", "tried b:1: ", "; check bootstrap_servers, "):
        assert words in warnings(caplog)[0]
    harness.down = set()
    assert seconds_of_warnings(harness, caplog, 60) == []
    lose_all(harness)
    harness.send(b"x")
    assert seconds_of_warnings(harness, caplog, 10) == [5]


def lose_leader(harness: CoreHarness) -> None:
    """The leader of the partition can no longer be reached. The bootstrap server answers as before."""
    harness.down = {1}
    harness.lose(1)


def test_one_broker_among_others(caplog: pytest.LogCaptureFixture) -> None:
    """A leader whose address leads nowhere: the log warns at the same pace and names the broker, its failure and what waits, although
    another broker answers. This is what a wrong advertised address looks like."""
    harness = CoreHarness(delivery_timeout_ms=200_000.0).introduce()
    lose_leader(harness)
    harness.send(b"x")
    assert seconds_of_warnings(harness, caplog, 40) == [5, 15, 35]
    says = (
        "broker 1 at b:1 cannot be used for 5 s, and others can; 1 record waits for an acknowledgement; its newest failure: refused; check"
    )
    assert warnings(caplog)[0].startswith(says)
    harness.down = set()
    assert seconds_of_warnings(harness, caplog, 60) == []
    assert harness.produces()


def test_a_leader_that_moves(caplog: pytest.LogCaptureFixture) -> None:
    """No record needs the broker that died, so the log does not warn. Nor does it warn of one that is back within five seconds."""
    harness = CoreHarness(delivery_timeout_ms=200_000.0).introduce()
    lose_leader(harness)
    harness.send(b"x")
    harness.advance(3_000)
    harness.leaders = {0: (2, 1)}
    assert seconds_of_warnings(harness, caplog, 30) == []
    assert harness.produces(2)
    harness.down = {2}
    harness.lose(2)
    harness.advance(3_000)
    harness.down = set()
    assert seconds_of_warnings(harness, caplog, 30) == []


def test_one_warning_of_all_brokers(caplog: pytest.LogCaptureFixture) -> None:
    """If no broker is left, there is no second warning of the leader."""
    harness = CoreHarness(delivery_timeout_ms=200_000.0).introduce()
    lose_leader(harness)
    harness.send(b"x")
    harness.advance(3_000)
    lose_all(harness)
    harness.advance(60_000)
    assert warnings(caplog)
    assert all(each.startswith(WORDS) for each in warnings(caplog))


def test_a_producer_that_nothing_needs_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    """If no call and no record waits any more, the producer tries no broker, and the log does not warn."""
    harness = CoreHarness()
    harness.down = {-1}
    harness.happen(TopicWanted("t", 2_000.0))
    assert seconds_of_warnings(harness, caplog, 120) == []
    harness.happen(TopicWanted("t", 20_000.0))
    assert seconds_of_warnings(harness, caplog, 30) == [5, 15]


@pytest.mark.parametrize("kind", [Producer, TransactionalProducer])
def test_each_producer_warns(kind: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """send to a new topic and begin of a transaction are named, with the address and its failure. A silent server is named in the error,
    too."""
    monkeypatch.setattr(outage, "FIRST_WARNING_MS", 100.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        transactional = kind is TransactionalProducer
        named = {"transactional_id": "t"} if transactional else {}
        producer = kind(bootstrap_servers=address, **named, **{**QUICK, "max_block_ms": 1_500})
        try:
            with pytest.raises((TopicUnavailable, TransactionTimeout), match=None if transactional else f"{address}: no answer yet"):
                producer.begin() if transactional else producer.send("t", b"x")
        finally:
            producer.close(0)
    said = warnings(caplog)
    assert said
    waits = "no record waits for one" if transactional else "a call waits for 1 topic (t)"
    assert said[0].startswith(WORDS)
    assert f"; {waits}; tried {address}: no answer yet; check " in said[0]
