"""`fencepost ledger`: what it shows of sinks, how it forgets one, and what it says and exits with when it cannot."""

from __future__ import annotations

from inspect import signature

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.cli import ledger as cli
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire import Api
from fencepost.txn.ledger.entry import LedgerEntry, LedgerPartition
from fencepost.txn.ledger.ledger import TOPIC, Ledger
from tests.fencepost.cli.shell import Ran, invoke
from tests.txn.ledger.takeover import WAIT_S, producer_of, stub, take_over

__all__ = ["stub"]


def ledger(*arguments: object) -> Ran:
    return invoke("ledger", *arguments)


def write(stub: BrokerStub, key: str, value: bytes | None = None, *, batch: int = 7) -> int:
    """Commit an entry, or these bytes in the place of one. Returns its offset."""
    kept = Ledger(read_settings({"bootstrap_servers": stub.bootstrap}))
    sink, _, job = key.partition("#")
    entry = LedgerEntry(
        sink=sink,
        query=None if job else "q",
        batch=batch,
        fingerprint=None if job else "f",
        rows=5,
        partitions=(LedgerPartition("t", 1, 5, 40),),
        job=job or None,
        at_ms=1_700_000_000_000,
    )
    with producer_of(stub, key) as producer, producer.transaction(WAIT_S) as tx:
        future = tx.send(TOPIC, value or entry.dumps(), key=key.encode(), partition=kept.partition_of(key))
    take_over(stub, key)
    return future.result(WAIT_S).offset


def test_every_sink(stub: BrokerStub) -> None:
    """Sinks and jobs, sorted; what cannot be read is named and keeps nothing else from being shown."""
    at = ("--bootstrap", stub.bootstrap)
    assert ledger("list", *at) == (0, "", "none\n")
    assert stub.journal.requests(Api.CREATE_TOPICS) == []
    write(stub, "b")
    offset = write(stub, "a", b"{}")
    write(stub, "b#daily", batch=3)
    damaged, plain, job = ledger("list", "--json", *at).objects
    assert (damaged["sink"], damaged["batch"]) == ("a", None)
    assert f"sink 'a' at offset {offset} of __fencepost_ledger-" in damaged["trouble"]
    assert (plain["sink"], plain["query"], plain["batch"], plain["rows"], plain["open"]) == ("b", "q", 7, 5, False)
    assert (job["sink"], job["job"], job["batch"]) == ("b#daily", "daily", 3)
    table = ledger("list", *at).out
    assert "b#daily" in table
    assert "2023-11-14T22:13:20.000+00:00" in table


def test_one_sink(stub: BrokerStub) -> None:
    """The whole entry, with where it stands; exit code 1 where there is none."""
    at = ("--bootstrap", stub.bootstrap)
    offset = write(stub, "b")
    (shown,) = ledger("show", "b", "--json", *at).objects
    assert (shown["fingerprint"], shown["partitions"], shown["offset"], shown["trouble"]) == ("f", [["t", 1, 5, 40]], offset, None)
    assert "t-1: 5 from 40" in ledger("show", "b", *at).out
    nothing = ledger("show", "a", *at)
    assert (nothing.code, nothing.err) == (1, "fencepost ledger show: the ledger has no entry of sink 'a'\n")


@pytest.mark.parametrize(("value", "has"), [(None, "batch 7, written 2023"), (b"{}", "an entry that cannot be read")])
def test_a_sink_forgotten(stub: BrokerStub, value: bytes | None, has: str) -> None:
    """Only with --yes, also where its entry cannot be read; then it is as if it had never been, and the next entry counts."""
    at = ("--bootstrap", stub.bootstrap)
    write(stub, "a", value)
    write(stub, "b")
    asked = ledger("reset", "a", *at)
    assert asked.code == 2
    assert f"sink 'a' has {has}" in asked.err
    assert "add --yes" in asked.err
    done = ledger("reset", "a", "--yes", *at)
    assert (done.code, done.out.startswith(f"a: entry deleted; it had {has}")) == (0, True)
    assert ledger("show", "a", *at).code == 1
    assert ledger("reset", "a", "--yes", *at).code == 1
    assert [each["sink"] for each in ledger("list", "--json", *at).objects] == ["b"]
    write(stub, "a", batch=9)
    assert ledger("show", "a", "--json", *at).objects[0]["batch"] == 9


def test_a_sink_that_is_written_to(stub: BrokerStub) -> None:
    """An open transaction has an entry of it: shown as open, and not forgotten under its writer's hands."""
    at = ("--bootstrap", stub.bootstrap)
    write(stub, "a")
    kept = Ledger(read_settings({"bootstrap_servers": stub.bootstrap}))
    with producer_of(stub, "a") as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"{}", key=b"a", partition=kept.partition_of("a")).result(WAIT_S)
        (shown,) = ledger("list", "--json", *at).objects
        assert (shown["batch"], shown["open"]) == (7, True)
        refused = ledger("reset", "a", "--yes", *at)
        assert refused.code == 2
        assert "sink 'a': a transaction with an entry of it is open" in refused.err
        tx.abort(WAIT_S)
    take_over(stub, "a")
    assert ledger("reset", "a", "--yes", *at).code == 0


def test_forgotten_once_however_often_it_is_sent(stub: BrokerStub) -> None:
    """A reply that is lost is asked for again, and the log has one tombstone."""
    write(stub, "a")
    stub.faults.on(Api.PRODUCE).drop_reply().times(1)
    assert ledger("reset", "a", "--yes", "--bootstrap", stub.bootstrap, "--config", "request_timeout_ms=500").code == 0
    kept = Ledger(read_settings({"bootstrap_servers": stub.bootstrap}))
    records = stub.records(TOPIC, kept.partition_of("a"))
    assert [record.value for record in records if record.key == b"a"][1:] == [None]


def test_an_address_without_a_broker() -> None:
    """One line, and exit code 2; the topic's name is the one of the library."""
    ran = ledger("list", "--bootstrap", "127.0.0.1:1", "--timeout", 0.3)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "no answer within 0.3 s" in ran.err
    assert signature(cli.list_sinks).parameters["topic"].default == TOPIC
