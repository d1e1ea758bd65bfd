"""The checkpoint and the ledger: whatever happens to either, the query fails with what happened and the ways out, and nothing is lost."""

from __future__ import annotations

import shutil

import pytest

from tests.once import once_is_enough
from tests.txn.spark.site import Site

pytestmark = once_is_enough("is about checkpoints and the ledger")


def test_a_checkpoint_that_was_deleted(site: Site) -> None:
    """The new one begins with batch 0 again: refused, nothing doubled. `on_new_checkpoint="reset"` goes on from there."""
    site.feed("1")
    site.feed("2")
    assert site.run(site.writer()) is None
    shutil.rmtree(site.checkpoint)
    site.feed("3")
    failure = site.run(site.writer()) or ""
    assert "CheckpointReplaced" in failure
    assert "began anew with another checkpoint" in failure
    assert site.committed() == ["1", "2"]
    assert site.run(site.writer(on_new_checkpoint="reset")) is None
    assert site.committed() == ["1", "1", "2", "2", "3"]


@pytest.fixture
def rolled_back(site: Site) -> Site:
    """Batches 0 and 1 are written, and the checkpoint is as it was before batch 1."""
    site.feed("1")
    assert site.run(site.writer()) is None
    backup = site.place / "backup"
    shutil.copytree(site.checkpoint, backup)
    site.feed("2")
    assert site.run(site.writer()) is None
    shutil.rmtree(site.checkpoint)
    shutil.copytree(backup, site.checkpoint)
    return site


def test_a_checkpoint_rolled_back_by_exactly_one(rolled_back: Site) -> None:
    """The same batch once more: it is in the ledger, and nothing is doubled."""
    writer = rolled_back.writer()
    assert rolled_back.run(writer) is None
    assert writer.metrics["ledger"] == "skipped"
    assert rolled_back.committed() == ["1", "2"]


def test_a_checkpoint_rolled_back_by_exactly_one_with_new_rows(rolled_back: Site) -> None:
    """The newest batch is planned anew, with more rows under the same number and the same offset, as the file source has nothing but the
    number of its own log entry for one: the new rows are not taken for written."""
    rolled_back.feed("3")
    both = rolled_back.spark.readStream.text(str(rolled_back.input))
    failure = rolled_back.run(rolled_back.writer(), both) or ""
    assert "CheckpointReplaced" in failure
    assert "planned anew over other source offsets" in failure
    assert rolled_back.committed() == ["1", "2"]


def test_a_checkpoint_rolled_back_further(site: Site) -> None:
    """An older copy of itself is refused."""
    site.feed("1")
    site.feed("2")
    site.feed("3")
    assert site.run(site.writer()) is None
    for kind in ("offsets", "commits"):
        for batch in (1, 2):
            for left in (str(batch), f".{batch}.crc"):
                (site.checkpoint / kind / left).unlink()
    failure = site.run(site.writer()) or ""
    assert "CheckpointRolledBack" in failure
    assert "`fencepost ledger reset SINK --yes`" in failure
    assert site.committed() == ["1", "2", "3"]


def test_a_checkpoint_copied_to_a_second_query(site: Site) -> None:
    """Both are the same query to Spark, too. Whichever falls behind is refused, and nothing is there twice."""
    site.feed("1")
    assert site.run(site.writer()) is None
    copy = site.place / "copy"
    shutil.copytree(site.checkpoint, copy)
    site.feed("2")
    assert site.run(site.writer()) is None
    skipping = site.writer()
    assert site.run(skipping, checkpoint=copy) is None
    assert skipping.metrics["ledger"] == "skipped"
    site.feed("3")
    site.feed("4")
    assert site.run(site.writer(), checkpoint=copy) is None
    assert "CheckpointRolledBack" in (site.run(site.writer()) or "")
    assert site.committed() == ["1", "2", "3", "4"]


def test_the_ledgers_topic_is_deleted(site: Site) -> None:
    """A query that has written before and finds no ledger is refused; `on_missing_ledger="start"` takes it up."""
    site.feed("1")
    assert site.run(site.writer()) is None
    site.stub.delete_topic("__fencepost_ledger")
    site.feed("2")
    failure = site.run(site.writer()) or ""
    assert "LedgerMissing" in failure
    assert "the ledger's topic was deleted" in failure
    assert site.committed() == ["1"]
    assert site.run(site.writer(on_missing_ledger="start")) is None
    assert site.committed() == ["1", "2"]
