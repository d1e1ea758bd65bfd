"""Batches that the ledger does not have, between its newest and the one to be written: what the checkpoint shows of them. No Spark is
needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.txn.ledger.errors import LedgerBehind
from fencepost.txn.spark.sink.checkpoint import newest_batch
from tests.reading import read_values
from tests.txn.spark.datasource.write_steps import Play, plan

TOPIC = "out"


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic(TOPIC, partitions=1)
        yield stub


def write(play: Play, checkpoint: Path, batch: int, offsets: str) -> None:
    plan(checkpoint, batch, offsets)
    begun = play.begin()
    play.commit(play.task(begun, 0, value=[str(batch)]), batch=batch)


def test_a_gap_with_rows(stub: BrokerStub, tmp_path: Path) -> None:
    """The ledger lost its end, or is a mirror that lags: batch 1 has read something, so that batch 2 may be there as well. Nothing is
    written, unless the user knows better."""
    play = Play(stub.bootstrap, TOPIC, str(tmp_path))
    write(play, tmp_path, 0, '{"at":0}')
    plan(tmp_path, 1, '{"at":1}')
    plan(tmp_path, 2, '{"at":2}')
    with pytest.raises(LedgerBehind, match=r"batch 2 of query .*the ledger has batch 0 .*on_gap=\"write\""):
        play.begin()
    assert read_values(stub.bootstrap, TOPIC, [0]) == [b"0"]
    write(Play(stub.bootstrap, TOPIC, str(tmp_path), onGap="write"), tmp_path, 2, '{"at":2}')
    assert read_values(stub.bootstrap, TOPIC, [0]) == [b"0", b"2"]


def test_a_gap_without(stub: BrokerStub, tmp_path: Path) -> None:
    """Batches that read nothing, which the query left out, are no reason to stop."""
    play = Play(stub.bootstrap, TOPIC, str(tmp_path))
    write(play, tmp_path, 0, '{"at":0}')
    for batch in (1, 2):
        plan(tmp_path, batch, '{"at":0}')
    write(play, tmp_path, 3, '{"at":1}')
    assert read_values(stub.bootstrap, TOPIC, [0]) == [b"0", b"3"]


@pytest.mark.parametrize(
    ("offsets", "since", "read"),
    [
        ([0, 1, 2], 0, True),
        ([0, 0, 1], 0, False),
        ([0, 0, 1], 1, False),
        ([0, 1, 1, 1, 2], 0, True),
        ([0, 1, 1, 1, 2], 1, False),
        ([0, None, 1, 2, 3], 0, True),
        ([0, None, 1, 1, 2], 0, False),
        ([None, 1, None, 3], 0, False),
    ],
)
def test_what_the_offsets_prove(tmp_path: Path, offsets: list[int | None], since: int, read: bool) -> None:
    """A batch between has read something where two that follow one another differ; of what Spark has removed nothing is known."""
    for batch, at in enumerate(offsets):
        if at is not None:
            plan(tmp_path, batch, f'{{"at":{at}}}')
    assert newest_batch(str(tmp_path)).read_since(since) is read
