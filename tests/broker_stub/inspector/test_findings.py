"""What the page says went wrong: each of ten seeded mishaps is explained, and a cluster without one has no finding."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import confluent_kafka
import pytest
from msgspec.structs import replace

from fencepost import (
    Api,
    BrokerStub,
    CommitOutcomeUnknown,
    DeliveryError,
    ErrorCode,
    FencepostError,
    Producer,
    TransactionalProducer,
    VirtualClock,
)
from fencepost.broker_stub.control.failure_report import seen_by
from fencepost.broker_stub.faults.rules import Fault, Point, Rule
from fencepost.broker_stub.inspector.exchange_findings import STUCK_READS
from fencepost.broker_stub.inspector.lanes import BATCHES_MAX
from tests.broker_stub.inspector.seeded_cases import BEFORE_VERIFICATION, CASES, PATIENCE_S, found
from tests.broker_stub.stub_calls import Talker, batch, numbered, produce_request
from tests.conformance.raw import Silent
from tests.later import jumping
from tests.waiting import until

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


@pytest.mark.parametrize("lost", [1, 2])
def test_a_commit_without_a_reply(lost: int) -> None:
    """It is committed, and the finding has each exchange: those without a reply, and the one that was answered."""
    with BrokerStub() as stub, TransactionalProducer(stub.settings, transactional_id="shop-1", client_id="shop") as producer:
        stub.faults.on(Api.END_TXN).times(lost).drop_reply()
        with producer.transaction(timeout=PATIENCE_S) as tx:
            tx.send("orders", b"x")
        ends = [exchange.number for exchange in stub.journal.requests(Api.END_TXN)]
        (told,) = found(stub)
    assert (told["kind"], told["rows"]) == ("lost reply", ends)
    assert len(ends) == lost + 1
    assert told["title"] == "lost reply to a commit: transaction shop-1 is committed once"


def test_a_commit_whose_outcome_the_client_does_not_know() -> None:
    """Nothing that was asked got an answer before the client gave up."""
    with BrokerStub() as stub, suppress(FencepostError):
        producer = TransactionalProducer(stub.settings, transactional_id="shop-1", client_id="shop")
        tx = producer.begin(timeout=PATIENCE_S)
        tx.send("orders", b"x").result(PATIENCE_S)
        stub.faults.on(Api.END_TXN).times(1000).drop_reply()
        with pytest.raises(CommitOutcomeUnknown):
            tx.commit(timeout=2.5)
        producer.close(0)
        until(lambda: all(exchange.ended_ms is not None for exchange in stub.journal.requests(Api.END_TXN)), "no exchange is open")
        stub.faults.clear()
        with (
            TransactionalProducer(stub.settings, transactional_id="shop-1", client_id="successor") as successor,
            successor.transaction(timeout=PATIENCE_S) as next_one,
        ):
            next_one.send("orders", b"y")
        (told,) = [each for each in found(stub) if each["kind"] in ("unanswered commit", "lost reply")]
        assert told["title"] == "shop does not know whether transaction shop-1 is committed"
        assert told["rows"] == [exchange.number for exchange in stub.journal.requests(Api.END_TXN, client_id="shop")]


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
        assert one["title"] == "stuck read from offset 0 of orders-0 5 times"
        assert "or several consumers have that client id" in one["text"]


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


def test_the_newer_process_of_another_client_aborted() -> None:
    """A coordinator answers librdkafka's registration only after it has aborted what was open: the first question was the reason."""
    with BrokerStub() as stub:
        ids = {"bootstrap.servers": stub.bootstrap, "transactional.id": "t"}
        old = confluent_kafka.Producer({**ids, "client.id": "old"})
        old.init_transactions(PATIENCE_S)
        old.begin_transaction()
        old.produce("orders", b"v")
        assert old.flush(PATIENCE_S) == 0
        confluent_kafka.Producer({**ids, "client.id": "new"}).init_transactions(PATIENCE_S)
        (one,) = (each for each in found(stub) if each["kind"] == "aborted batch")
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


def test_an_error_after_the_append_is_no_word_about_the_log() -> None:
    """A rule that makes an error of the answer alone leaves the batch in the log, and the finding does not say otherwise."""
    for point, says in ((Point.BEFORE, True), (Point.AFTER_APPEND, False), (Point.REPLY, False)):
        with BrokerStub() as stub, Talker(stub) as talker:
            stub.create_topic("orders")
            stub.faults.on(Api.PRODUCE).at(point).error(ErrorCode.INVALID_RECORD)
            talker.produce("orders", batch(b"v"))
            (one,) = found(stub)
            assert ("is not in the log" in one["text"]) is says is (stub.records("orders", 0) == [])


def aborts(stub: BrokerStub) -> list[str]:
    """What is said of the aborted transactions, in the order of the log."""
    return [each["text"] for each in found(stub) if each["kind"] == "aborted batch"]


def test_who_aborted_a_transaction() -> None:
    """A coordinator's abort is not taken for one of the client that asks after it, nor for a later one of the same producer. A fenced
    client's own identity is not taken for another one's."""
    with BrokerStub(clock=VirtualClock()) as stub:
        settings = {**stub.settings, "transactional_id": "id", "client_id": "shop", "transaction_timeout_ms": 1000}
        with TransactionalProducer(settings) as producer:
            with pytest.raises(FencepostError), producer.transaction() as tx:
                tx.send("orders", b"late").result(PATIENCE_S)
                stub.advance(12_000)
                tx.send("orders", b"later").result(PATIENCE_S)
            with pytest.raises(ZeroDivisionError), producer.transaction() as tx:
                tx.send("orders", b"given up").result(PATIENCE_S)
                raise ZeroDivisionError
        first, second = aborts(stub)
        assert "No client asked for it: its coordinator did, after its timeout." in first
        assert "shop aborted it in exchange" in second
        (fenced,) = [each["text"] for each in found(stub) if each["kind"] == "fenced zombie"]
        assert " gave " not in fenced


def test_an_abort_that_the_journal_has_forgotten() -> None:
    """Where the request is no longer kept, the finding does not say that there was none."""
    with BrokerStub(journal=10) as stub, Talker(stub) as talker:
        with TransactionalProducer({**stub.settings, "transactional_id": "id"}) as producer:
            tx = producer.begin()
            tx.send("orders", b"v").result(PATIENCE_S)
            tx.abort()
        for _ in range(10):
            talker.fetch("orders")
        (said,) = aborts(stub)
    assert "No kept exchange asked for it" in said


def test_a_topic_that_was_made_anew_has_lost_nothing() -> None:
    """What another topic of the same name had is not looked for."""
    with BrokerStub() as stub, Talker(stub) as talker:
        for _ in range(2):
            stub.create_topic("orders")
            talker.produce("orders", batch(b"1"))
            stub.delete_topic("orders")
        stub.create_topic("orders")
        assert found(stub) == []


@pytest.mark.parametrize(
    ("lose", "config", "told"),
    [
        (lambda rule: rule.drop_reply(), {}, "got no reply to exchange"),
        (
            lambda rule: rule.drop_reply(),
            {"message.timestamp.type": "LogAppendTime"},
            "offset 1, and once more if the first request arrived",
        ),
        (lambda rule: rule.after_append().error(ErrorCode.REQUEST_TIMED_OUT), {}, "got REQUEST_TIMED_OUT as the reply to exchange"),
        (lambda rule: rule.drop(), {}, None),
    ],
    ids=["lost reply", "another time in the log", "error", "lost request"],
)
def test_a_batch_that_was_sent_twice(lose: Callable[[Rule], Fault], config: dict[str, str], told: str | None) -> None:
    """Of a producer that is not idempotent, as most clients are if they are not told otherwise: the log has it twice, and the finding says
    where. If the request was lost, it has it once, and there is nothing to say."""
    with jumping() as jump, BrokerStub(default_partitions=1) as stub:
        stub.create_topic("orders", config=config)
        lost = lose(stub.faults.on(Api.PRODUCE))
        with Producer(stub.settings, linger_ms=0, enable_idempotence=False, client_id="shop", request_timeout_ms=30_000) as producer:
            sent = producer.send("orders", b"v")
            lost.wait(1, 20)
            if "REQUEST_TIMED_OUT" not in (told or ""):
                jump(30_000, producer)
            sent.result(20)
        twice = [each for each in found(stub) if each["kind"] == "sent twice"]
        assert len(stub.records("orders", 0)) == (1 if told is None else 2)
    if told is None:
        assert twice == []
        return
    (finding,) = twice
    assert told in finding["text"]
    assert ("at offset 0 and at offset 1" in finding["text"]) is not bool(config)
    assert finding["title"] == f"orders-0 {'may have' if config else 'has'} a batch twice"
    assert len(finding["rows"]) == 2


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_a_batch_whose_client_has_gone(written: bool, idempotent: bool) -> None:
    """A test that fails because of an expired batch has closed its producer: its report says what became of the batch, without a pause, and
    with a virtual clock. While the client is there, it may send the batch again."""
    with jumping() as jump, BrokerStub(default_partitions=1, clock=VirtualClock()) as stub:
        stub.create_topic("orders")
        rule = stub.faults.on(Api.PRODUCE)
        lost = (rule.after_append() if written else rule.before()).forever().drop()
        settings = {**stub.settings, "request_timeout_ms": 20_000, "delivery_timeout_ms": 50_000, "client_id": "shop"}
        if not idempotent:
            settings |= {"enable_idempotence": False, "retries": 0}
        with Producer(settings, linger_ms=0) as producer:
            future = producer.send("orders", b"v")
            lost.wait(1, 20)
            assert "expired batch" not in seen_by(stub)
            for _ in range(3):
                jump(30_000, producer)
            with pytest.raises(DeliveryError):
                future.result(20)
        # By the stub's clock no time passes. Its loop has to hear that the connections are closed.
        told = until(
            lambda: seen_by(stub).splitlines()[0], "a finding", good=lambda line: line.startswith("expired batch: shop got no answer")
        )
    assert told.endswith("It is in the log, at offset 0, though the client does not know." if written else "It is not in the log.")


def test_a_batch_that_is_no_longer_shown() -> None:
    """A batch without an answer that is older than the batches that are shown is not said to be missing in the log."""
    clock = VirtualClock()
    with BrokerStub(clock=clock, journal=2000) as stub, Talker(stub, client_id="gone") as gone, Talker(stub) as talker:
        stub.create_topic("orders", config={"message.timestamp.type": "LogAppendTime"})
        reply = stub.faults.on(Api.PRODUCE).drop_reply()
        with pytest.raises(Silent):
            gone.produce("orders", batch(b"doubtful", pid=7001, epoch=0, sequence=0))
        assert reply.hits == 1
        said: dict[int, str] = {}
        for count in (0, BATCHES_MAX):
            for number in range(count):
                talker.produce("orders", batch(b"v", pid=8000 + number, epoch=0, sequence=0))
            stub.advance(3_000)
            (said[count],) = [each["text"] for each in found(stub) if each["kind"] == "expired batch"]
    assert "It is in the log, at offset 0" in said[0]
    assert "It is not among the newest batches of the log" in said[BATCHES_MAX]


def test_a_hanging_transaction_beside_an_open_one() -> None:
    """A transaction that its coordinator has open elsewhere does not end what hangs here."""
    with BrokerStub(clock=VirtualClock(), config={"transaction.partition.verification.enable": "false"}) as stub:
        stub.create_topic("orders")
        with TransactionalProducer({**stub.settings, "transactional_id": "id"}) as producer, Talker(stub) as talker:
            tx = producer.begin()
            tx.send("invoices", b"v").result(PATIENCE_S)
            (txn,) = stub.snapshot()["transactions"]
            late = batch(b"late", pid=txn["pid"], epoch=txn["epoch"], sequence=0, transactional=True)
            talker.ask(replace(produce_request("orders", late), transactional_id="id"), BEFORE_VERIFICATION)
            stub.advance(11_000)
            said = {each["topic"]: (each["kind"], each["text"]) for each in found(stub) if each["kind"].endswith("transaction")}
            tx.abort()
    assert said["orders"][0] == "hanging transaction"
    assert "No coordinator has it open" in said["orders"][1]
    assert said["invoices"][0] == "open transaction"
    assert "Its coordinator aborts it" in said["invoices"][1]


def test_a_title_leads_to_a_view() -> None:
    """Each finding has an exchange, a partition or a view of its own to open."""
    with BrokerStub() as stub, Talker(stub, client_id="old") as talker:
        stub.create_topic("orders")
        talker.produce("orders", batch(b"v", pid=5, epoch=3, sequence=0))
        talker.produce("orders", batch(b"v", pid=5, epoch=2, sequence=0))
        (one,) = found(stub)
    assert (one["kind"], one["rows"], one["tab"], one["topic"]) == ("fenced zombie", [2], "exchanges", "orders")
