"""Drivers with one sink and transactional ids of their own: nothing that one registers holds the other back, and still at most one of them
commits a batch. No Spark is needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from msgspec import structs

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import FencepostError
from fencepost.txn.keyed_topic.errors import LedgerBusy
from fencepost.txn.ledger.entry import LedgerEntry
from fencepost.txn.ledger.ledger import TOPIC as LEDGER
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.errors import QueryStopped, SinkTakenOver
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.sink_session import SinkSession
from tests.reading import read_values
from tests.txn.spark.datasource.write_steps import Play, plan
from tests.txn.stub_helpers import ends

TOPIC = "out"
PARTITIONS = 2
WAIT_S = 30.0


@pytest.fixture(params=[0, 2], ids=["TV1", "TV2"])
def stub(request: pytest.FixtureRequest) -> Iterator[BrokerStub]:
    with BrokerStub(transaction_version=request.param) as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        yield stub


def found(stub: BrokerStub) -> list[bytes]:
    return sorted(read_values(stub.bootstrap, TOPIC, range(PARTITIONS)))


def driver(stub: BrokerStub, prefix: str) -> SinkSession:
    """A driver's end of the sink, as foreachBatch has it."""
    settings = WriterSettings(sink_id="sink", transactional_id_prefix=prefix, timeout_ms=20_000)
    return SinkSession(settings, KafkaSettings.of({"bootstrap_servers": stub.bootstrap, "retry_backoff_ms": 5, "linger_ms": 0}))


def entry(sink_session: SinkSession, batch: int, at_ms: int = 0) -> LedgerEntry:
    return LedgerEntry(
        sink="sink", query="q", batch=batch, fingerprint=f"f{batch}", rows=1, at_ms=at_ms, transactional_id=sink_session.transactional_id
    )


def write(sink_session: SinkSession, batch: int, value: str) -> None:
    """A batch of one row, as far as its commit."""
    tx = sink_session.begin(entry(sink_session, batch))
    sink_session.opening()
    tx.send(TOPIC, value.encode(), partition=0)
    sink_session.record(entry(sink_session, batch, at_ms=1))


def commit(sink_session: SinkSession, batch: int, value: str) -> None:
    write(sink_session, batch, value)
    sink_session.producer.commit(WAIT_S)
    sink_session.entry = entry(sink_session, batch, at_ms=1)


def test_a_retired_run_that_is_registering(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query's next run waits for that registration, and registers after it: the retired run does not fence it, and keeps no
    producer."""
    retired, following = driver(stub, "same."), driver(stub, "same.")
    register = retired._registered
    registers, go_on = threading.Event(), threading.Event()

    def slowly(transactional_id: str) -> TransactionalProducer:
        registers.set()
        assert go_on.wait(WAIT_S)
        return register(transactional_id)

    def follow() -> None:
        retired.retire()
        following.take_over()

    monkeypatch.setattr(retired, "_registered", slowly)
    with ThreadPoolExecutor(2) as threads:
        old = threads.submit(retired.take_over)
        assert registers.wait(WAIT_S)
        new = threads.submit(follow)
        wait([new], 0.3)  # If it does not wait for the retired run, it registers now.
        go_on.set()
        with pytest.raises(QueryStopped):
            old.result(WAIT_S)
        new.result(WAIT_S)
    assert not following.replaced()
    assert not retired.held
    following.close()


def test_a_batch_that_is_given_up_is_aborted_without_advice(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """Its error says why, and the user of a writer has no `commit` to call: the log says nothing of one."""
    given_up = driver(stub, "old.")
    given_up.take_over()
    write(given_up, 0, "0")
    given_up.close()
    assert found(stub) == []
    assert ends(stub)[-1:] == [False]
    assert not [each for each in caplog.messages if "close() aborted" in each]


def test_the_newer_driver_takes_the_old_id_over_first(stub: BrokerStub) -> None:
    """The ledger names the driver of the newest batch. After the takeover this driver commits nothing more, and its next call says that
    another driver has the sink. The way back is the same."""
    old, new = driver(stub, "old."), driver(stub, "new.")
    old.take_over()
    commit(old, 0, "0")
    new.take_over()
    assert new.entry == entry(old, 0, at_ms=1)
    with pytest.raises(FencepostError):
        commit(old, 1, "lost")
    commit(new, 1, "1")
    old.close()
    old.take_over()
    assert old.entry == entry(new, 1, at_ms=1)
    commit(old, 2, "2")
    with pytest.raises(FencepostError):
        commit(new, 2, "lost")
    new.close()
    old.close()
    assert found(stub) == [b"0", b"1", b"2"]


def test_an_old_driver_that_is_started_again_in_between(stub: BrokerStub) -> None:
    """It registers its id after the new driver has taken that over, and reads a ledger in which the new one has nothing yet: the new one's
    record is there before it takes the id over once more and commits."""
    old, new, again = driver(stub, "old."), driver(stub, "new."), driver(stub, "old.")
    old.take_over()
    commit(old, 0, "0")
    new.take_over()
    again.take_over()
    assert again.settled
    write(again, 1, "lost")
    write(new, 1, "1")
    with pytest.raises(FencepostError):
        again.producer.commit(WAIT_S)
    new.producer.commit(WAIT_S)
    for each in (old, new, again):
        each.close()
    assert found(stub) == [b"0", b"1"]


def test_one_that_comes_after_the_record(stub: BrokerStub) -> None:
    """An old driver that is started again when the new one's record is there is refused, naming the id."""
    old, new, again = driver(stub, "old."), driver(stub, "new."), driver(stub, "old.")
    old.take_over()
    commit(old, 0, "0")
    new.take_over()
    write(new, 1, "1")
    again.timeout_s = 3.0
    with pytest.raises(LedgerBusy, match=r"an open transaction \(it names transactional id 'new\.sink'\)"):
        again.take_over()
    assert not again.held
    new.producer.commit(WAIT_S)
    again.take_over()
    assert again.entry == entry(new, 1, at_ms=1)
    for each in (old, new, again):
        each.close()
    assert found(stub) == [b"0", b"1"]


@pytest.mark.parametrize("first_commits_first", [True, False])
def test_two_at_the_first_batch(stub: BrokerStub, *, first_commits_first: bool) -> None:
    """The ledger is empty, and both drivers have read it. The driver whose record comes second sees the other's, open or committed."""
    one, two = driver(stub, "one."), driver(stub, "two.")
    one.take_over()
    two.take_over()
    write(one, 0, "one")
    if first_commits_first:
        one.producer.commit(WAIT_S)
        take_over(stub, "one.sink")
    with pytest.raises(SinkTakenOver if first_commits_first else LedgerBusy, match=r"Nothing (of this batch )?was committed"):
        write(two, 0, "two")
    two.producer.abort(WAIT_S)
    if not first_commits_first:
        one.producer.commit(WAIT_S)
    one.close()
    two.close()
    assert found(stub) == [b"one"]


def take_over(stub: BrokerStub, name: str) -> None:
    """What was committed has its markers then."""
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=name) as producer:
        producer.init(WAIT_S)


def test_the_data_source_with_another_prefix(stub: BrokerStub, tmp_path: Path) -> None:
    """When a write begins under another prefix, it ends the open transaction of the id that the ledger names. If the ledger names none, the
    write is refused."""
    old = Play(stub.bootstrap, TOPIC, str(tmp_path), transactionalIdPrefix="old.")
    new = Play(stub.bootstrap, TOPIC, str(tmp_path), transactionalIdPrefix="new.", timeoutMs=3_000)
    plan(tmp_path, 0)
    begun = old.begin()
    with pytest.raises(LedgerBusy, match=r"'old\.sink'"):
        new.begin()
    old.commit(old.task(begun, 0, value=["0"]), batch=0)
    plan(tmp_path, 1, '{"at":1}')
    begun = old.begin()
    told = old.task(begun, 0, value=["lost"])
    taken = Play(stub.bootstrap, TOPIC, str(tmp_path), transactionalIdPrefix="new.")
    assert look(stub) == ("old.sink", 0)
    begun = taken.begin()
    with pytest.raises(FencepostError):
        old.commit(told, batch=1)
    taken.commit(taken.task(begun, 0, value=["1"]), batch=1)
    assert look(stub) == ("new.sink", 1)
    assert found(stub) == [b"0", b"1"]


def look(stub: BrokerStub) -> tuple[str | None, int]:
    """The id and the batch of the newest entry that is committed."""
    (newest,) = Ledger(read_settings({"bootstrap_servers": stub.bootstrap})).list(WAIT_S)
    return newest.transactional_id, newest.batch


def test_an_entry_of_before(stub: BrokerStub) -> None:
    """It names no id, and is taken for this sink's: the sink goes on, and the next entry names one."""
    sink_session = driver(stub, "fencepost.")
    sink_session.take_over()
    old = structs.replace(entry(sink_session, 0), transactional_id=None)
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="fencepost.sink") as producer:
        with producer.transaction(WAIT_S) as tx:
            tx.send(
                LEDGER,
                old.dumps().replace(b'"format":2', b'"format":1').replace(b',"transactional_id":null', b""),
                key=b"sink",
                partition=sink_session.ledger.partition_of("sink"),
            )
        producer.init(WAIT_S)
    sink_session.take_over()
    assert (sink_session.entry, sink_session.settled) == (old, False)
    commit(sink_session, 1, "1")
    assert sink_session.settled
    sink_session.close()
    take_over(stub, "fencepost.sink")
    assert look(stub) == ("fencepost.sink", 1)
