"""The checkpoint and the ledger: after every change to either, the query fails with an error that names the change and the ways out, and
nothing is lost."""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.txn.keyed_topic.errors import LedgerUnusable
from tests.once import once_is_enough
from tests.txn.spark.site import Site

LEDGER = "__fencepost_ledger"

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
    assert "began again with another checkpoint (if it sets no checkpointLocation, Spark makes a new one at each start)" in failure
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
    """Spark runs the newest batch again. The ledger has it, so the writer skips it, and no row is doubled."""
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
    assert "planned again over other source offsets" in failure
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
    """Both are the same query to Spark, too. The one that falls behind is refused, and nothing is there twice."""
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


@pytest.mark.parametrize("guard", ["driver", "turns"])
@pytest.mark.parametrize("made_anew", [None, "delete", "compact"])
def test_the_ledgers_topic_is_deleted_under_a_writer(
    site: Site, monkeypatch: pytest.MonkeyPatch, guard: str, made_anew: str | None
) -> None:
    """The writer does not let brokers create the topic again with the cluster's defaults, and does not continue in a topic that another
    client made. The error says what is lost, which batch is known to be there, and the one way out."""
    monkeypatch.setattr("fencepost.txn.keyed_topic.topic.GONE_S", 0.3)
    monkeypatch.setattr("fencepost.txn.spark.sink.sink_session.LOOK_S", 0.0)
    writer = site.by_hand(guard=guard)
    writer(site.rows("1"), site.offsets(0))
    site.stub.delete_topic(LEDGER)
    if made_anew is not None:
        site.stub.create_topic(LEDGER, partitions=8, config={"cleanup.policy": made_anew})
    with pytest.raises(LedgerUnusable) as failed:
        writer(site.rows("2"), site.offsets(1))
    what = "was deleted while it was in use"
    if made_anew is not None:
        what = f"was deleted, and another client has created this one, with cleanup.policy={made_anew}"
    for words in (what, "what it had of every sink that used it is lost", "committed is batch 0 of query 'by hand'", "on_missing_ledger"):
        assert words in str(failed.value)
    assert site.committed() == ["1"]
    assert made_anew is not None or LEDGER not in AdminClient({"bootstrap.servers": site.bootstrap}).list_topics(timeout=20).topics
    writer.close()
    if made_anew == "delete":
        site.stub.delete_topic(LEDGER)
    site.by_hand(on_missing_ledger="start")(site.rows("2"), site.offsets(1))
    site.by_hand()(site.rows("3"), site.offsets(2))
    assert site.committed() == ["1", "2", "3"]


def test_the_ledgers_topic_is_deleted_in_the_middle_of_a_batch(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the batch is visible, and the topic is not there again."""
    monkeypatch.setattr("fencepost.txn.keyed_topic.topic.GONE_S", 0.3)
    writer = site.by_hand(timeout_ms=3_000, max_block_ms=1_000)
    writer(site.rows("1"), site.offsets(0))
    rows = site.rows("2")
    with pytest.raises(LedgerUnusable, match="was deleted while it was in use"), writer.batch(rows, site.offsets(1)) as batch:
        batch.write(rows)
        site.stub.delete_topic(LEDGER)
    assert site.committed() == ["1"]
    assert LEDGER not in AdminClient({"bootstrap.servers": site.bootstrap}).list_topics(timeout=20).topics


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
