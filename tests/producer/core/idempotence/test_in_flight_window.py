"""The in-flight window of one partition: which batches may be sent, in which order and with which sequences, and what a lost or refused
batch means for the others."""

from __future__ import annotations

import pytest

from fencepost.producer.accumulator.batch import Batch, Shared
from fencepost.producer.core.error_table import judge
from fencepost.producer.core.idempotence.in_flight_batch import InFlightBatch, State
from fencepost.producer.core.idempotence.in_flight_window import InFlightWindow, Known
from fencepost.producer.errors import Persisted, RecordRefused
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.records import read_header

PID = 4000
SHARED = Shared(patience_s=1.0)
SHARED.wake = lambda: None


def in_flight(count: int = 1, *, deadline_ms: float = 1e9) -> InFlightBatch:
    """A sealed batch of that many records."""
    batch = Batch("t", 0, 0.0, SHARED)
    for index in range(count):
        batch.append(1_700_000_000_000, None, b"v%d" % index, None, None)
    builder = batch.builder
    assert builder is not None
    return InFlightBatch(
        batch,
        [builder.payload(Codec.NONE, None)],
        codec=Codec.NONE,
        base_timestamp=int(builder.base_timestamp),
        max_timestamp=int(builder.max_timestamp),
        deadline_ms=deadline_ms,
    )


def window(
    *, introduced: bool = True, limit: int = 5, idempotent: bool = True, retries: int = 100, first_sequence: int = 0
) -> InFlightWindow:
    made = InFlightWindow(limit=limit, idempotent=idempotent, retries=retries, timeout_ms=1_000.0, grace_ms=100.0)
    made.first_sequence = first_sequence
    if idempotent:
        made.adopt((PID, 0))
    made.introduced = introduced
    return made


def fly(of: InFlightWindow, *counts: int) -> list[InFlightBatch]:
    """Enter and launch batches of so many records each."""
    in_flight_batches = [in_flight(count) for count in counts]
    for each in in_flight_batches:
        of.enter(each)
        assert of.sendable(0.0) is each
        of.launched(each)
    return in_flight_batches


def refuse(of: InFlightWindow, which: InFlightBatch, code: ErrorCode) -> None:
    of.refused(which, judge(Api.PRODUCE, code), code, 0.0, 10.0)


def stamps(in_flight_batches: list[InFlightBatch]) -> list[tuple[int, int]]:
    """(epoch, base sequence) as the bytes say."""
    headers = [read_header(each.data) for each in in_flight_batches]
    return [(header.producer_epoch, header.base_sequence) for header in headers]


def test_batches_are_stamped_in_line_when_they_enter() -> None:
    """Each batch gets the identity and the sequence after its predecessor's last record, in its bytes, when it enters."""
    in_flight_batches = fly(window(), 3, 1, 2)
    assert stamps(in_flight_batches) == [(0, 0), (0, 3), (0, 4)]
    assert {read_header(each.data).producer_id for each in in_flight_batches} == {PID}


def test_sequences_wrap() -> None:
    """A batch may cross 2^31: the next one starts where the ring says, and all are one window."""
    of = window(first_sequence=2**31 - 2)
    in_flight_batches = fly(of, 1, 3, 2)
    assert stamps(in_flight_batches) == [(0, 2**31 - 2), (0, 2**31 - 1), (0, 2)]
    assert of.next_sequence == 4


def test_five_batches_at_most() -> None:
    """Brokers remember five batches per producer and partition, so a sixth stays out until one of the five is resolved."""
    of = window()
    in_flight_batches = fly(of, 1, 1, 1, 1, 1)
    assert not of.has_room()
    of.acknowledged(in_flight_batches[0], 0, -1)
    of.take_finished()
    assert of.has_room()


def test_a_batch_acknowledged_out_of_turn_keeps_its_place() -> None:
    """Counting is by what is unpublished: an acknowledgement behind an open elder makes no room for a batch six after it."""
    of = window()
    in_flight_batches = fly(of, 1, 1, 1, 1, 1)
    of.acknowledged(in_flight_batches[3], 3, -1)
    of.take_finished()
    assert not of.has_room()


def test_the_limit_is_the_setting() -> None:
    """max_in_flight below five is kept too."""
    of = window(limit=2)
    fly(of, 1, 1)
    assert not of.has_room()


def test_one_batch_until_the_first_acknowledgement() -> None:
    """A broker that does not know a producer id takes any first sequence: until it has acknowledged one batch there is only one."""
    of = window(introduced=False)
    (first,) = fly(of, 1)
    assert not of.has_room()
    of.acknowledged(first, 0, -1)
    of.take_finished()
    fly(of, 1, 1, 1, 1, 1)


def test_one_batch_until_an_epoch_is_acknowledged() -> None:
    """A bump may be necessary because the topic was made anew, and its log takes any first sequence of this epoch, too."""
    of = window()
    (lost,) = fly(of, 1)
    of.lost(lost, 0.0, 0.0)
    of.launched(lost)
    refuse(of, lost, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(None)
    of.take_finished()
    of.bump()
    first, *_ = fly(of, 1)
    assert stamps([first]) == [(1, 0)]
    assert not of.has_room()
    of.acknowledged(first, 0, -1)
    of.take_finished()
    fly(of, 1, 1)
    assert of.has_room()


def test_nothing_leaves_without_an_identity() -> None:
    """An idempotent window waits for its producer id; one without idempotence needs none and stamps none."""
    assert not InFlightWindow(limit=5, idempotent=True, retries=1, timeout_ms=1_000.0, grace_ms=0.0).has_room()
    bare = window(idempotent=False)
    (first,) = fly(bare, 1)
    header = read_header(first.data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_a_retry_is_the_same_bytes() -> None:
    """A lost batch is sent again exactly as it was: producer id, epoch, sequence, CRC, everything."""
    of = window()
    (first,) = fly(of, 2)
    before = bytes(first.data)
    of.lost(first, 0.0, 10.0)
    assert of.sendable(10.0) is first
    of.launched(first)
    assert bytes(first.data) == before
    assert first.attempts == 2


def test_a_retry_waits_for_its_backoff_and_nothing_passes_it() -> None:
    """While the head backs off, younger batches do not go first: that would be out of order."""
    of = window()
    in_flight_batches = fly(of, 1, 1)
    of.lost(in_flight_batches[0], 0.0, 10.0)
    of.lost(in_flight_batches[1], 0.0, 0.0)
    assert of.sendable(9.0) is None
    assert of.sendable(10.0) is in_flight_batches[0]


def test_after_a_retry_one_at_a_time_until_clean() -> None:
    """Once something is being retried, the window sends its batches singly from the head, takes nothing new, and pipelines again when
    the last retried one is acknowledged."""
    of = window()
    in_flight_batches = fly(of, 1, 1, 1)
    for each in in_flight_batches:
        of.lost(each, 0.0, 0.0)
    for place, each in enumerate(in_flight_batches):
        assert not of.has_room(), f"recovering at {place}"
        assert of.sendable(0.0) is each
        of.launched(each)
        assert of.sendable(0.0) is None, "one at a time"
        of.acknowledged(each, place, -1)
        of.take_finished()
    assert of.has_room()
    fly(of, 1, 1, 1, 1, 1)


def test_outcomes_come_in_order() -> None:
    """A younger batch's acknowledgement is published after its elder's outcome, never before."""
    of = window()
    first, second = fly(of, 1, 1)
    of.acknowledged(second, 1, -1)
    assert of.take_finished() == []
    of.acknowledged(first, 0, -1)
    assert of.take_finished() == [first, second]


def test_a_refused_batch_breaks_the_sequence_and_the_rest_is_rewritten() -> None:
    """Sequences 0 (3 records), 3 (2) and 5 (1) are in flight. 0 fails permanently, and the others are refused with 45. In epoch 1, 3
    becomes 0 and 5 becomes 2."""
    of = window()
    a, b, c = fly(of, 3, 2, 1)
    refuse(of, a, ErrorCode.INVALID_RECORD)
    assert not of.wants_bump(), "two are still on their way: their fate is not known"
    refuse(of, b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    refuse(of, c, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert not of.wants_answer(), "both were refused: neither is in the log"
    assert of.wants_bump()
    of.bump()
    assert stamps([b, c]) == [(1, 0), (1, 2)]
    assert of.take_finished() == [a]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.NO
    assert of.next_sequence == 3


def test_a_batch_in_doubt_is_never_rewritten() -> None:
    """A batch with a lost reply keeps its producer id, epoch and sequence, also when other batches fail. To change them is a bug, and an
    assertion fails."""
    of = window()
    (first,) = fly(of, 1)
    of.lost(first, 0.0, 0.0)
    with pytest.raises(AssertionError, match="may be in the log"):
        first.stamp((PID, 1), 0)


def test_what_would_follow_a_batch_in_doubt_is_not_rewritten() -> None:
    """The second batch was refused for now, the third one's reply was lost, and the broker does not tell. A topic that was made anew
    meanwhile takes any first sequence, also the third one's: the second must not follow it. The fourth may."""
    of = window()
    first, second, third, fourth = fly(of, 1, 1, 1, 1)
    for lost in (first, third):
        of.lost(lost, 0.0, 0.0)
    for refused in (second, fourth):
        refuse(of, refused, ErrorCode.NOT_ENOUGH_REPLICAS)
    of.launched(first)
    refuse(of, first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(None)
    of.bump()
    failures = [each.failure for each in of.take_finished()]
    assert [failure.persisted for failure in failures if failure] == [Persisted.MAYBE, Persisted.NO, Persisted.MAYBE]
    assert of.in_flight_batches == [fourth]
    assert stamps([fourth]) == [(1, 0)]


def test_an_acknowledged_batch_does_not_fail_with_those_around_it() -> None:
    """A batch is acknowledged, and its result waits for an earlier batch. The outcomes of that batch and of a later one stay unknown: those
    two fail with MAYBE, the acknowledged one succeeds."""
    of = window()
    a, b, c = fly(of, 1, 1, 1)
    for lost in (a, c):
        of.lost(lost, 0.0, 0.0)
    of.acknowledged(b, 1, -1)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(None)
    assert of.take_finished() == [a, b, c]
    assert (b.failure, b.base_offset) == (None, 1)
    assert [each.failure.persisted for each in (a, c) if each.failure] == [Persisted.MAYBE] * 2


def test_nothing_leaves_behind_what_was_dropped() -> None:
    """What waited to be sent again was dropped with its sequence: nothing new enters under this identity."""
    of = window()
    (a,) = fly(of, 1)
    of.lost(a, 0.0, 0.0)
    of.drop(RecordRefused, "given up")
    assert of.take_finished() == [a]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.MAYBE
    assert not of.has_room()


def test_doubt_is_asked_about_before_the_epoch_changes() -> None:
    """A broken sequence behind a batch in doubt: no bump until DescribeProducers has spoken, and the doubtful one is then failed MAYBE
    rather than rewritten."""
    of = window()
    a, b = fly(of, 1, 1)
    of.lost(a, 0.0, 0.0)
    of.lost(b, 0.0, 0.0)
    assert of.sendable(0.0) is a
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert of.wants_answer()
    assert not of.wants_bump()
    of.described(None)
    assert of.wants_bump()
    of.bump()
    assert of.take_finished() == [a, b]
    assert [each.failure.persisted for each in (a, b) if each.failure] == [Persisted.MAYBE] * 2


def test_what_the_log_holds_is_not_sent_again_but_for_the_last() -> None:
    """DescribeProducers covers both: the older one is done when the newest, sent once more, is acknowledged as a duplicate."""
    of = window()
    a, b = fly(of, 1, 1)
    for each in (a, b):
        of.lost(each, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(Known(0, b.base_sequence))
    assert a.state is State.LOGGED
    assert of.take_finished() == [], "the confirmation is still to come"
    assert of.sendable(0.0) is b
    of.launched(b)
    of.acknowledged(b, 1, -1)
    assert of.take_finished() == [a, b]
    assert a.failure is None


def test_coverage_is_seen_across_the_wrap() -> None:
    """The broker's last sequence lies behind the wrap and the batches before it: they are covered all the same."""
    of = window(first_sequence=2**31 - 2)
    a, b = fly(of, 1, 3)
    for each in (a, b):
        of.lost(each, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(Known(0, 1))
    assert a.state is State.LOGGED
    assert of.sendable(0.0) is b


def test_what_comes_next_is_simply_sent_again() -> None:
    """The log ends right before the doubtful batch: it never arrived, or is next in line: the same bytes again, no new epoch."""
    of = window()
    a, b = fly(of, 1, 1)
    of.acknowledged(a, 0, -1)
    of.take_finished()
    of.lost(b, 0.0, 0.0)
    of.launched(b)
    refuse(of, b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert of.wants_answer()
    of.described(Known(0, a.base_sequence))
    assert not of.wants_bump()
    assert of.sendable(10.0) is b
    assert stamps([b]) == [(0, 1)]


def test_after_the_last_epoch_a_new_producer_id_is_wanted() -> None:
    """Epoch 32767 cannot be bumped: the window gives its identity up, names the spent id, and rewrites under the next one."""
    of = window()
    of.adopt((PID, 32767))
    a, b = fly(of, 1, 1)
    refuse(of, a, ErrorCode.INVALID_RECORD)
    refuse(of, b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.bump()
    assert of.identity is None
    assert of.spent_pid == PID
    assert not of.has_room()
    assert of.sendable(100.0) is None
    of.adopt((PID + 1, 0))
    assert (read_header(b.data).producer_id, *stamps([b])[0]) == (PID + 1, 0, 0)


def test_a_new_producer_id_is_introduced_anew() -> None:
    """The brokers do not know the next producer id either: one batch at a time until the first acknowledgement under it."""
    of = window()
    of.adopt((PID, 32767))
    of.introduced = True
    (a,) = fly(of, 1)
    refuse(of, a, ErrorCode.INVALID_RECORD)
    of.bump()
    of.adopt((PID + 1, 0))
    of.take_finished()
    fly(of, 1)
    assert not of.has_room()


def test_retries_are_counted() -> None:
    """With `retries` used up a refused batch fails, known not to be in the log; a lost one fails as MAYBE."""
    of = window(retries=1)
    a, b = fly(of, 1, 1)
    refuse(of, a, ErrorCode.NOT_ENOUGH_REPLICAS)
    of.lost(b, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert a.failure is not None
    assert (a.failure.persisted, a.failure.attempts, a.failure.code) == (Persisted.NO, 2, ErrorCode.NOT_ENOUGH_REPLICAS)
    of = window(retries=0)
    (c,) = fly(of, 1)
    of.lost(c, 0.0, 0.0)
    assert c.failure is not None
    assert c.failure.persisted is Persisted.MAYBE


def test_the_deadline_of_what_was_never_sent() -> None:
    """A batch in the window that was refused every time and then expires is NO; the sequence after it is broken on purpose."""
    of = window()
    late = in_flight(deadline_ms=50.0)
    of.enter(late)
    of.launched(late)
    refuse(of, late, ErrorCode.NOT_ENOUGH_REPLICAS)
    of.expire(60.0)
    assert late.failure is not None
    assert late.failure.persisted is Persisted.NO
    assert of.wants_bump()


def test_the_deadline_of_what_is_in_doubt_asks_first() -> None:
    """A batch that expires in its very first attempt is asked about, and only after the grace reported as MAYBE."""
    of = window()
    late = in_flight(deadline_ms=50.0)
    of.enter(late)
    of.launched(late)
    of.expire(60.0)
    assert not late.decided
    assert of.wants_answer()
    of.expire(159.0)
    assert not late.decided
    of.expire(161.0)
    assert late.failure is not None
    assert late.failure.persisted is Persisted.MAYBE
    assert of.take_finished() == [late]
    assert not of.has_room(), "its sequence is unresolved: nothing new may leave"
    assert not of.wants_bump(), "its answer may still come"


def test_an_orphan_is_resolved_by_a_later_acknowledgement() -> None:
    """A batch failed with MAYBE, and its successor is acknowledged. So the batch was in the log: the sequence is complete, and no new epoch
    is needed."""
    of = window()
    late, later = in_flight(deadline_ms=50.0), in_flight()
    for each in (late, later):
        of.enter(each)
        of.launched(each)
    of.expire(60.0)
    of.described(None)
    of.expire(200.0)
    of.take_finished()
    of.acknowledged(later, 1, -1)
    assert of.take_finished() == [later]
    assert not of.in_flight_batches


def behind_two(*deadlines_ms: float) -> tuple[InFlightWindow, list[InFlightBatch]]:
    """A window that has had two batches acknowledged, sequences 0 and 1, and these in flight behind them."""
    of = window()
    for place, each in enumerate(fly(of, 1, 1)):
        of.acknowledged(each, place, -1)
    of.take_finished()
    in_flight_batches = [in_flight(deadline_ms=each) for each in deadlines_ms]
    for each in in_flight_batches:
        of.enter(each)
        of.launched(each)
    return of, in_flight_batches


FAR = 1e9
BEFORE_THE_SECOND = Known(0, 0)
"""The log ends before what has been acknowledged: it was cut (an unclean election)."""


def test_a_cut_log_says_nothing_about_a_batch_in_doubt() -> None:
    """The log ends before the predecessor that was acknowledged: the doubtful batch may have been in what was cut. It is neither sent again
    nor rewritten, but reported as MAYBE."""
    of, (a,) = behind_two(FAR)
    of.lost(a, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(BEFORE_THE_SECOND)
    assert a.failure is not None
    assert a.failure.persisted is Persisted.MAYBE
    assert of.wants_bump()
    of.bump()
    assert of.take_finished() == [a]


def test_what_was_reported_is_not_sent_again_while_a_later_one_is_done() -> None:
    """The leader acknowledged the later batch, and a log that was cut ends before the elder, which fails with MAYBE: it does not leave once
    more after that, and the next epoch begins."""
    of, (a, b) = behind_two(FAR, FAR)
    of.acknowledged(b, 3, -1)
    of.lost(a, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(BEFORE_THE_SECOND)
    assert of.take_finished() == [a, b]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.MAYBE
    assert b.failure is None
    assert of.sendable(0.0) is None
    assert of.wants_bump()


def test_what_is_behind_a_hole_cannot_be_in_the_log() -> None:
    """A permanently refused batch leaves a gap in the sequence. A doubtful batch behind the gap cannot be in the log, so it is rewritten
    under the next epoch."""
    of, (a, b) = behind_two(FAR, FAR)
    refuse(of, a, ErrorCode.INVALID_RECORD)
    of.lost(b, 0.0, 0.0)
    assert of.wants_answer()
    of.described(Known(0, 1))
    assert of.wants_bump()
    of.bump()
    assert not b.decided
    assert stamps([b]) == [(1, 0)]


def test_an_expiry_that_is_sure_leaves_a_hole() -> None:
    """A batch that was only ever refused and then expires is not in the log: what is behind it is rewritten, doubt or not."""
    of, (a, b) = behind_two(50.0, FAR)
    refuse(of, a, ErrorCode.NOT_ENOUGH_REPLICAS)
    of.lost(b, 0.0, 0.0)
    of.expire(60.0)
    assert a.failure is not None
    assert a.failure.persisted is Persisted.NO
    of.described(Known(0, 1))
    of.bump()
    assert stamps([b]) == [(1, 0)]


def test_an_expiry_in_doubt_leaves_none() -> None:
    """A batch that expires in doubt may be in the log and make its successor fit: after a cut of the log nothing is known of either."""
    of, (a, b) = behind_two(50.0, FAR)
    for each in (a, b):
        of.lost(each, 0.0, 0.0)
    of.expire(60.0)
    of.expire(200.0)
    assert a.decided
    of.described(BEFORE_THE_SECOND)
    assert b.failure is not None
    assert b.failure.persisted is Persisted.MAYBE


def test_an_acknowledgement_takes_back_an_unpublished_failure() -> None:
    """An expired batch waits for its elder before its futures are told. Acknowledged meanwhile, it has not failed."""
    of, (a, b) = behind_two(FAR, 50.0)
    of.expire(60.0)
    of.expire(200.0)
    assert b.decided
    assert of.take_finished() == []
    of.acknowledged(b, 3, -1)
    of.acknowledged(a, 2, -1)
    assert of.take_finished() == [a, b]
    assert b.failure is None


def test_no_batch_is_given_up_while_its_answer_may_come() -> None:
    """The broker cannot tell, but the request that it is about has not been answered: its answer decides."""
    of, (a,) = behind_two(50.0)
    of.expire(60.0)
    of.described(None)
    assert not a.decided
    of.acknowledged(a, 2, -1)
    assert of.take_finished() == [a]
    assert a.failure is None
    assert of.has_room(), "nothing is wrong with the sequence: no new epoch is needed"


@pytest.mark.parametrize("known_again", [True, False])
def test_the_newest_that_the_leader_has_is_sent_once_more(known_again: bool) -> None:
    """The leader refuses a batch's sequence, and answers that this batch is its newest. The producer sends the same bytes once more, and
    the leader acknowledges it at its offset. If the leader refuses again, the batch fails with MAYBE."""
    of, (a,) = behind_two(FAR)
    before = bytes(a.data)
    of.lost(a, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(Known(0, a.base_sequence))
    assert of.sendable(0.0) is a
    of.launched(a)
    assert bytes(a.data) == before
    if known_again:
        of.acknowledged(a, 2, -1)
        assert (a.failure, a.base_offset) == (None, 2)
    else:
        refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        of.described(Known(0, a.base_sequence))
        assert a.failure is not None
        assert a.failure.persisted is Persisted.MAYBE
    assert of.take_finished() == [a]


def test_a_batch_is_confirmed_by_a_later_one_that_was_acknowledged_before() -> None:
    """The leader had a batch when its deadline came and it was asked, and acknowledges the later one. Sent again, the elder one is too old
    to be known: it stands before the later one, is acknowledged with it at once, and where it stands."""
    of, (a, b) = behind_two(50.0, FAR)
    refuse(of, a, ErrorCode.REQUEST_TIMED_OUT)
    of.expire(60.0)
    assert of.wants_answer()
    of.described(Known(0, a.base_sequence))
    assert of.sendable(60.0) is a
    of.launched(a)
    of.acknowledged(b, 3, -1)
    assert of.take_finished() == [], "the elder one's answer is still to come"
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert of.take_finished() == [a, b]
    assert [(each.failure, each.base_offset) for each in (a, b)] == [(None, 2), (None, 3)]
    assert of.has_room(), "nothing is wrong with the sequence: no new epoch is needed"


def a_doubtful_batch_is_not_rewritten(of: InFlightWindow) -> None:
    """The next one of this line, which the leader's log does not hold: it may have been in what was cut, and fails with MAYBE."""
    (d,) = fly(of, 1)
    of.lost(d, 0.0, 0.0)
    of.launched(d)
    refuse(of, d, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(Known(1, 0))
    assert d.failure is not None
    assert d.failure.persisted is Persisted.MAYBE


def test_a_hole_ends_with_its_epoch() -> None:
    """A permanently refused batch leaves a gap in its own epoch only. In the next epoch, a doubtful batch that the log does not contain may
    have been in a truncated part, and is not rewritten."""
    of, (a, b) = behind_two(FAR, FAR)
    refuse(of, a, ErrorCode.INVALID_RECORD)
    refuse(of, b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert of.wants_bump()
    of.bump()
    of.launched(b)
    of.acknowledged(b, 2, -1)
    of.take_finished()
    (c,) = fly(of, 1)
    of.acknowledged(c, 3, -1)
    of.take_finished()
    a_doubtful_batch_is_not_rewritten(of)


def test_what_is_acknowledged_stays_so_in_another_cluster() -> None:
    """A batch was sent twice and acknowledged, and waits for an earlier batch, when the producer is led to another cluster. The earlier
    batch fails with MAYBE, because that cluster does not know it. The acknowledged batch succeeds."""
    of, (a, b) = behind_two(FAR, FAR)
    for each in (a, b):
        of.lost(each, 0.0, 0.0)
        of.launched(each)
    of.acknowledged(b, 3, -1)
    of.lost(a, 0.0, 0.0)
    of.change_cluster()
    assert of.take_finished() == [a, b]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.MAYBE
    assert (b.failure, b.base_offset) == (None, 3)


def confirmed_without_offset(deadline_ms: float) -> tuple[InFlightWindow, list[InFlightBatch]]:
    """`behind_two`, and the later of two lost batches was acknowledged: that confirms the earlier one, whose offset is not known."""
    of, (a, b) = behind_two(deadline_ms, FAR)
    for each in (a, b):
        of.lost(each, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(Known(0, b.base_sequence))
    of.launched(b)
    of.acknowledged(b, 9, -1)
    return of, [a, b]


def test_what_is_in_the_first_cluster_without_an_offset() -> None:
    """Confirmed by a later batch, its offset not yet known: the other cluster cannot tell it, and the failure says that it was
    persisted."""
    of, (a, b) = confirmed_without_offset(FAR)
    of.change_cluster()
    assert of.take_finished() == [a, b]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.YES


def test_another_cluster_is_introduced_anew() -> None:
    """The other cluster does not know the producer and takes any first sequence: one batch until its first acknowledgement. Its log does
    not go on where the first one ended: an offset that its leader does not tell is looked for from the log's beginning."""
    of, (a, b) = behind_two(FAR, FAR)
    of.acknowledged(a, 1_000, -1)
    of.acknowledged(b, 1_001, -1)
    of.take_finished()
    of.change_cluster()
    of.adopt((PID + 1, 0))
    (first,) = fly(of, 1)
    assert not of.has_room()
    assert of.offset_search.begin() == 0
    of.acknowledged(first, 0, -1)
    of.take_finished()
    fly(of, 1, 1, 1, 1, 1)


def test_an_offset_unknown_at_the_deadline_costs_no_epoch() -> None:
    """Confirmed by a later batch, and its offset not told until its deadline: the record fails with YES, its sequences are in the log, and
    the epoch goes on."""
    of, (a, b) = confirmed_without_offset(50.0)
    of.expire(60.0)
    assert of.take_finished() == [a, b]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.YES
    assert of.has_room()
    assert not of.wants_bump()


def test_nothing_new_enters_a_broken_line() -> None:
    """A batch failed permanently, and an earlier one is still being resent. New batches wait for the next epoch."""
    of, (a, b) = behind_two(FAR, FAR)
    of.lost(a, 0.0, 0.0)
    refuse(of, b, ErrorCode.INVALID_RECORD)
    of.described(Known(0, a.base_sequence))
    assert of.sendable(0.0) is a
    of.launched(a)
    of.acknowledged(a, 2, -1)
    of.take_finished()
    assert not of.has_room()
    assert of.wants_bump()


def test_an_acknowledgement_in_another_log_confirms_no_elder() -> None:
    """The first of two batches is lost with its topic. The second reaches a new topic of that name, which accepts any first sequence. Its
    offset shows that the first batch is not before it. So the first is not acknowledged with it, for every answer of the new leader, and is
    not sent under another epoch either."""
    of, (a, b) = behind_two(FAR, FAR)
    of.lost(a, 0.0, 0.0)
    of.acknowledged(b, 0, -1)
    assert of.take_finished() == [a, b]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.MAYBE
    assert (b.failure, b.base_offset) == (None, 0)
    assert of.wants_bump()


def test_another_log_is_noticed_after_a_batch_with_an_unknown_offset() -> None:
    """A batch acknowledged without an offset, as a duplicate, stands behind what came before it. If the offset of a later batch leaves no
    room for a lost one between them, it is of another log, and the lost batch fails."""
    of, (duplicate, a, b) = behind_two(FAR, FAR, FAR)
    of.acknowledged(duplicate, -1, -1)
    assert of.take_finished() == [duplicate]
    of.lost(a, 0.0, 0.0)
    of.acknowledged(b, 1, -1)
    assert of.take_finished() == [a, b]
    assert a.failure is not None
    assert a.failure.persisted is Persisted.MAYBE


def test_another_log_is_seen_between_batches_that_wait_for_their_elder() -> None:
    """Batches around a lost one are acknowledged, and their callers are not told yet. Their offsets leave no room for the lost one between
    them, so it fails. A lost batch for which there is room may still arrive."""
    of, (a, b, c, d) = behind_two(FAR, FAR, FAR, FAR)
    for each in (a, c):
        of.lost(each, 0.0, 0.0)
    of.acknowledged(b, 3, -1)
    of.acknowledged(d, 4, -1)
    assert [each.decided for each in (a, b, c, d)] == [False, False, True, False]
    assert c.failure is not None
    assert c.failure.persisted is Persisted.MAYBE


def test_what_was_sent_before_a_topic_was_made_anew_is_confirmed_by_no_later_batch() -> None:
    """A late copy of the third batch is the first that the new topic takes, at an offset that leaves just room for its elders: the new
    leader does not take those, and so they are acknowledged by nothing."""
    of, (a, b, c) = behind_two(FAR, FAR, FAR)
    of.introduce_anew()
    for each in (a, b, c):
        of.lost(each, 0.0, 0.0)
    of.launched(a)
    refuse(of, a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(Known(0, c.base_sequence))
    of.launched(b)
    refuse(of, b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.launched(c)
    of.acknowledged(c, 2, -1)
    assert of.take_finished() == [a, b, c]
    assert [each.failure.persisted for each in (a, b) if each.failure] == [Persisted.MAYBE] * 2
    assert (c.failure, c.base_offset) == (None, 2)
    assert of.wants_bump()


def test_the_parts_of_what_was_sent_before_a_topic_was_made_anew() -> None:
    """Split in the new topic, its parts may be in the log of the old one as it may: a later batch confirms none of them."""
    of, (a,) = behind_two(FAR)
    of.introduce_anew()
    of.lost(a, 0.0, 0.0)
    parts = [in_flight(), in_flight()]
    of.replace(a, parts)
    for each in parts:
        of.launched(each)
    of.lost(parts[0], 0.0, 0.0)
    of.launched(parts[0])
    refuse(of, parts[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    of.described(Known(0, parts[1].base_sequence))
    of.acknowledged(parts[1], 1, -1)
    assert of.take_finished() == parts
    assert parts[0].failure is not None
    assert parts[0].failure.persisted is Persisted.MAYBE


def test_without_sequences_a_later_batch_says_nothing_of_its_elders() -> None:
    """Without idempotence a batch that was refused for the moment is sent again, behind a later one that was acknowledged meanwhile."""
    of = window(idempotent=False)
    first, second = fly(of, 1, 1)
    refuse(of, first, ErrorCode.NOT_ENOUGH_REPLICAS)
    of.acknowledged(second, 0, -1)
    assert not first.decided
    assert of.sendable(20.0) is first
    of.launched(first)
    of.acknowledged(first, 1, -1)
    assert [each.base_offset for each in of.take_finished()] == [1, 0]


def test_a_hole_ends_with_its_transaction() -> None:
    """The coordinator gives the next epoch. A hole that a refusal left in the previous transaction tells nothing of a doubtful batch of
    this one, which may be in what was cut."""
    of, (a,) = behind_two(FAR)
    refuse(of, a, ErrorCode.INVALID_RECORD)
    of.spoil()
    of.take_finished()
    of.begin((PID, 1))
    for offset in (2, 3):
        (each,) = fly(of, 1)
        of.acknowledged(each, offset, -1)
        of.take_finished()
    a_doubtful_batch_is_not_rewritten(of)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, "another process took the transactional id over, or the transaction timed out"),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the partition's sequence is broken"),
    ],
)
def test_why_a_transaction_cannot_go_on(code: ErrorCode, words: str) -> None:
    """A zombie's records fail with what a zombie has to know, and those behind a gap with the gap."""
    of = window()
    first, second = fly(of, 1, 1)
    refuse(of, first, code)
    refuse(of, second, code)
    of.spoil()
    assert [words in str(each.failure) for each in of.take_finished()] == [True, True]


def test_a_brokers_time_that_is_also_the_newest_records() -> None:
    """A first answer that names a time is about a topic with the broker's time, also where that is the very millisecond of the newest
    record: the others of the batch have it, too. Of a batch that was sent before it may be the record's own, and says nothing."""
    of = window()
    for attempts, told in ((1, 1_700_000_000_000), (2, -1)):
        (each,) = fly(of, 1)
        if attempts > 1:
            of.lost(each, 0.0, 0.0)
            of.launched(each)
        of.acknowledged(each, attempts, 1_700_000_000_000)
        assert each.log_append_time == told
