"""Writes of `format("fencepost")` on Apache Kafka, with both transaction versions: begun, written and ended by different processes."""

from __future__ import annotations

import pytest

from fencepost.producer.config.reader import read_settings
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.shared.participant import ParticipationEnded
from fencepost.txn.spark.errors import AttemptConflict
from tests.conformance.txn_site import PARTITIONS, Site, older, site
from tests.txn.spark.datasource.write_steps import Play, no_participant_is_kept
from tests.waiting import until

__all__ = ["no_participant_is_kept", "older", "site"]

pytestmark = pytest.mark.timeout(300)


def test_what_the_tasks_wrote_is_committed_with_the_ledgers_record(site: Site) -> None:
    """The rows and the ledger's record become visible at once. A written version is not written again. The next write continues after this
    one.
    """
    for version in range(2):
        play = Play(site.bootstrap, site.topic, sinkId=site.name, jobId="load", version=version)
        begun = play.begin()
        told = [play.task(begun, task, value=[f"{version}-{task}-{row}" for row in range(20)]) for task in range(PARTITIONS)]
        assert len(site.committed()) == 60 * version
        play.commit(*told, begun=begun)
        # The coordinator confirms the commit a moment before consumers with read_committed see the records.
        until(lambda: len(set(site.committed())), "all of them are committed", good=(60 * (version + 1)).__eq__)
        assert play.begin().shared is None
    entry = Ledger(read_settings({"bootstrap_servers": site.bootstrap})).read(f"{site.name}#load")
    assert entry is not None
    assert (entry.batch, entry.rows, len(entry.partitions)) == (1, 60, PARTITIONS)


def test_what_was_given_up_is_never_seen(site: Site) -> None:
    """The claim refuses a second attempt, an abort leaves nothing, and Kafka refuses later writes."""
    play = Play(site.bootstrap, site.topic, sinkId=site.name)
    begun = play.begin()
    told = play.task(begun, 0, attempt_id=1, value=["lost"])
    with pytest.raises(AttemptConflict, match="attempt 1 of this task may have written already"):
        play.task(begun, 0, attempt_id=2, value=["lost"])
    play.abort(told, begun=begun)
    with pytest.raises(ParticipationEnded):
        play.task(begun, 1, value=["late"])
    begun = play.begin()
    play.commit(play.task(begun, 0, value=["kept"]), begun=begun)
    play.abort(begun=begun)
    assert site.committed() == [b"kept"]
