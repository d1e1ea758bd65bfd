"""One partition's window of unresolved batches: at most five, in sequence order, counted across connections.

The broker remembers five batches per producer and partition. With a sixth batch in flight, it could fail to recognise a retry. A batch is
stamped with its sequences once, when it enters. A batch that may be in the log is only sent again with the same sequences. After a retry
the window sends one batch at a time, the oldest first, until no batch is unresolved. If the sequence is broken (a batch failed, or the
broker expects another number), the window heals. Then no new batch is sent, and DescribeProducers (KIP-664) tells which doubtful batches
the leader has. Only batches that are certainly not in the log are rewritten with the next epoch (KIP-360), which this partition bumps by
itself.

The response of DescribeProducers is a hint: this leader, in this leader epoch, has these batches, below or above its high watermark. The
next leader may not have them. A change of the leader, its epoch or the topic invalidates the hint. With acks=all, a successful Produce
response means that every in-sync replica has the batch. It acknowledges the batch itself, and all earlier batches with the same identity:
a leader accepts sequences without gaps, so the earlier batches come before it in the same log. A topic that was created again accepts any
first sequence. So batches that were sent before the producer learned of it are only acknowledged by their own response.

The window sends, asks and publishes nothing itself. The core does, and calls `sendable`, `wants_answer`, `wants_bump` and `take_finished`
to know when.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fencepost.producer.accumulator.batch import UNTOLD
from fencepost.producer.core.cluster.view import Leadership
from fencepost.producer.core.error_table import ErrorAction, Landed, Row
from fencepost.producer.core.idempotence.epoch_bump import next_epoch
from fencepost.producer.core.idempotence.in_flight_batch import NO_IDENTITY, NO_SEQUENCE, InFlightBatch, State
from fencepost.producer.core.idempotence.offset_search import OffsetSearch
from fencepost.producer.core.idempotence.sequence import distance
from fencepost.producer.errors import DeliveryError, DeliveryFatal, DeliveryTimeout, DeliveryUnknown, Persisted, RecordRefused, plain
from fencepost.producer.wire.codes import ErrorCode

BROKEN: Final = "the partition's sequence is broken, and a transaction cannot continue with another epoch: abort it"
OVERTAKEN: Final = (
    "the partition has seen a newer epoch of this producer id: another process took the transactional id over, or the transaction "
    "timed out; abort it"
)
RETRIED: Final = (ErrorAction.RETRY, ErrorAction.REFRESH, ErrorAction.HEAL)


class Known(Struct, frozen=True):
    """The state of our producer id on one partition, from DescribeProducers."""

    epoch: int
    last_sequence: int


class InFlightWindow:
    """See the module. `limit`: max_in_flight. `idempotent`: without it there is no identity, and a doubtful batch is simply sent again.

    `healing`: nothing is sent until the broker was asked or the next epoch begins. `_over`: some sequences will never be acknowledged, so
    nothing new enters with this epoch. `_hole`: some of those are certainly not in the log. `offset_search`: finds unplaced batches.
    """

    def __init__(self, *, limit: int, idempotent: bool, retries: int, timeout_ms: float, grace_ms: float) -> None:
        self.in_flight_batches: list[InFlightBatch] = []
        self.identity: tuple[int, int] | None = None
        self.next_sequence = 0
        self.first_sequence = 0
        self.introduced = False
        self.launches = 0
        self.recovering = False
        self.healing = False
        self.spent_pid: int | None = None
        self.hint: Known | None = None
        self._over = False
        self._hole = False
        self._leadership: Leadership | None = None
        self.offset_search = OffsetSearch()
        self._limit = limit
        self._idempotent = idempotent
        self._retries = retries
        self._timeout_ms = timeout_ms
        self._grace_ms = grace_ms

    # -- sending -----------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether a fresh batch may enter: the window is clean, below its limit, and has an identity to stamp.

        Until a partition has acknowledged a first batch of the producer id, the limit is one. A broker that does not know the id accepts
        any first sequence. So it could append a second batch after it refused the first, and then refuse the first forever. The window
        waits for a first acknowledgement again in the cases that docs/journey.md lists ("One batch at a time").
        """
        limit = self._limit if self.introduced or not self._idempotent else 1
        return self._has_identity() and not (self.recovering or self.healing or self._over) and len(self.in_flight_batches) < limit

    def enter(self, in_flight: InFlightBatch) -> None:
        """Stamp a fresh batch and append it to the window."""
        if self._idempotent:
            assert self.identity is not None
            in_flight.stamp(self.identity, self.next_sequence)
            self.next_sequence = in_flight.next_sequence
        else:
            in_flight.stamp(NO_IDENTITY, NO_SEQUENCE)
        self.in_flight_batches.append(in_flight)

    def sendable(self, now_ms: float) -> InFlightBatch | None:
        """The batch to send now: while recovering only the oldest unresolved one, otherwise the oldest that has not been sent."""
        if self.healing or not self._has_identity():
            return None
        for in_flight in self.in_flight_batches:
            if in_flight.state is State.WAITING:
                return in_flight if in_flight.not_before_ms <= now_ms else None
            if self.recovering and in_flight.state is State.FLYING:
                return None
        return None

    def launched(self, in_flight: InFlightBatch) -> None:
        """The batch is being written to a socket."""
        in_flight.state = State.FLYING
        in_flight.unrecognised = False
        in_flight.attempts += 1
        self.launches += 1

    # -- answers -----------------------------------------------------------------------------------------------------

    def acknowledged(self, in_flight: InFlightBatch, base_offset: int, log_append_time: int) -> None:
        """The broker has the batch, from this attempt or an earlier one. Orphans before it, and batches that the leader is known to have,
        are resolved with it."""
        in_flight.state = State.ACKED
        self.introduced = True
        if not in_flight.published:
            in_flight.failure = None
        in_flight.base_offset = base_offset
        # For a duplicate the broker returns the batch's newest timestamp, even if that is the producer's own.
        known_again = in_flight.attempts > 1 and log_append_time == in_flight.max_timestamp
        in_flight.log_append_time = -1 if known_again else log_append_time
        # Without sequences, a later batch tells nothing about earlier ones, which may come after it in the log.
        if self._idempotent and in_flight is not self.in_flight_batches[0]:
            self._confirm()
        self._calm()

    def refused(self, in_flight: InFlightBatch, row: Row, code: int, now_ms: float, backoff_ms: float, message: str = "") -> None:
        """The broker answered with an error."""
        in_flight.last_code = code
        in_flight.last_failure = message or row.why
        in_flight.state = State.WAITING
        in_flight.doubt = in_flight.doubt or row.landed is not Landed.NO
        in_flight.appended = in_flight.appended or row.landed is Landed.YES
        in_flight.unrecognised = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if row.action in RETRIED and self._may_repeat(in_flight):
            self._again(in_flight, now_ms + backoff_ms)
            if row.action is ErrorAction.HEAL and self._idempotent and self._is_head(in_flight):
                if in_flight.unrecognised and self._has_also_a_later(in_flight):
                    in_flight.state = State.LOGGED
                    self._confirm()
                else:
                    self.healing = True
        else:
            kind = DeliveryFatal if row.action is ErrorAction.FATAL else RecordRefused
            self._fail(in_flight, f"refused by the broker: {message or row.why}", kind=kind)

    def lost(self, in_flight: InFlightBatch, now_ms: float, backoff_ms: float) -> None:
        """The connection was lost or closed before the response."""
        in_flight.doubt = True
        if self._may_repeat(in_flight):
            self._again(in_flight, now_ms + backoff_ms)
        else:
            self._fail(in_flight, "the connection was lost and no retries are left", kind=DeliveryUnknown)

    def too_large(self, in_flight: InFlightBatch) -> None:
        """The leader refuses the size of a batch that it may have from an earlier attempt: ask it before splitting the batch."""
        in_flight.state = State.WAITING
        in_flight.oversized = in_flight.unrecognised = in_flight.insisted = (
            True  # The broker checks the size before the sequence, so it cannot recognise a duplicate.
        )
        self.healing = self.recovering = True

    def to_split(self) -> InFlightBatch | None:
        """The batch that must be split: the leader refuses its size, and does not have it.

        If the size limit is raised meanwhile, a late copy of an earlier attempt may still arrive. It duplicates nothing, because the parts
        keep the sequences. After the first part, the broker refuses the copy. Before the first part, the broker appends the copy and
        refuses the parts, and the window then asks about them.
        """
        if self.healing or self._flying():
            return None
        in_flight = next((in_flight for in_flight in self.in_flight_batches if in_flight.state is State.WAITING), None)
        return in_flight if in_flight is not None and in_flight.oversized and not in_flight.decided else None

    def replace(self, in_flight: InFlightBatch, pieces: list[InFlightBatch]) -> None:
        """Replace a batch that was too large by its parts, with the same sequences. They inherit its doubt."""
        place = self.in_flight_batches.index(in_flight)
        sequence = in_flight.base_sequence
        for piece in pieces:
            piece.stamp(in_flight.identity, sequence)
            piece.doubt = in_flight.doubt
            piece.sent_before_recreation = in_flight.sent_before_recreation
            piece.deadline_ms, piece.in_grace = in_flight.deadline_ms, in_flight.in_grace
            sequence = piece.next_sequence if self._idempotent else NO_SEQUENCE
        self.in_flight_batches[place : place + 1] = pieces
        self.recovering = True

    # -- deadlines ---------------------------------------------------------------------------------------------------

    def expire(self, now_ms: float) -> None:
        """Fail batches after their delivery deadline. A doubtful batch gets a short grace period (`resolve_grace_ms`), in which the broker
        is asked."""
        for in_flight in self.in_flight_batches:
            if in_flight.decided or in_flight.deadline_ms > now_ms or in_flight.placed:
                continue
            # Without a grace period there would be no later deadline, so the batch expires now.
            if self._idempotent and in_flight.persisted is Persisted.MAYBE and not in_flight.in_grace and now_ms + self._grace_ms > now_ms:
                in_flight.in_grace = in_flight.asking = True
                in_flight.deadline_ms = now_ms + self._grace_ms
            else:
                self._expire(in_flight)

    def _expire(self, in_flight: InFlightBatch) -> None:
        limit = f"delivery_timeout_ms={plain(self._timeout_ms)}"
        in_flight.fail(DeliveryTimeout, f"no acknowledgement within {limit}{in_flight.newest_attempt()}")
        if not in_flight.unresolved:
            return
        sure = in_flight.persisted is Persisted.NO
        if sure or (not self._idempotent and in_flight.state is State.WAITING):
            in_flight.state = State.FAILED
        self._broken(hole=sure)

    def deadlines(self) -> list[float]:
        """The delivery deadlines of batches without an outcome, in ms."""
        return [in_flight.deadline_ms for in_flight in self.in_flight_batches if not in_flight.decided and not in_flight.placed]

    def backoff_until(self) -> float:
        """When the next batch may be sent, in ms; 0 if none waits."""
        return (
            next((in_flight.not_before_ms for in_flight in self.in_flight_batches if in_flight.state is State.WAITING), 0.0)
            if not self.healing
            else 0.0
        )

    # -- healing -----------------------------------------------------------------------------------------------------

    def wants_answer(self) -> bool:
        """Whether the broker must be asked which batches its log has."""
        waiting = [in_flight for in_flight in self.in_flight_batches if in_flight.unresolved and not in_flight.decided]
        if any(in_flight.asking for in_flight in waiting):
            return True
        return self.healing and not self._flying() and any(in_flight.doubt for in_flight in waiting)

    def wants_bump(self) -> bool:
        """Whether the next epoch may begin: each batch is certainly not in the log, or its failure is decided."""
        if not (self.healing or self._over) or self.identity is None or self._flying() or self.wants_answer():
            return False
        return not any(in_flight.unresolved and in_flight.doubt and not in_flight.decided for in_flight in self.in_flight_batches)

    def described(self, known: Known | None) -> None:
        """Use a DescribeProducers response; None: the broker cannot tell."""
        open_batches = [in_flight for in_flight in self.in_flight_batches if in_flight.unresolved]
        for in_flight in open_batches:
            in_flight.asking = False
        if not open_batches:
            return
        if known is None or known.epoch != open_batches[0].identity[1] or known.last_sequence < 0:
            if not self._flying():
                self._give_up(open_batches)
            return
        start = open_batches[0].base_sequence
        covered = distance(start, known.last_sequence) + 1
        missing = [in_flight for in_flight in open_batches if distance(start, in_flight.base_sequence) >= covered]
        found = open_batches[: len(open_batches) - len(missing)]
        self.hint = known
        for in_flight in missing:
            if in_flight.state is State.LOGGED:
                self._again(in_flight, 0.0)
        for in_flight in found:
            in_flight.doubt = True
            if in_flight.state is State.WAITING:
                in_flight.not_before_ms = 0.0
                if in_flight.unrecognised and (in_flight is not found[-1] or in_flight.insisted):
                    in_flight.state = State.LOGGED
                in_flight.insisted = in_flight.insisted or in_flight is found[-1]
        self._confirm()
        if any(in_flight.state is State.WAITING for in_flight in found):
            self.healing = False  # Sent again, the broker recognises them by their sequence, and returns their offset.
            self.recovering = True
        elif missing and not self._flying():
            self._judge_missing(missing, expected=distance(start, missing[0].base_sequence) == covered)
        if self.healing and not self._flying():
            self._give_up([in_flight for in_flight in found if in_flight.state is State.LOGGED])
        if not self._over and not any(in_flight.unresolved for in_flight in self.in_flight_batches):
            self.healing = False
        self._calm()

    def led_by(self, leadership: Leadership) -> None:
        """The partition's leader, leader epoch or topic may have changed. Then the hint is void, and batches that only the old leader is
        known to have are sent again with the same sequences."""
        if leadership == self._leadership:
            return
        self._leadership = leadership
        self.hint = None
        for in_flight in self.in_flight_batches:
            in_flight.unrecognised = in_flight.insisted = in_flight.oversized = False
            if in_flight.state is State.LOGGED:
                self._again(in_flight, 0.0)

    def _has_also_a_later(self, in_flight: InFlightBatch) -> bool:
        """Whether the leader is known to have the batch and a later one. Then the batch needs no acknowledgement of its own: that of the
        later one confirms it."""
        hint = self.hint
        if hint is None or hint.epoch != in_flight.identity[1] or distance(in_flight.base_sequence, hint.last_sequence) < 0:
            return False
        later = self.in_flight_batches[self.in_flight_batches.index(in_flight) + 1 :]
        return any(
            other.state is State.ACKED
            or (other.state in (State.WAITING, State.FLYING) and distance(other.base_sequence, hint.last_sequence) >= 0)
            for other in later
        )

    def _confirm(self) -> None:
        """Acknowledge every batch before an acknowledged one, if the leader is known to have it, or if its failure is decided."""
        self._look_for_another_log()
        later = False
        for in_flight in reversed(self.in_flight_batches):
            if in_flight.state is State.ACKED:
                later = True
            elif later and in_flight.unresolved and (in_flight.decided or in_flight.state is State.LOGGED):
                if in_flight.sent_before_recreation:
                    self._fail_in_old_log(in_flight)
                    continue
                in_flight.state = State.ACKED
                in_flight.unplaced = not in_flight.decided
                self.offset_search.read_again()
                if in_flight.failure is not None and not in_flight.published:
                    in_flight.fail(type(in_flight.failure), in_flight.failure.reason)
        self._place_between()

    def _look_for_another_log(self) -> None:
        """Notice that the topic was created again: an acknowledged batch has an offset that is too low for the earlier batches before it.
        It went to the new topic, where brokers accept any first sequence. Requests with topic ids (Kafka 4.1) never go to the wrong topic.

        The earlier batches are not in the new topic. They fail, because they would come after the later one.
        """
        end = self.offset_search.end_offset
        elders: list[InFlightBatch] = []
        for in_flight in self.in_flight_batches:
            if in_flight.state is State.ACKED and in_flight.base_offset >= 0:
                if in_flight.base_offset < end + sum(each.count for each in elders):
                    self.offset_search.start_over()
                    for elder in elders:
                        self._fail_in_old_log(elder)
                elders = []
                end = in_flight.base_offset + in_flight.count
            elif in_flight.unresolved and not in_flight.published:
                elders.append(in_flight)

    def _fail_in_old_log(self, in_flight: InFlightBatch) -> None:
        """Fail a batch that may be in the log of the deleted topic: a later batch is in the log of the new topic of that name."""
        if not in_flight.decided:
            in_flight.fail(DeliveryUnknown, "the topic was deleted and created again while the record was in flight")
        in_flight.state = State.FAILED
        self._broken(hole=False)

    def _place_between(self) -> None:
        """Set the offsets of batches that a later batch confirmed, if they exactly fill the space between their neighbours. With
        LogAppendTime, their timestamps stay unknown."""
        between: list[InFlightBatch] = []
        end = self.offset_search.end_offset
        for in_flight in self.in_flight_batches:
            if in_flight.state is State.ACKED and in_flight.base_offset >= 0:
                if in_flight.base_offset - end == sum(each.count for each in between):
                    for each in between:
                        each.place(end, UNTOLD if in_flight.log_append_time >= 0 else -1)
                        end += each.count
                between = []
                end = in_flight.base_offset + in_flight.count
            elif in_flight.state is not State.FAILED:
                between.append(in_flight)

    def _judge_missing(self, missing: list[InFlightBatch], *, expected: bool) -> None:
        """Decide about batches that the log does not have now. A doubtful batch could still arrive, unless a batch before it never will."""
        doubtful = [in_flight for in_flight in missing if in_flight.doubt and not in_flight.decided]
        if expected and (doubtful or not self.healing):
            self.healing = False
            self.recovering = True
        elif not expected and self._hole:
            for in_flight in missing:
                in_flight.doubt = in_flight.decided
            self.healing = True
        else:
            self._give_up(doubtful)

    def _give_up(self, in_flight_batches: list[InFlightBatch]) -> None:
        """The broker cannot tell whether these batches are in the log: fail the doubtful ones, and begin a new epoch. Earlier batches that
        are not in the log fail, too, because they would come after a batch that may be in the log."""
        given_up = [in_flight for in_flight in in_flight_batches if in_flight.doubt and not in_flight.decided]
        for in_flight in given_up:
            kind = DeliveryTimeout if in_flight.in_grace else DeliveryUnknown
            in_flight.fail(kind, "the record was sent, and no broker can tell whether it is in the log")
        for elder in self.in_flight_batches[: self.in_flight_batches.index(given_up[-1])] if given_up else []:
            if elder.unresolved and not elder.decided:
                elder.fail(RecordRefused, "the record was not sent again, because a later batch may be in the log")
        self.healing = True

    def bump(self) -> None:
        """Begin the next epoch of this partition: drop orphans, and rewrite the other batches from sequence 0. After the last epoch a new
        producer id is needed."""
        assert self.identity is not None
        for in_flight in self.in_flight_batches:
            if in_flight.decided and in_flight.unresolved:
                in_flight.state = State.FAILED
        self._hole = self.introduced = False
        following = next_epoch(self.identity)
        if following is not None:
            self.adopt(following)
        else:
            self.spent_pid = self.identity[0]
            self.identity = None

    def adopt(self, identity: tuple[int, int]) -> None:
        """Take an identity, and stamp every waiting batch with it."""
        self.identity = identity
        self.next_sequence, self.first_sequence = self.first_sequence, 0
        self.healing = self._over = False
        self.hint = None
        for in_flight in self.in_flight_batches:
            if in_flight.state is State.WAITING:
                in_flight.stamp(identity, self.next_sequence)
                self.next_sequence = in_flight.next_sequence
        self._calm()

    def spoil(self) -> None:
        """The sequence is broken, and in a transaction the partition must not bump the epoch: fail every batch."""
        overtaken = any(each.last_code == ErrorCode.INVALID_PRODUCER_EPOCH for each in self.in_flight_batches)
        self.drop(RecordRefused, OVERTAKEN if overtaken else BROKEN)
        self._calm()

    def drop(self, kind: type[DeliveryError], reason: str) -> None:
        """Fail every batch that waits to be sent, also again. Its sequences stay unused, so nothing new is sent with this identity."""
        for in_flight in self.in_flight_batches:
            if in_flight.state in (State.WAITING, State.LOGGED):
                if not in_flight.decided:
                    in_flight.fail(kind, reason)
                in_flight.state = State.FAILED
                self.healing = True

    def begin(self, identity: tuple[int, int], first: int | None = None) -> None:
        """Take the identity of the next transaction. The window is empty. `first`: the next sequence, if another process wrote to the
        partition; then the window waits for a first acknowledgement again."""
        assert not self.in_flight_batches, "an identity never changes under a batch"
        self._hole = self.recovering = False
        if first is not None:
            self.first_sequence = first
            self.introduced = False
        self.adopt(identity)

    def change_cluster(self) -> None:
        """From now on the producer writes to another cluster. Batches that may be in the old cluster's log fail, because no broker there
        can be asked. The others are stamped again. No request is in flight, because every connection was closed."""
        for in_flight in self.in_flight_batches:
            if in_flight.doubt and not in_flight.decided and not in_flight.placed:
                in_flight.fail(DeliveryUnknown, "the record was sent to another cluster than the one that bootstrap_servers lead to now")
            if in_flight.decided:
                in_flight.state = State.FAILED
        self.identity = self.spent_pid = None
        self.healing = self._over = self._hole = False
        self.hint = None
        self.introduce_anew()
        self.next_sequence = self.first_sequence = 0
        self._calm()

    def introduce_anew(self) -> None:
        """From now on the log has no state of this producer: the broker accepts any first sequence, also a late one."""
        self.introduced = False
        for in_flight in self.in_flight_batches:
            in_flight.sent_before_recreation = in_flight.attempts > 0
        self.offset_search.start_over()

    # -- outcomes ----------------------------------------------------------------------------------------------------

    def take_finished(self) -> list[InFlightBatch]:
        """Batches whose outcome can be published now, in order: none before an earlier batch without an outcome."""
        finished: list[InFlightBatch] = []
        for in_flight in self.in_flight_batches:
            if in_flight.published:
                continue
            if not (in_flight.decided or in_flight.placed):
                break
            in_flight.published = True
            if in_flight.base_offset >= 0:
                self.offset_search.end_offset = in_flight.base_offset + in_flight.count
            finished.append(in_flight)
        self.in_flight_batches = [in_flight for in_flight in self.in_flight_batches if not in_flight.published or in_flight.unresolved]
        self._calm()
        return finished

    def fail_all(self, kind: type[DeliveryError], reason: str, code: int) -> None:
        """The producer failed: fail every batch."""
        for in_flight in self.in_flight_batches:
            if not in_flight.decided and not in_flight.placed:
                in_flight.fail(kind, reason, code=code)
            in_flight.state = State.FAILED if in_flight.unresolved else in_flight.state

    def wants_offsets(self) -> bool:
        """Whether a batch is in the log at an unknown offset, so that the log must be read."""
        return any(in_flight.unplaced and not in_flight.decided for in_flight in self.in_flight_batches)

    # -- small print -------------------------------------------------------------------------------------------------

    def _may_repeat(self, in_flight: InFlightBatch) -> bool:
        """Whether the batch may be sent again. Without sequences, no later batch depends on a failed one, and sending it again would write
        a record that failed."""
        return in_flight.attempts <= self._retries and (self._idempotent or not in_flight.decided)

    def _again(self, in_flight: InFlightBatch, not_before_ms: float) -> None:
        in_flight.state = State.WAITING
        in_flight.not_before_ms = not_before_ms
        self.recovering = True

    def _fail(self, in_flight: InFlightBatch, reason: str, *, kind: type[DeliveryError] = RecordRefused) -> None:
        if not in_flight.decided:
            in_flight.fail(kind, reason)
        in_flight.state = State.FAILED
        self._broken(hole=not in_flight.doubt)

    def _broken(self, *, hole: bool) -> None:
        """A batch's sequences will never be acknowledged: the next epoch must begin before a new batch is sent."""
        if self._idempotent:
            self.healing = self._over = True
            self._hole = self._hole or hole

    def _has_identity(self) -> bool:
        return self.identity is not None or not self._idempotent

    def _flying(self) -> bool:
        return any(in_flight.state is State.FLYING for in_flight in self.in_flight_batches)

    def _is_head(self, in_flight: InFlightBatch) -> bool:
        """Whether every earlier batch is resolved or known to be at the leader. Otherwise an earlier batch could still make the sequence
        fit."""
        return next((s for s in self.in_flight_batches if s.state in (State.WAITING, State.FLYING)), None) is in_flight

    def _calm(self) -> None:
        """End the recovery if no batch is unresolved: the window then sends several batches at a time again."""
        if self.recovering and not any(in_flight.unresolved for in_flight in self.in_flight_batches):
            self.recovering = False
            self.hint = None
