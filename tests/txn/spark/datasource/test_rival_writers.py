"""Several queries write into one sink with `format("fencepost")`: a query that the ledger refuses does not disturb the active one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import FencepostError
from fencepost.txn.keyed_topic.errors import LedgerBusy
from fencepost.txn.ledger.errors import CheckpointReplaced, CheckpointRolledBack
from tests.reading import read_values
from tests.txn.spark.chaos.account import still_open
from tests.txn.spark.datasource.write_steps import Play, plan
from tests.waiting import until

TOPIC = "out"
PARTITIONS = 2


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        yield stub


def query(stub: BrokerStub, place: Path, name: str, batch: int = 0, **options: object) -> Play:
    """A query of this id whose batch is about to be written."""
    plan(place / name, batch, query=name)
    return Play(stub.bootstrap, TOPIC, str(place / name), **options)


def write(play: Play, batch: int, *values: str) -> None:
    begun = play.begin()
    play.commit(play.task(begun, 0, value=list(values)), batch=batch)


def found(stub: BrokerStub) -> list[bytes]:
    return sorted(read_values(stub.bootstrap, TOPIC, range(PARTITIONS)))


def test_a_query_at_its_first_batch_goes_on(stub: BrokerStub, tmp_path: Path) -> None:
    """The ledger has no entry that counts yet, and the open transaction names the sink's query."""
    first, second = query(stub, tmp_path, "first"), query(stub, tmp_path, "second")
    begun = first.begin()
    with pytest.raises(LedgerBusy, match=r"batch 0 of query second, and a transaction is open that writes batch 0 of query first"):
        second.begin()
    first.commit(first.task(begun, 0, value=["a"]), batch=0)
    with pytest.raises(CheckpointReplaced):
        second.begin()
    assert found(stub) == [b"a"]


def test_a_query_at_a_later_batch_goes_on(stub: BrokerStub, tmp_path: Path) -> None:
    """A second query is refused while the first one writes a later batch. Its abort does not end what the first one has begun."""
    first, second = query(stub, tmp_path, "first"), query(stub, tmp_path, "second")
    write(first, 0, "a")
    query(stub, tmp_path, "first", 1)
    begun = first.begin()
    with pytest.raises(LedgerBusy):
        second.begin()
    second.abort(None, batch=0)
    first.commit(first.task(begun, 0, value=["b"]), batch=1)
    assert found(stub) == [b"a", b"b"]


def test_a_copied_checkpoint_that_is_older_is_refused_before_anything(stub: BrokerStub, tmp_path: Path) -> None:
    """It has the same query id: neither what counts nor what is open lets it write."""
    living = query(stub, tmp_path, "same", 0)
    write(living, 0, "a")
    query(stub, tmp_path, "same", 1)
    write(living, 1, "b")
    plan(tmp_path / "copy", 0, query="same")
    query(stub, tmp_path, "same", 2)
    begun = living.begin()
    with pytest.raises(CheckpointRolledBack):
        Play(stub.bootstrap, TOPIC, str(tmp_path / "copy")).begin()
    living.commit(living.task(begun, 0, value=["c"]), batch=2)
    assert found(stub) == [b"a", b"b", b"c"]


def test_a_reset_ends_the_other_one(stub: BrokerStub, tmp_path: Path) -> None:
    """As was asked for; the other one's abort, when its query fails, takes nothing back, and its next start is refused."""
    first, second = query(stub, tmp_path, "first"), query(stub, tmp_path, "second", onNewCheckpoint="reset")
    begun = first.begin()
    told = first.task(begun, 0, value=["lost"])
    taken = second.begin()
    with pytest.raises(FencepostError):
        first.commit(told, batch=0)
    first.abort(None, batch=0)
    with pytest.raises(LedgerBusy):
        first.begin()
    second.commit(second.task(taken, 0, value=["b"]), batch=0)
    assert found(stub) == [b"b"]


def test_a_restart_takes_over_what_was_left_open(stub: BrokerStub, tmp_path: Path) -> None:
    """The open transaction is of its own query, committed or aborted since."""
    play = query(stub, tmp_path, "one")
    play.task(play.begin(), 0, value=["lost"])
    write(play, 0, "a")
    query(stub, tmp_path, "one", 1)
    play.task(play.begin(), 0, value=["lost"])
    plan(tmp_path / "one", 1, '{"at":"another"}', query="one")
    write(play, 1, "b")
    assert found(stub) == [b"a", b"b"]


@pytest.mark.parametrize("transactions", [0, 2], ids=["TV1", "TV2"])
def test_a_batch_without_any_report_is_aborted_at_once(tmp_path: Path, transactions: int) -> None:
    """An abort without the report of any task ends the transaction at once, so that readers do not wait for its timeout."""
    with BrokerStub(transaction_version=transactions) as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        stream, job = query(stub, tmp_path, "one"), Play(stub.bootstrap, TOPIC)
        stream.task(stream.begin(), 0, value=["lost"])
        begun = job.begin()
        job.task(begun, 1, value=["lost"])
        assert len(still_open(stub.bootstrap, TOPIC, PARTITIONS)) == 2
        stream.abort(None, None, batch=0)
        job.abort(None, None, begun=begun)
        until(lambda: not still_open(stub.bootstrap, TOPIC, PARTITIONS), "nothing is open")
        assert found(stub) == []
