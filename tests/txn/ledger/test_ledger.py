"""The ledger on the stub: entries of committed, aborted and open transactions, and what a topic needs to be a ledger."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import FencepostError
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.keyed_topic.errors import LedgerBusy, LedgerDamaged, LedgerUnavailable, LedgerUnusable
from fencepost.txn.ledger.batch_decision import Decision, decide
from fencepost.txn.ledger.entry import LedgerEntry, LedgerPartition
from fencepost.txn.ledger.errors import LedgerMissing
from fencepost.txn.ledger.ledger import TOPIC, Ledger, Opened, Standing
from tests.fencepost.cli.altered_responses import lying_relay, numbered_0
from tests.txn.ledger.takeover import WAIT_S, producer_of, stub, take_over

__all__ = ["stub"]


@pytest.fixture(autouse=True)
def unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubs give their topics the same ids, and a process is warned once."""
    monkeypatch.setattr("fencepost.txn.keyed_topic.topic.WARNED", set())


def ledger_of(stub: BrokerStub, topic: str = TOPIC, **settings: Any) -> Ledger:
    return Ledger(read_settings({"bootstrap_servers": stub.bootstrap, "retry_backoff_ms": 5, **settings}), topic)


def entry_of(sink: str, batch: int, job: str | None = None) -> LedgerEntry:
    written = (LedgerPartition("t", 0, 5, 7 * batch),)
    return LedgerEntry(
        sink=sink, query="q", batch=batch, fingerprint=f"f{batch}", rows=5, partitions=written, job=job, at_ms=1_700_000_000_000
    )


def neighbours(ledger: Ledger) -> tuple[str, str]:
    """Two sinks of one partition."""
    names = [f"sink-{number}" for number in range(20)]
    first = names[0]
    return first, next(name for name in names[1:] if ledger.partition_of(name) == ledger.partition_of(first))


def write(stub: BrokerStub, ledger: Ledger, *entries: LedgerEntry, commit: bool = True) -> None:
    """Each in a transaction of its own, all of them of one id, which is taken over in the end."""
    name = f"fencepost.{entries[0].sink}"
    with producer_of(stub, name) as producer:
        for entry in entries:
            tx = producer.begin(WAIT_S)
            key, value = ledger.record(entry)
            tx.send(ledger.topic, value, key=key, partition=ledger.partition_of(entry.key)).result(WAIT_S)
            tx.commit(WAIT_S) if commit else tx.abort(WAIT_S)
    take_over(stub, name)


def test_made_when_it_is_first_needed(stub: BrokerStub) -> None:
    """Reading makes the topic: compacted, with 8 partitions and bounded segments; then nothing is made again."""
    ledger = ledger_of(stub)
    assert ledger.list(WAIT_S) == []
    assert stub.journal.requests(Api.CREATE_TOPICS) == []
    assert ledger.read("s", WAIT_S) is None
    assert ledger.ensure(WAIT_S) == 8
    assert len(stub.journal.requests(Api.CREATE_TOPICS)) == 1
    topic = stub.cluster.topics.named(TOPIC)
    assert topic is not None
    assert {name: topic.config[name] for name in ("cleanup.policy", "segment.ms", "segment.bytes")} == {
        "cleanup.policy": "compact",
        "segment.ms": "14400000",
        "segment.bytes": "52428800",
    }


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, None), (2, 2, None), (3, 3, "2"), (4, 3, "2")])
def test_on_how_many_brokers(brokers: int, replicas: int, in_sync: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """On three where there are three, with two in sync, though the cluster's default is one; the log warns below, once."""
    with BrokerStub(brokers=brokers) as stub, caplog.at_level(logging.WARNING, "fencepost.ledger"):
        for _ in range(2):
            ledger_of(stub).ensure(WAIT_S)
        topic = stub.cluster.topics.named(TOPIC)
        assert topic is not None
        assert {len(each.replicas) for each in topic.partitions} == {replicas}
        assert topic.config.get("min.insync.replicas") == in_sync or in_sync is None
    expected = [] if replicas == 3 else [f"topic '{TOPIC}' has a partition on {replicas} broker"]
    assert [said[: len(expected[0])] for said in caplog.messages] == expected


def test_the_controller_makes_it() -> None:
    """Of several brokers it is the one that is asked, as others of older clusters refuse."""
    with BrokerStub(brokers=3) as stub:
        for number in range(8):
            ledger_of(stub, f"ledger-{number}").ensure(WAIT_S)
        assert [asked.node for asked in stub.journal.requests(Api.CREATE_TOPICS)] == [1] * 8


def test_the_first_broker_may_have_the_number_0() -> None:
    """Broker 0 leads as any other does. The request to create the topic goes to it while the controller is unknown."""
    with BrokerStub() as stub, lying_relay(int(stub.bootstrap.rpartition(":")[2]), numbered_0) as address:
        ledger = Ledger(read_settings({"bootstrap_servers": address, "retry_backoff_ms": 5}))
        assert ledger.read("a", WAIT_S) is None
        write(stub, ledger, entry_of("a", 4))
        assert ledger.read("a", WAIT_S) == entry_of("a", 4)
        assert ledger.reset("a", WAIT_S) is not None
        assert ledger.read("a", WAIT_S) is None


@pytest.mark.parametrize("by", ["us", "somebody else"])
def test_the_log_says_which_process_created_the_topic(stub: BrokerStub, by: str, caplog: pytest.LogCaptureFixture) -> None:
    """The log says that the topic has been created where this process did it, and not where another one was quicker."""
    if by != "us":
        stub.faults.on(Api.CREATE_TOPICS).after_append().error(ErrorCode.TOPIC_ALREADY_EXISTS)
    with caplog.at_level(logging.INFO, "fencepost.ledger"):
        assert ledger_of(stub).ensure(WAIT_S) == 8
    assert any("topic '__fencepost_ledger' of the ledger has been created" in said for said in caplog.messages) == (by == "us")


def test_too_few_in_sync(caplog: pytest.LogCaptureFixture) -> None:
    """A topic that is there is not changed, and the log says what to set."""
    with BrokerStub(brokers=3) as stub, caplog.at_level(logging.WARNING, "fencepost.ledger"):
        stub.create_topic(TOPIC, partitions=2, replication_factor=3, config={"cleanup.policy": "compact", "min.insync.replicas": "1"})
        assert ledger_of(stub).ensure(WAIT_S) == 2
    (said,) = caplog.messages
    assert said.startswith(f"topic '{TOPIC}' has min.insync.replicas=1: ")
    assert said.endswith("Set min.insync.replicas=2 for it")


def test_the_newest_committed(stub: BrokerStub) -> None:
    """Of many entries the newest one whose transaction was committed; sinks and their jobs do not mix."""
    ledger = ledger_of(stub)
    write(stub, ledger, *(entry_of("a", batch) for batch in range(5)))
    write(stub, ledger, entry_of("a", 5), commit=False)
    write(stub, ledger, entry_of("a", 3, job="daily"))
    write(stub, ledger, entry_of("b", 0))
    assert ledger.read("a", WAIT_S) == entry_of("a", 4)
    assert ledger.read("a#daily", WAIT_S) == entry_of("a", 3, job="daily")
    assert ledger.read("c", WAIT_S) is None
    assert ledger.list(WAIT_S) == [entry_of("a", 4), entry_of("a", 3, job="daily"), entry_of("b", 0)]


PASSING = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


@pytest.mark.parametrize("api", [Api.METADATA, Api.LIST_OFFSETS, Api.FETCH])
@pytest.mark.parametrize("code", PASSING)
def test_a_broker_that_has_not_heard_of_it_yet_is_asked_again(stub: BrokerStub, api: Api, code: ErrorCode) -> None:
    """A new topic is not known to every broker at once. The ledger asks again and names no permission; the entry is found."""
    ledger = ledger_of(stub)
    write(stub, ledger, entry_of("a", 1))
    refused = stub.faults.on(api).times(2).error(code)
    assert ledger_of(stub).read("a", WAIT_S) == entry_of("a", 1)
    assert refused.hits == 2


def test_another_sinks_open_transaction(stub: BrokerStub) -> None:
    """It stands before everything else in the same partition, and holds back the last stable offset: nothing waits for it, nothing
    is hidden by it, and it does not count."""
    ledger = ledger_of(stub)
    mine, other = neighbours(ledger)
    write(stub, ledger, entry_of(other, 1))
    with producer_of(stub, "other") as producer:
        tx = producer.begin(WAIT_S)
        key, value = ledger.record(entry_of(other, 2))
        tx.send(TOPIC, value, key=key, partition=ledger.partition_of(other)).result(WAIT_S)
        write(stub, ledger, entry_of(mine, 7), entry_of(mine, 8))
        assert ledger.read(mine, WAIT_S) == entry_of(mine, 8)
        assert {key: found.is_open for key, found in ledger.look(WAIT_S).items()} == {mine: False, other: True}
        tx.commit(WAIT_S)
    take_over(stub, "other")
    assert ledger.read(other, WAIT_S) == entry_of(other, 2)


def test_a_transaction_of_its_own_that_is_open(stub: BrokerStub) -> None:
    """The transaction hangs or was not taken over. It is unknown whether its batch is in the ledger, and the error says so, with the place
    and a way out. An older open transaction before a committed entry does not matter."""
    ledger = ledger_of(stub)
    write(stub, ledger, entry_of("a", 1))
    place = ledger.partition_of("a")
    with producer_of(stub, "other") as producer:
        tx = producer.begin(WAIT_S)
        offset = tx.send(TOPIC, entry_of("a", 2).dumps(), key=b"a", partition=place).result(WAIT_S).offset
        with pytest.raises(LedgerBusy, match=rf"'a'.* offset {offset} of {TOPIC}-{place}.* find-hanging --topic {TOPIC}`"):
            ledger.read("a", WAIT_S)
        write(stub, ledger, entry_of("a", 3))
        assert ledger.read("a", WAIT_S) == entry_of("a", 3)
        tx.abort(WAIT_S)


def test_a_topic_that_was_deleted(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that had the topic raises, and does not create it again. A new ledger creates it, empty, and a query with written batches
    gets an error instead of writing on."""
    monkeypatch.setattr("fencepost.txn.keyed_topic.topic.GONE_S", 0.2)
    ledger = ledger_of(stub)
    write(stub, ledger, entry_of("a", 4))
    stub.delete_topic(TOPIC)
    for ask in (ledger.read, ledger.standing, lambda sink, limit_s: ledger.ensure(limit_s)):
        with pytest.raises(LedgerUnusable, match=f"'{TOPIC}' was deleted while it was in use: .* on_missing_ledger"):
            ask("a", WAIT_S)
    entry = ledger_of(stub).read("a", WAIT_S)
    with pytest.raises(LedgerUnusable, match=f"'{TOPIC}' is not the one .* with cleanup.policy=compact: what it had"):
        ledger.read("a", WAIT_S)
    with pytest.raises(LedgerMissing, match=r"batch 5 .* the ledger has no entry"):
        decide(entry, "a", query="q", batch=5, fingerprint="f5")


def test_a_broker_that_is_slow_to_tell_a_known_topic(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an answer without the topic says that it is gone. For an answer at all the ledger waits as long as the caller does."""
    monkeypatch.setattr("fencepost.txn.keyed_topic.topic.GONE_S", 0.2)
    ledger = ledger_of(stub)
    write(stub, ledger, entry_of("a", 4))
    slow = stub.faults.on(Api.METADATA).times(1).delay(1_000)
    assert ledger.read("a", WAIT_S) == entry_of("a", 4)
    assert slow.hits == 1


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_deletes(stub: BrokerStub, policy: str) -> None:
    """A ledger topic that deletes records would forget entries. The ledger refuses it and names the setting."""
    stub.create_topic(TOPIC, partitions=1, config={"cleanup.policy": policy})
    with pytest.raises(LedgerUnusable, match=f"'{TOPIC}' has cleanup.policy={policy}, which deletes .* Set cleanup.policy=compact"):
        ledger_of(stub).read("a", WAIT_S)


def test_more_partitions(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """Where the topic has been given more, an entry is found in its old place, which the log says, and a newer one in its new place
    counts."""
    stub.create_topic("small", partitions=1, config={"cleanup.policy": "compact"})
    ledger = ledger_of(stub, "small")
    write(stub, ledger, entry_of("a", 4), entry_of("b", 1))
    stub.add_partitions("small", 8)
    assert ledger.ensure(WAIT_S) == 8
    assert ledger.partition_of("a") > 0
    found = ledger.read("a", WAIT_S)
    assert found == entry_of("a", 4)
    moved = f"the ledger has sink 'a' in partition 0, but its partition is {ledger.partition_of('a')} now"
    assert [moved in said for said in caplog.messages].count(True) == 1
    caplog.clear()
    assert decide(found, "a", query="q", batch=4, fingerprint="f4") is Decision.SKIP
    write(stub, ledger, entry_of("a", 5))
    assert ledger.read("a", WAIT_S) == entry_of("a", 5)
    assert not [said for said in caplog.messages if moved in said]
    assert ledger.list(WAIT_S) == [entry_of("a", 5), entry_of("b", 1)]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"{", "no entry of a ledger: the text is not JSON"),
        (b'{"format":3}', "an entry of a ledger of format 3; this version of fencepost"),
        (entry_of("b", 1).dumps(), "its value is of 'b'"),
    ],
)
def test_an_entry_that_cannot_be_read(stub: BrokerStub, value: bytes, words: str) -> None:
    """The error names sink and offset. No older entry is used instead, and other sinks are read."""
    ledger = ledger_of(stub)
    write(stub, ledger, entry_of("a", 1))
    write(stub, ledger, entry_of("b", 2))
    place = ledger.partition_of("a")
    with producer_of(stub, "x") as producer, producer.transaction(WAIT_S) as tx:
        offset = tx.send(TOPIC, value, key=b"a", partition=place).result(WAIT_S).offset
    take_over(stub, "x")
    with pytest.raises(LedgerDamaged, match=re.escape(f"sink 'a' at offset {offset} of {TOPIC}-{place} cannot be used: {words}")):
        ledger.read("a", WAIT_S)
    assert ledger.read("b", WAIT_S) == entry_of("b", 2)


def fetched(stub: BrokerStub) -> list[int]:
    """From which offsets the ledger was read since the last call."""
    requests: list[Any] = [exchange.request for exchange in stub.journal.requests(Api.FETCH)]
    stub.journal.clear()
    return [each.fetch_offset for request in requests for topic in request.topics for each in topic.partitions]


def test_what_was_read_is_not_read_again(stub: BrokerStub) -> None:
    """The next reading of the same sink, by any object of the process, continues at the last position, and finds a transaction committed
    that was open then. Other keys are read for themselves."""
    ledger = ledger_of(stub)
    write(stub, ledger, *(entry_of("a", batch) for batch in range(3)))
    end = stub.end_offset(TOPIC, ledger.partition_of("a"))
    assert ledger.read("a", WAIT_S) == entry_of("a", 2)
    with producer_of(stub, "other") as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, entry_of("a", 3).dumps(), key=b"a", partition=ledger.partition_of("a")).result(WAIT_S)
        fetched(stub)
        assert ledger_of(stub).standing("a", WAIT_S) == Standing(
            entry_of("a", 2), (Opened(entry_of("a", 3), ledger.partition_of("a"), end),)
        )
        assert fetched(stub) == [end - 1]
        tx.commit(WAIT_S)
    take_over(stub, "other")
    assert ledger_of(stub).read("a", WAIT_S) == entry_of("a", 3)
    assert fetched(stub) == [end]
    assert ledger_of(stub).read("a", WAIT_S) == entry_of("a", 3)
    assert fetched(stub) == [end + 1]
    mine, other = neighbours(ledger)
    for sink in (mine, other, mine):
        assert ledger.read(sink, WAIT_S) is None


@pytest.mark.parametrize("event", ["leader", "anew", "another cluster"])
def test_another_log_is_read_from_its_beginning(stub: BrokerStub, event: str) -> None:
    """After an election something may have been cut off and written anew; a topic that was made anew, and one of the same name and id in
    another cluster, are not what was read before."""
    stub.create_topic("small", partitions=1, replication_factor=2, config={"cleanup.policy": "compact"})
    ledger = ledger_of(stub, "small")
    write(stub, ledger, entry_of("a", 1), entry_of("a", 2))
    assert ledger.read("a", WAIT_S) == entry_of("a", 2)
    if event == "leader":
        stub.move_leader("small", 0)
    elif event == "anew":
        stub.delete_topic("small")
        stub.create_topic("small", partitions=1, config={"cleanup.policy": "compact"})
        ledger = ledger_of(stub, "small")
        write(stub, ledger, *(entry_of("a", batch) for batch in (7, 8, 9)))
    else:
        with BrokerStub(brokers=2) as other:
            other.create_topic("small", partitions=1, replication_factor=2, config={"cleanup.policy": "compact"})
            assert ledger_of(other, "small").read("a", WAIT_S) is None
            write(other, ledger_of(other, "small"), entry_of("a", 4), entry_of("a", 5))
            assert ledger_of(other, "small").read("a", WAIT_S) == entry_of("a", 5)
    fetched(stub)
    assert ledger.read("a", WAIT_S) == entry_of("a", 9 if event == "anew" else 2)
    assert 0 in fetched(stub)


def plain(stub: BrokerStub, ledger: Ledger, key: str, value: bytes | None) -> int:
    """A record outside of any transaction, which every client with WRITE on the topic can write. Returns its offset."""
    with Producer(bootstrap_servers=stub.bootstrap, linger_ms=0) as producer:
        return producer.send(ledger.topic, value, key=key.encode(), partition=ledger.partition_of(key)).result(WAIT_S).offset


@pytest.mark.parametrize("value", [entry_of("a", 9).dumps(), b"rubbish", None], ids=["entry", "rubbish", "tombstone"])
def test_a_record_of_no_transaction(stub: BrokerStub, value: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    """Such a record neither skips a batch nor hides a written one: the newest committed entry counts, and the log warns. If there is no
    other record, compaction may have removed an entry because of it, so the ledger raises."""
    ledger = ledger_of(stub)
    write(stub, ledger, entry_of("a", 4))
    offset = plain(stub, ledger, "a", value)
    with caplog.at_level(logging.WARNING, "fencepost.ledger"):
        assert ledger.read("a", WAIT_S) == entry_of("a", 4)
    (said,) = (each for each in caplog.messages if "has a partition on" not in each)
    assert f"sink 'a' at offset {offset} of {TOPIC}-{ledger.partition_of('a')} that belongs to no transaction" in said
    write(stub, ledger, entry_of("a", 5))
    assert ledger.read("a", WAIT_S) == entry_of("a", 5)
    lone = plain(stub, ledger, "c", value)
    words = rf"all that the ledger has of sink 'c', at offset {lone} of .* outside of any transaction.* `fencepost ledger reset c --yes`"
    for look in (ledger.read, ledger.standing):
        with pytest.raises(LedgerDamaged, match=words):
            look("c", WAIT_S)
    assert ledger.reset("c", WAIT_S) is not None
    assert ledger.read("c", WAIT_S) is None


def test_forgotten_under_the_sinks_own_id(stub: BrokerStub) -> None:
    """A transaction of the id that the entry names, or of the given id, commits the tombstone. The former owner of the id cannot write
    after it. Lost responses to any step leave exactly one tombstone."""
    ledger = ledger_of(stub, request_timeout_ms=500)
    named = structs.replace(entry_of("a", 4), transactional_id="mine.a")
    write(stub, ledger, named)
    write(stub, ledger, entry_of("b", 1))
    with producer_of(stub, "mine.a") as producer, producer_of(stub, "other.b") as other:
        producer.init(WAIT_S)
        other.init(WAIT_S)
        for api in (Api.INIT_PRODUCER_ID, Api.PRODUCE, Api.END_TXN):
            stub.faults.on(api).after_append().drop_reply().times(1)
        assert ledger.reset("a", WAIT_S) is not None
        assert ledger.reset("b", WAIT_S, transactional_id="other.b") is not None
        for stale in (producer, other):
            with pytest.raises(FencepostError), stale.transaction(WAIT_S) as tx:
                tx.send(TOPIC, b"late", key=b"a", partition=ledger.partition_of("a")).result(WAIT_S)
    assert (ledger.read("a", WAIT_S), ledger.read("b", WAIT_S)) == (None, None)
    assert [record.value for record in stub.records(TOPIC, ledger.partition_of("a")) if record.key == b"a"].count(None) == 1


def test_leaders_that_move_and_answers_that_are_lost(stub: BrokerStub) -> None:
    """What disturbs the reading begins it anew."""
    ledger = ledger_of(stub, request_timeout_ms=500)
    write(stub, ledger, *(entry_of("a", batch) for batch in range(3)))
    stub.faults.on(Api.FETCH).drop_reply().times(1)
    stub.faults.on(Api.LIST_OFFSETS).error(ErrorCode.NOT_LEADER_OR_FOLLOWER).times(1)
    stub.faults.on(Api.DESCRIBE_CONFIGS).error(ErrorCode.REQUEST_TIMED_OUT).times(1)
    assert ledger.read("a", WAIT_S) == entry_of("a", 2)


def test_a_call_without_an_answer_ends_at_its_deadline(stub: BrokerStub) -> None:
    """The call ends at its deadline, with an error that may be tried again."""
    ledger = ledger_of(stub)
    ledger.ensure(WAIT_S)
    stub.faults.on(Api.LIST_OFFSETS).error(ErrorCode.NOT_LEADER_OR_FOLLOWER).forever()
    with pytest.raises(LedgerUnavailable, match=rf"topic '{TOPIC}': no answer within 0.3 s: "):
        ledger.read("a", 0.3)


@pytest.fixture
def guarded() -> Iterator[BrokerStub]:
    """A stub where only root may do everything, and the anonymous user nothing but what a test grants."""
    with BrokerStub(acls=[]) as stub:
        yield stub


def test_what_may_not_be_looked_at(guarded: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """Without DESCRIBE_CONFIGS the ledger is taken for what it should be, and the log warns."""
    guarded.create_topic(TOPIC, partitions=2, config={"cleanup.policy": "compact"})
    guarded.allow("ANONYMOUS", "READ", topic=TOPIC)
    with caplog.at_level(logging.WARNING, "fencepost.ledger"):
        assert ledger_of(guarded).read("a", WAIT_S) is None
    (said,) = (each for each in caplog.messages if "has a partition on 1 broker" not in each)
    assert "TOPIC_AUTHORIZATION_FAILED" in said
    assert "it must have cleanup.policy=compact" in said


def test_what_may_not_be_made_or_read(guarded: BrokerStub) -> None:
    """The error names the missing permission or the task of an administrator, at once, because waiting does not help."""
    with pytest.raises(LedgerUnusable, match=f"'{TOPIC}': TOPIC_AUTHORIZATION_FAILED: the ledger needs DESCRIBE, READ and WRITE"):
        ledger_of(guarded).read("a", WAIT_S)
    guarded.allow("ANONYMOUS", "DESCRIBE", topic=TOPIC)
    with pytest.raises(
        LedgerUnusable, match=r"cannot be created: .*TOPIC_AUTHORIZATION_FAILED.* with cleanup.policy=compact .*grant CREATE"
    ):
        ledger_of(guarded).read("a", WAIT_S)
    guarded.create_topic(TOPIC, partitions=1, config={"cleanup.policy": "compact"})
    guarded.allow("ANONYMOUS", "WRITE", topic=TOPIC)
    with Producer(bootstrap_servers=guarded.bootstrap, linger_ms=0) as producer:
        producer.send(TOPIC, b"{}", key=b"a").result(WAIT_S)
    with pytest.raises(
        LedgerUnusable, match=r"FETCH was refused with TOPIC_AUTHORIZATION_FAILED: the ledger needs DESCRIBE, READ and WRITE"
    ):
        ledger_of(guarded).read("a", WAIT_S)
