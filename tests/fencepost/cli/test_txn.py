"""`fencepost txn`: what it shows of transactions, how it ends prepared ones, and what it says and exits with when it cannot."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.cluster.topics import STATE_TOPIC
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.recovery.token import CoordinatorHint, PreparedTransaction
from tests.fencepost.cli.shell import Ran, invoke, run
from tests.reading import read_values

TOPIC = "t"
WAIT_S = 30.0


def txn(*arguments: object, given: str | None = None) -> Ran:
    return invoke("txn", *arguments, given=given)


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=2, clock=VirtualClock()) as stub:
        stub.create_topic(TOPIC, partitions=2)
        yield stub


def prepare(stub: BrokerStub, name: str = "a", **settings: Any) -> PreparedTransaction:
    with (
        TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=name, linger_ms=0, **settings) as producer,
        producer.transaction(WAIT_S) as tx,
    ):
        tx.send(TOPIC, b"one", partition=0)
        return tx.prepare(WAIT_S)


def forget(stub: BrokerStub, name: str) -> None:
    """Have the coordinator lose the id, as no coordinator should."""
    transactions = stub.services.transactions
    for node in stub.cluster.brokers:
        for shard in transactions.shards_of(node):
            stub._call(lambda shard=shard: shard.ids.pop(name, None))  # type: ignore[misc]  # it takes what it is bound to


def test_ids_and_their_states(stub: BrokerStub) -> None:
    """From every coordinator, sorted; filters choose by state, by age and by name."""
    for name in ("b", "a", "c"):
        prepare(stub, name)
    at = ("--bootstrap", stub.bootstrap, "--json")
    stub.advance(10_000)
    TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="new", linger_ms=0).close()
    found = txn("list", *at).objects
    assert [(each["transactional_id"], each["state"]) for each in found] == [(name, "Ongoing") for name in "abc"]
    assert {each["coordinator"] for each in found} <= {1, 2}
    assert [each["transactional_id"] for each in txn("list", "--pattern", "[ac]", *at).objects] == ["a", "c"]
    assert txn("list", "--longer-than", 60, *at).objects == []
    assert len(txn("list", "--longer-than", 5, "--state", "ongoing", "--state", "Empty", *at).objects) == 3
    unknown = txn("list", "--state", "Asleep", "--state", "ongoin", "--bootstrap", stub.bootstrap)
    words = "no state of a transaction: Asleep, ongoin (did you mean Ongoing?); txn list --help names them"
    assert (unknown.code, unknown.err) == (2, f"fencepost txn list: {words}\n")
    table = txn("list", "--bootstrap", stub.bootstrap).out
    assert "transactional id" in table
    assert "Ongoing" in table


def test_an_id_described(stub: BrokerStub) -> None:
    """Identity, state, times and partitions. An unknown id is exit code 1."""
    token = prepare(stub)
    ran = txn("describe", "a", "--bootstrap", stub.bootstrap, "--json")
    (shown,) = ran.objects
    assert (shown["producer_id"], shown["epoch"], shown["state"], shown["partitions"]) == (*token.identity, "Ongoing", ["t-0"])
    assert "a" in txn("describe", "a", "--bootstrap", stub.bootstrap).out
    unknown = txn("describe", "b", "--bootstrap", stub.bootstrap)
    assert (unknown.code, unknown.err) == (1, "fencepost txn describe: no coordinator knows transactional id 'b'\n")


def test_every_field_of_a_description_can_be_read(stub: BrokerStub) -> None:
    """Each has a line of its own, whole where the output is piped, and continued on the next line of a narrow terminal."""
    name = "a-transactional-id-that-is-longer-than-a-narrow-terminal"
    prepare(stub, name)
    fields = ["transactional_id", "coordinator", "producer_id", "epoch", "state", "timeout_ms", "started", "open_s", "partitions"]
    piped = run("txn", "describe", name, "--bootstrap", stub.bootstrap, COLUMNS="20").stdout.splitlines()
    assert [line.split()[0] for line in piped if line.split() and line.split()[0] in fields] == fields
    assert any(line.split() == ["transactional_id", name] for line in piped)
    coloured = run("txn", "describe", name, "--bootstrap", stub.bootstrap, COLUMNS="40", FORCE_COLOR="1", TERM="xterm").stdout
    narrow = re.sub(r"\x1b\[\d+m", "", coloured)
    assert max(map(len, narrow.splitlines())) <= 40
    assert "…" not in narrow
    assert name in "".join(line[len("transactional_id") :].strip() for line in narrow.splitlines())


def test_a_token_in_each_of_its_forms(stub: BrokerStub, tmp_path: Path) -> None:
    """As an argument, from a file and from standard input; committed once, and already after that, with the coordinator that the token
    names where no address is given."""
    token = prepare(stub)
    (tmp_path / "token").write_text(f"{token}\n")
    opened = txn("status", token, "--json")
    assert (opened.code, opened.objects[0]["outcome"]) == (0, "OPEN")
    first = txn("commit", f"@{tmp_path / 'token'}")
    assert (first.code, first.out) == (0, "a: committed: the coordinator has committed it now\n")
    (again,) = txn("commit", "-", "--bootstrap", stub.bootstrap, "--json", given=str(token)).objects
    assert (again["outcome"], again["already"], again["markers"][0]["offset"]) == ("COMMITTED", True, 1)
    late = txn("abort", token)
    assert (late.code, late.out.split(":")[:2]) == (1, ["a", " committed"])
    assert txn("status", token).out.startswith("a: committed: t-0 has its commit marker at offset 1")


def test_a_forged_token_learns_no_password(stub: BrokerStub) -> None:
    """Without an address nothing that would log in goes to where the token points: exit code 2, and what is to be given."""
    token = prepare(stub)
    with socket.create_server(("127.0.0.1", 0)) as thief:
        thief.setblocking(False)
        forged = replace(token, coordinator=CoordinatorHint(1, *thief.getsockname()))
        secret = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=alice", "sasl.password=secret")
        for command in ("commit", "abort", "status"):
            ran = txn(command, forged, *(word for setting in secret for word in ("--config", setting)), "--timeout", 1)
            assert ran.code == 2
            assert "(--bootstrap) is missing" in ran.err
        with pytest.raises(BlockingIOError):
            thief.accept()


def test_an_abort_and_a_commit_that_comes_too_late(stub: BrokerStub) -> None:
    """Exit code 1: the outcome is the other one."""
    token = prepare(stub)
    assert txn("abort", token).code == 0
    late = txn("commit", token, "--json")
    assert (late.code, late.objects[0]["outcome"]) == (1, "ABORTED")


def test_an_outcome_that_cannot_be_known(stub: BrokerStub) -> None:
    """Exit code 3, and why: the topic is gone, and the id is in other hands."""
    token = prepare(stub)
    txn("commit", token)
    prepare(stub)
    stub.delete_topic(TOPIC)
    for command in ("status", "commit", "abort"):
        ran = txn(command, token)
        assert (ran.code, ran.out.split(":")[1]) == (3, " unknown")
        assert "no such partition" in ran.out


def test_a_commit_that_could_not_be_asked_for(stub: BrokerStub) -> None:
    """Nothing was done, which is exit code 2."""
    token = prepare(stub)
    nowhere = txn("commit", token, "--bootstrap", "127.0.0.1:1", "--timeout", 0.3)
    assert nowhere.code == 2
    assert "nothing was asked of the coordinator" in nowhere.err
    assert stub.journal.requests(Api.END_TXN) == []


def test_what_is_no_token() -> None:
    """One line, and exit code 2."""
    for given, words in (
        ("{}", "a JSON object with a field"),
        ("@/nowhere/token", "No such file"),
        ('{"format":9}', "a token of format 9"),
    ):
        ran = txn("commit", given)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
        assert len(ran.err.splitlines()) == 1


def test_a_file_and_an_id_are_no_tokens(tmp_path: Path) -> None:
    """A file's name without @, and a transactional id as `txn list` shows it, lead to what is meant."""
    file = tmp_path / "token.json"
    file.write_text("{}")
    assert f"for a file write @{file}" in txn("status", str(file)).err
    assert "'orders-1' is no token. A token is the text that prepare() returned" in txn("commit", "orders-1").err


def test_an_empty_transaction_needs_no_broker() -> None:
    """There is nothing to be ended, wherever it is asked."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        token = producer.begin(WAIT_S).prepare(WAIT_S)
    ran = txn("commit", token)
    assert (ran.code, ran.out) == (0, "a: nothing written: the transaction wrote nothing, so there is nothing to end\n")


def test_a_transaction_that_hangs(stub: BrokerStub) -> None:
    """Its coordinator does not know it: found where it is old enough, and aborted by its place; then readers go on."""
    prepare(stub)
    at = ("--bootstrap", stub.bootstrap)
    place = ("--topic", TOPIC, "--partition", 0, "--start-offset", 0)
    assert txn("find-hanging", "--max-transaction-timeout", 0, *at) == (0, "", "none\n")
    kept = txn("abort-hanging", *place, *at)
    assert kept.code == 2
    assert "does not hang: the coordinator of transactional id 'a' will end it" in kept.err
    forget(stub, "a")
    stub.advance(60_000)
    young = "not looked at: 1 open transaction with a record in the last 15 minutes; a smaller --max-transaction-timeout includes more\n"
    assert txn("find-hanging", *at) == (0, "", f"none\n{young}")
    command = "fencepost txn abort-hanging --topic t --partition 0 --start-offset 0"
    assert txn("find-hanging", "--max-transaction-timeout", 0, *at).err == f"to end it: {command}\n"
    ran = txn("find-hanging", "--max-transaction-timeout", 0, "--json", *at)
    assert ran.code == 1
    (found,) = ran.objects
    assert (found["topic"], found["partition"], found["start_offset"], found["producer_id"]) == (TOPIC, 0, 0, 0)
    assert txn("find-hanging", "--max-transaction-timeout", 0, "--broker-id", 3 - stub.leader(TOPIC, 0), *at).code == 0
    done = txn("abort-hanging", *place, *at)
    assert (done.code, done.out) == (0, "t-0: the transaction of producer id 0, epoch 0, from offset 0 on, is aborted\n")
    assert txn("find-hanging", "--max-transaction-timeout", 0, *at).code == 0
    assert stub.end_offset(TOPIC, 0) == 2
    gone = txn("abort-hanging", *place, *at)
    assert (gone.code, gone.err) == (2, "fencepost txn abort-hanging: no transaction begins at 0 is open in t-0\n")


def ended_without_marker(stub: BrokerStub, end: Callable[[], object]) -> int:
    """End the transaction of "a" while one partition has no leader. Returns this partition, which gets no marker."""
    partition = next(each for each in range(3) if stub.leader(TOPIC, each) != stub.services.transactions.leader_of("a", 1))
    leader = stub.leader(TOPIC, partition)
    stub.stop_broker(leader)
    end()
    stub.start_broker(leader)
    return partition


def test_a_commit_that_did_not_reach_a_partition() -> None:
    """The partition had no leader then, so Kafka has no marker there: abort-hanging would take what was committed from readers, and
    refuses; commit-hanging gives it to them."""
    with BrokerStub(brokers=3) as stub:
        stub.create_topic(TOPIC, partitions=3, replication_factor=1)
        with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", linger_ms=0) as producer:
            tx = producer.begin(WAIT_S)
            for partition in range(3):
                tx.send(TOPIC, b"row", partition=partition).result(WAIT_S)
            gone = ended_without_marker(stub, lambda: tx.commit(WAIT_S))
        at = ("--bootstrap", stub.bootstrap)
        place = ("--topic", TOPIC, "--partition", gone, "--start-offset", 0)
        ran = txn("find-hanging", "--max-transaction-timeout", 0, "--json", *at)
        assert [(found["partition"], found["outcome"]) for found in ran.objects] == [(gone, "COMMITTED")]
        command = f"fencepost txn commit-hanging --topic {TOPIC} --partition {gone} --start-offset 0"
        assert txn("find-hanging", "--max-transaction-timeout", 0, *at).err == f"to end it: {command}\n"
        unread = stub.faults.on(Api.FETCH).where(topic=STATE_TOPIC).error(ErrorCode.TOPIC_AUTHORIZATION_FAILED).forever()
        assert txn("find-hanging", "--max-transaction-timeout", 0, "--json", *at).objects == [{**ran.objects[0], "outcome": None}]
        unread.remove()
        refused = txn("abort-hanging", *place, *at)
        assert refused.code == 2
        assert f"the coordinator of transactional id 'a' committed the transaction at t-{gone}:0" in refused.err
        assert read_values(stub.bootstrap, TOPIC, [gone]) == []
        done = txn("commit-hanging", *place, *at)
        assert (done.code, done.out) == (0, f"t-{gone}: the transaction of producer id 0, epoch 0, from offset 0 on, is committed\n")
        assert read_values(stub.bootstrap, TOPIC, range(3)) == [b"row"] * 3
        again = txn("commit-hanging", *place, *at)
        assert (again.code, again.err) == (2, f"fencepost txn commit-hanging: no transaction begins at 0 is open in t-{gone}\n")


def test_an_abort_that_did_not_reach_a_partition() -> None:
    """With transaction version 1 the next epoch is the next producer's, and its commit says nothing about what was aborted before."""
    with BrokerStub(brokers=3, transaction_version=1) as stub:
        stub.create_topic(TOPIC, partitions=3, replication_factor=1)
        settings = {"bootstrap_servers": stub.bootstrap, "transactional_id": "a", "linger_ms": 0}
        with TransactionalProducer(settings) as producer:
            tx = producer.begin(WAIT_S)
            for partition in range(3):
                tx.send(TOPIC, b"aborted", partition=partition).result(WAIT_S)
            gone = ended_without_marker(stub, lambda: tx.abort(WAIT_S))
        with TransactionalProducer(settings) as producer, producer.transaction(WAIT_S) as tx:
            tx.send(TOPIC, b"row", partition=(gone + 1) % 3)
        at = ("--bootstrap", stub.bootstrap)
        place = ("--topic", TOPIC, "--partition", gone, "--start-offset", 0)
        ran = txn("find-hanging", "--max-transaction-timeout", 0, "--json", *at)
        assert [(found["partition"], found["outcome"]) for found in ran.objects] == [(gone, None)]
        refused = txn("commit-hanging", *place, *at)
        assert refused.code == 2
        assert "no coordinator confirms that the transaction" in refused.err
        assert txn("abort-hanging", *place, *at).code == 0
        assert read_values(stub.bootstrap, TOPIC, range(3)) == [b"row"]


def test_an_abort_of_an_older_client_that_did_not_reach_a_partition() -> None:
    """With transaction version 2, too, an end brings the next epoch only to clients that know of it. librdkafka's keep theirs, and so does
    what was ended before the cluster's upgrade: the next epoch is the next producer's then, as with version 1."""
    with BrokerStub(brokers=3) as stub:
        stub.create_topic(TOPIC, partitions=3, replication_factor=1)
        settings = {"bootstrap.servers": stub.bootstrap, "transactional.id": "a", "linger.ms": 0}
        older = Producer(settings)
        older.init_transactions(WAIT_S)
        older.begin_transaction()
        for partition in range(3):
            older.produce(TOPIC, b"aborted", partition=partition)
        older.flush(WAIT_S)
        gone = ended_without_marker(stub, lambda: older.abort_transaction(WAIT_S))
        newer = Producer(settings)
        newer.init_transactions(WAIT_S)
        newer.begin_transaction()
        newer.produce(TOPIC, b"row", partition=(gone + 1) % 3)
        newer.commit_transaction(WAIT_S)
        at = ("--bootstrap", stub.bootstrap)
        ran = txn("find-hanging", "--max-transaction-timeout", 0, "--json", *at)
        assert [(found["partition"], found["outcome"]) for found in ran.objects] == [(gone, None)]
        assert txn("commit-hanging", "--topic", TOPIC, "--partition", gone, "--start-offset", 0, *at).code == 2
        assert txn("abort-hanging", "--topic", TOPIC, "--partition", gone, "--start-offset", 0, *at).code == 0
        assert read_values(stub.bootstrap, TOPIC, range(3)) == [b"row"]


def test_an_open_or_forgotten_transaction_is_not_called_committed(stub: BrokerStub) -> None:
    """Neither an open transaction nor one that its coordinator has forgotten is called committed."""
    prepare(stub)
    place = ("--topic", TOPIC, "--partition", 0, "--start-offset", 0, "--bootstrap", stub.bootstrap)
    for _ in range(2):
        ran = txn("commit-hanging", *place)
        assert (ran.code, ran.err) == (
            2,
            "fencepost txn commit-hanging: no coordinator confirms that the transaction at t-0:0 was committed\n",
        )
        forget(stub, "a")
    assert stub.end_offset(TOPIC, 0) == 1


def test_a_transaction_that_hangs_by_its_identity(stub: BrokerStub) -> None:
    """As Kafka's tool takes it for older brokers; and by force what its coordinator still has."""
    prepare(stub)
    named = ("--topic", TOPIC, "--partition", 0, "--producer-id", 0, "--producer-epoch", 0, "--coordinator-epoch", 0)
    assert txn("abort-hanging", *named, "--bootstrap", stub.bootstrap).code == 2
    assert txn("abort-hanging", *named, "--bootstrap", stub.bootstrap, "--force").code == 0


def test_a_place_that_does_not_exist(stub: BrokerStub) -> None:
    """ "none" would mean that nothing hangs there: each command says that there is no such partition or broker, with exit code 2."""
    missing, at = ("--topic", TOPIC, "--partition", 9), ("--bootstrap", stub.bootstrap)
    found = txn("find-hanging", *missing, *at)
    assert (found.code, found.err) == (2, "fencepost txn find-hanging: not checked: topic 't' has no partition 9: it has 2\n")
    for command in ("abort-hanging", "commit-hanging"):
        ended = txn(command, *missing, "--start-offset", 0, *at)
        assert (ended.code, ended.err) == (2, f"fencepost txn {command}: topic 't' has no partition 9: it has 2\n")
    elsewhere = txn("find-hanging", "--broker-id", 9, *at)
    assert (elsewhere.code, elsewhere.err) == (2, "fencepost txn find-hanging: there is no broker 9, only 1, 2\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("find-hanging", "--partition", 0), "--partition needs --topic"),
        (("abort-hanging", "--topic", TOPIC, "--partition", 0), "give --start-offset, or --producer-id"),
        (("abort-hanging", "--topic", TOPIC, "--partition", 0, "--producer-id", 1), "give --start-offset, or --producer-id"),
        (("abort-hanging", "--topic", TOPIC, "--partition", 1, "--start-offset", 1), "no transaction"),
        (("find-hanging", "--topic", "none"), "topic 'none': UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_arguments_that_do_not_go_together(stub: BrokerStub, arguments: tuple[object, ...], words: str) -> None:
    """One line that says what is missing, and exit code 2."""
    ran = txn(*arguments, "--bootstrap", stub.bootstrap)
    assert ran.code == 2
    assert words in ran.err


def test_a_command_without_an_answer_ends_in_time() -> None:
    """One line on standard error within the time that was given, from a shell, too."""
    ran = run("txn", "list", "--bootstrap", "127.0.0.1:1", "--timeout", 0.2)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("fencepost txn list: no answer within 0.2 s: 127.0.0.1:1: ")
