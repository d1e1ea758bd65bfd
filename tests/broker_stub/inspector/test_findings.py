"""What the page says went wrong: each of ten seeded mishaps is explained, and a cluster without one has no finding."""

from __future__ import annotations

import pytest

from fencepost import Api, BrokerStub, ErrorCode, FencepostError, Producer, TransactionalProducer, VirtualClock
from fencepost.broker_stub.inspector.exchange_findings import STUCK_READS
from tests.broker_stub.inspector.seeded_cases import CASES, PATIENCE_S, found
from tests.broker_stub.stub_calls import Talker, batch, numbered

pytestmark = pytest.mark.timeout(120)

WORDS = {
    "lost reply": "It is in the log once, at offset 1.",
    "fenced zombie": "which is replaced",
    "hanging transaction": "No coordinator has it open",
    "stale leader": "Broker 2 leads in epoch 1.",
    "poison record": "record 2: a compacted topic takes no record without a key",
    "expired batch": "It is in the log, at offset 1, though the client does not know.",
    "quota": "told it to wait, up to",
    "wrong acks": "a leader without these records took over",
    "rebalance in a transaction": "UNKNOWN_MEMBER_ID",
    "aborted batch": "shop aborted it in exchange",
}
"""The answer to "what went wrong?" in each case."""


@pytest.mark.parametrize("name", CASES)
def test_each_mishap_is_explained(name: str) -> None:
    """The finding names what happened, and leads to the exchange or the partition that shows it."""
    case = CASES[name]
    with BrokerStub(**case.options) as stub:
        case.make(stub)
        explained = [each for each in found(stub) if each["kind"] == case.kind]
        assert explained, found(stub)
        assert any(WORDS[name] in each["text"] for each in explained), explained
        numbers = explained[0]["rows"]
        assert numbers or explained[0]["topic"] is not None
        assert set(numbers) <= {exchange.number for exchange in stub.journal.requests()}


def test_nothing_is_found_where_nothing_went_wrong() -> None:
    """Ordinary writes and reads are no finding."""
    with BrokerStub(brokers=2) as stub:
        with Producer(stub.settings) as producer:
            for number in range(20):
                producer.send("orders", b"%d" % number).result(PATIENCE_S)
        assert found(stub) == []


def kinds(stub: BrokerStub) -> list[tuple[str, str]]:
    return [(each["level"], each["kind"]) for each in found(stub)]


def test_a_consumer_that_does_not_get_on() -> None:
    """The same records read five times are a finding; four times are none."""
    with BrokerStub() as stub, Talker(stub, client_id="stuck") as talker:
        stub.create_topic("orders")
        talker.produce("orders", batch(b"poison"))
        for _ in range(STUCK_READS - 1):
            talker.fetch("orders")
        assert kinds(stub) == []
        talker.fetch("orders")
        (one,) = found(stub)
        assert one["title"] == "stuck does not get past offset 0 of orders-0"


def test_too_few_replicas_and_no_leader() -> None:
    """A refused acks=all names the partition and its in-sync replicas; a partition without a leader comes first."""
    with BrokerStub(brokers=2) as stub, Talker(stub, node=1) as talker:
        stub.create_topic("orders", replication_factor=2, config={"min.insync.replicas": 2})
        stub.stop_broker(2)
        talker.produce("orders", batch(b"v"))
        assert ("warning", "too few replicas") in kinds(stub)
        assert [each["title"] for each in found(stub) if each["kind"] == "wrong acks"] == [
            "orders-0 has too few in-sync replicas for talker"
        ]
        stub.create_topic("alone", replication_factor=1)
        stub.stop_broker(1)
        assert kinds(stub)[0] == ("bad", "no leader")


def test_a_gap_in_the_sequence() -> None:
    """A batch whose predecessor is missing is the worst kind of finding: a record may be lost."""
    with BrokerStub() as stub, Talker(stub) as talker:
        stub.create_topic("orders")
        talker.produce("orders", numbered(5, 0))
        talker.produce("orders", numbered(5, 9))
        (one,) = found(stub)
    assert (one["level"], one["kind"], one["rows"]) == ("bad", "sequence gap", [2])


def test_an_answer_of_a_fault_rule_is_named() -> None:
    """An error that a rule made is not taken for the broker's own."""
    with BrokerStub() as stub, Talker(stub) as talker:
        stub.create_topic("orders")
        stub.faults.on(Api.PRODUCE).error(ErrorCode.INVALID_RECORD)
        talker.produce("orders", batch(b"v"))
        (one,) = found(stub)
    assert one["text"].endswith(" A fault rule gave this answer.")


def test_a_fence_that_only_a_rule_says() -> None:
    """Where a rule refuses an end as if of a zombie, the finding claims neither that the producer was replaced, nor that its records are
    not in the log."""
    with BrokerStub() as stub, TransactionalProducer(stub.settings, transactional_id="t", client_id="shop") as producer:
        stub.faults.on(Api.END_TXN).error(ErrorCode.PRODUCER_FENCED)
        with pytest.raises(FencepostError), producer.transaction(PATIENCE_S) as tx:
            tx.send("orders", b"v")
        (one,) = (each for each in found(stub) if each["kind"] == "fenced zombie")
    assert "which is replaced" not in one["text"]
    assert one["text"].endswith(" was refused: PRODUCER_FENCED. The request changed nothing. A fault rule gave this answer.")


def test_who_aborted_the_transaction_of_a_dead_process() -> None:
    """A client that registers the transactional id ends the transaction that is open. Without one it was the timeout."""
    clock = VirtualClock()
    with BrokerStub(clock=clock) as stub:
        with TransactionalProducer(stub.settings, transactional_id="t", transaction_timeout_ms=5_000, client_id="old") as old:
            old.begin(PATIENCE_S).send("orders", b"v").result(PATIENCE_S)
            stub.advance(11_000)
            (one,) = (each for each in found(stub) if each["kind"] == "aborted batch")
            assert "No client asked for it: its coordinator did, after its timeout." in one["text"]
        with TransactionalProducer(stub.settings, transactional_id="u", client_id="old") as old:
            old.begin(PATIENCE_S).send("invoices", b"v").result(PATIENCE_S)
            with TransactionalProducer(stub.settings, transactional_id="u", client_id="new") as new:
                new.init(PATIENCE_S)
            (one,) = (each for each in found(stub) if each["kind"] == "aborted batch" and each["topic"] == "invoices")
            assert "Its coordinator aborted it: new registered the transactional id in exchange " in one["text"]


def test_an_open_transaction_does_not_hang_while_its_coordinator_has_it() -> None:
    """Readers wait for it, and its coordinator will end it: that is another kind than a transaction that hangs."""
    with (
        BrokerStub(clock=VirtualClock()) as stub,
        TransactionalProducer(stub.settings, transactional_id="t", transaction_timeout_ms=60_000) as producer,
    ):
        producer.begin(PATIENCE_S).send("orders", b"v").result(PATIENCE_S)
        stub.advance(11_000)
        (one,) = found(stub)
        assert (one["level"], one["kind"]) == ("warning", "open transaction")
        assert "Its coordinator aborts it after 60 s." in one["text"]


def test_a_title_leads_to_a_view() -> None:
    """Each finding has an exchange, a partition or a view of its own to open."""
    with BrokerStub() as stub, Talker(stub, client_id="old") as talker:
        stub.create_topic("orders")
        talker.produce("orders", batch(b"v", pid=5, epoch=3, sequence=0))
        talker.produce("orders", batch(b"v", pid=5, epoch=2, sequence=0))
        (one,) = found(stub)
    assert (one["kind"], one["rows"], one["tab"], one["topic"]) == ("fenced zombie", [2], "exchanges", "orders")
