"""SharePartition: what a member acquires, what acknowledgements do, locks, limits, gaps after a leader has moved, and aborted records."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.share_partitions.aborted import AbortedTransaction, LogBatch
from fencepost.broker_stub.share_partitions.states import ACCEPT, GAP, REJECT, RELEASE, RENEW, Limits, RecordState, ShareRefused, StateBatch
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.share.partition_calls import Part, log

LOCK_MS = 30_000


def test_a_fetch_acquires_whole_batches_of_the_log() -> None:
    """The limit of records is met at the end of a batch, and members do not get the same records."""
    part = Part(log(5, 5, 5))
    assert part.fetch("a", 7) == [(0, 9, 1)]
    assert part.fetch("b", 7) == [(10, 14, 1)]
    assert part.fetch("a") == []
    assert part.window == (0, 14, 15)


def test_what_is_acquired_together_has_the_best_size() -> None:
    """It is cut at batches of the log."""
    assert Part(log(2, 2, 2, 2)).fetch(batch_size=3) == [(0, 3, 1), (4, 7, 1)]
    assert Part(log(2, 2, 2, 2)).fetch(batch_size=8) == [(0, 7, 1)]


def test_a_member_can_want_exactly_so_many() -> None:
    """The rest of the batch stays available to others (KIP-1206)."""
    part = Part(log(10))
    assert part.fetch("a", 3, exact=True) == [(0, 2, 1)]
    assert part.window == (0, 9, 3)
    assert part.fetch("b", 3, exact=True) == [(3, 5, 1)]
    assert part.fetch("b") == [(6, 9, 1)]
    assert part.states() == "H" * 10


def test_accepted_records_move_the_start() -> None:
    """Those at the start are forgotten; those behind wait for them."""
    part = Part(log(4, 4))
    part.fetch(batch_size=4)
    part.acknowledge(4, 7)
    assert (part.window, part.states()) == ((0, 7, 8), "HHHH++++")
    part.acknowledge(0, 1)
    assert part.window == (2, 7, 8)
    write = part.acknowledge(2, 3)
    assert (write.start_offset, write.done_count) == (2, 6)
    assert part.window == (8, 8, 8)
    assert part.states() == ""


def test_each_type_of_acknowledgement() -> None:
    """One type for all records, or one for each."""
    part = Part(log(5))
    part.fetch()
    write = part.acknowledge(0, 4, RELEASE, ACCEPT, REJECT, GAP, RELEASE)
    assert write.batches == (
        StateBatch(0, 0, RecordState.AVAILABLE, 1),
        StateBatch(1, 1, RecordState.ACKNOWLEDGED, 1),
        StateBatch(2, 2, RecordState.ARCHIVED, 1),
        StateBatch(3, 3, RecordState.ARCHIVED, 1),
        StateBatch(4, 4, RecordState.AVAILABLE, 1),
    )
    assert part.states() == "f+xxf"
    assert part.fetch("b") == [(0, 0, 2), (4, 4, 2)]


def test_a_change_waits_for_the_share_coordinator() -> None:
    """Until then the records are neither free nor acknowledged again, and a failure gives them back to their member."""
    part = Part(log(3))
    part.fetch()
    write = part.begin(0, 2, RELEASE)
    assert part.fetch("b") == []
    with pytest.raises(ShareRefused, match="not in the acquired state"):
        part.begin(0, 2)
    assert not part.core.complete(write, committed=False, now_ms=1)
    assert part.states() == "HHH"
    part.acknowledge(0, 2)
    assert part.window == (3, 3, 3)


def test_a_lock_that_ends_before_a_failure_gives_the_records_back() -> None:
    """The member cannot have them any more."""
    part = Part(log(3))
    part.fetch()
    write = part.begin(0, 2)
    part.expire(LOCK_MS)
    part.core.complete(write, committed=False, now_ms=part.now_ms)
    assert part.fetch("b") == [(0, 2, 2)]


def test_a_lock_ends() -> None:
    """The records are delivered again, and the delivery count says so."""
    part = Part(log(3, 2))
    part.fetch("a", 1)
    assert part.core.next_expiry_ms == LOCK_MS
    part.now_ms = 1
    part.fetch("b", 1)
    assert part.expire(LOCK_MS - 1).batches == (StateBatch(0, 2, RecordState.AVAILABLE, 1),)
    assert (part.states(), part.core.next_expiry_ms) == ("fffHH", LOCK_MS + 1)
    assert part.fetch("b") == [(0, 2, 2)]


def test_a_member_renews_its_lock() -> None:
    """Of all records or of some; nothing is kept for that (KIP-1222)."""
    part = Part(log(4))
    part.fetch()
    part.now_ms = 10_000
    assert part.begin(1, 2, RENEW).batches == ()
    part.expire(LOCK_MS - 10_000)
    assert part.states() == "fHHf"
    part.expire(10_000)
    assert part.states() == "ffff"


def test_renewing_can_be_forbidden() -> None:
    """By the group's config."""
    part = Part(log(4), limits=Limits(renews=False))
    part.fetch()
    with pytest.raises(ShareRefused, match="Renewing acquisition locks is not enabled for the group"):
        part.begin(0, 3, RENEW)


def test_a_record_is_delivered_only_so_often() -> None:
    """Then it is archived, by a release as by a lock that ends."""
    part = Part(log(1), limits=Limits(deliveries_max=2))
    part.fetch()
    part.acknowledge(0, 0, RELEASE)
    assert part.fetch() == [(0, 0, 2)]
    assert part.acknowledge(0, 0, RELEASE).batches == (StateBatch(0, 0, RecordState.ARCHIVED, 2),)
    assert part.window == (1, 1, 1)


def test_records_that_fail_often_come_in_smaller_batches() -> None:
    """Half of them after half of the deliveries, then a quarter, and each alone the last time."""
    part = Part(log(8), limits=Limits(deliveries_max=5))
    for count in (1, 2, 3):
        assert part.fetch() == [(0, 7, count)]
        part.acknowledge(0, 7, RELEASE)
    assert part.fetch() == [(0, 3, 4)]
    part.acknowledge(0, 3, RELEASE)
    assert part.fetch() == [(0, 0, 5)]
    assert part.fetch() == [(1, 1, 5)]


def test_so_many_records_are_in_flight() -> None:
    """Done ones count until the start has passed them. Released ones can be acquired again."""
    part = Part(log(4, 4, 4), limits=Limits(locks_max=8))
    part.fetch()
    assert part.window == (0, 7, 8)
    assert part.fetch("b") == []
    part.acknowledge(4, 7)
    assert part.fetch("b") == []
    part.acknowledge(2, 2, RELEASE)
    assert part.fetch("b") == [(2, 2, 2)]
    part.acknowledge(0, 1)
    assert part.fetch("b") == [(8, 11, 1)]


@pytest.mark.parametrize(
    ("first", "last", "code", "words"),
    [
        (0, 5, ErrorCode.INVALID_REQUEST, "The last offset in request is past acquired records."),
        (9, 9, ErrorCode.INVALID_REQUEST, "The first offset in request is past acquired records."),
        (5, 5, ErrorCode.INVALID_REQUEST, "The first offset in request is past acquired records."),
    ],
)
def test_records_that_are_not_in_flight_cannot_be_acknowledged(first: int, last: int, code: int, words: str) -> None:
    """Before the start, after the end and between, with Kafka's words."""
    part = Part(log(5))
    part.fetch()
    with pytest.raises(ShareRefused, match=words) as refused:
        part.begin(first, last)
    assert refused.value.code == code


def test_only_the_owner_acknowledges() -> None:
    """All or nothing: what was right before the fault is taken back."""
    part = Part(log(3, 3))
    part.fetch("a", 1)
    part.fetch("b", 1)
    with pytest.raises(ShareRefused, match="Member is not the owner of batch record") as refused:
        part.begin(0, 5, member="a")
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
    assert part.states() == "HHHHHH"
    part.acknowledge(0, 0, RELEASE)
    part.fetch("b", 1, exact=True)
    with pytest.raises(ShareRefused, match="Member is not the owner of offset"):
        part.begin(0, 0, member="a")


def test_a_session_that_ends_releases_what_its_member_has() -> None:
    """Other members keep theirs."""
    part = Part(log(2, 2))
    part.fetch("a", 1)
    part.fetch("b", 1)
    write = part.core.release("a", limits=part.limits)
    part.core.complete(write, committed=True, now_ms=0)
    assert part.states() == "ffHH"


def test_records_that_the_log_has_dropped_are_not_delivered_again() -> None:
    """What a member has, it may still acknowledge from the new start on; the rest is archived when its lock ends."""
    part = Part(log(4, 4))
    part.fetch("a", 1)
    part.fetch("b", 1)
    part.acknowledge(0, 3, RELEASE)
    part.core.window.move_start(6)
    assert (part.window, part.states()) == ((6, 7, 8), "xxxxHHHH")
    part.acknowledge(4, 7, ACCEPT, member="b")
    assert part.states() == "HH++"


def test_the_log_start_can_pass_everything() -> None:
    """The window is empty then, and begins there."""
    part = Part(log(4))
    part.fetch()
    part.core.window.move_start(9)
    assert part.window == (9, 9, 9)
    assert part.expire(LOCK_MS).batches == (StateBatch(0, 3, RecordState.ARCHIVED, 1),)


def test_compacted_records_are_archived() -> None:
    """A released batch that the log does not have any more would hold the start back."""
    part = Part(log(2, 2, 2))
    part.fetch(batch_size=2)
    part.acknowledge(0, 3, RELEASE)
    part.log = [LogBatch(2, 3), LogBatch(4, 5)]
    assert part.fetch("b") == [(2, 3, 2)]
    assert part.states() == "xxHHHH"


def test_a_new_leader_goes_on_with_what_was_kept() -> None:
    """What members had without saying so is delivered again, as if for the first time."""
    state = [StateBatch(2, 3, RecordState.ACKNOWLEDGED, 1), StateBatch(6, 6, RecordState.AVAILABLE, 2)]
    part = Part(log(4, 4), state=state)
    assert part.window == (0, 6, 0)
    assert part.fetch() == [(0, 1, 1), (4, 5, 1), (6, 6, 3), (7, 7, 1)]
    assert part.states() == "HH++HHHH"
    part.acknowledge(0, 1)
    assert part.window == (4, 7, 8)


def test_a_new_leader_begins_after_what_was_done() -> None:
    """What is done from the start on is not in the window."""
    part = Part(log(4), state=[StateBatch(0, 1, RecordState.ARCHIVED, 1), StateBatch(2, 3, RecordState.AVAILABLE, 1)])
    assert part.window == (2, 3, 2)
    assert part.fetch() == [(2, 3, 2)]


def test_aborted_records_are_not_delivered() -> None:
    """They are archived, so that the start can pass them. Their marker is the client's to acknowledge as a gap."""
    batches = [
        LogBatch(0, 1),
        LogBatch(2, 4, producer_id=7, is_transactional=True),
        LogBatch(5, 5, producer_id=8, is_transactional=True),
        LogBatch(6, 6, producer_id=7, aborts=True),
        LogBatch(7, 7, producer_id=7, is_transactional=True),
    ]
    part = Part(batches)
    assert part.fetch(aborted=[AbortedTransaction(7, 2)]) == [(0, 1, 1), (5, 7, 1)]
    assert part.states() == "HHxxxHHH"
