"""One partition's window of unresolved batches: at most five, in sequence order, counted across connections.

The broker remembers five batches per producer and partition, so a sixth on its way could make a retry unrecognisable. Sequences are
stamped once, when a batch enters; a batch that may be in the log is only ever sent again with the same ones. After a retry the window
is resent one batch at a time, from its head, until it is clean. When the sequence is broken (a batch failed, or the broker expects
another number) the window heals: nothing new leaves, what is doubtful is asked of the broker (DescribeProducers, KIP-664), and only
what is known not to be in the log is rewritten under the next epoch (KIP-360, bumped locally and for this partition alone).

What DescribeProducers tells is a hint: this leader, in this leader epoch, has so much of ours, below or above its high watermark, and the
next leader may lead without it. A hint is void when the leader, its epoch or the topic changes. A batch is acknowledged by an answer of
success, which acks=all makes the word of every in-sync replica, for itself or for a later batch of its sequence line: a leader takes
sequences without gaps, so the elder stands before the later one in that log, and is as safe. A topic that was made anew takes any first
sequence: what was sent before that was known is acknowledged by its own answer alone.

It sends nothing, asks nothing and settles nothing itself: `core` does, told by `sendable`, `wants_answer`, `wants_bump` and
`take_finished`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fencepost.producer.accumulator.batch import UNTOLD
from fencepost.producer.core.cluster.view import Leadership
from fencepost.producer.core.error_table import ErrorAction, Landed, Row
from fencepost.producer.core.idempotence.in_flight_batch import NO_IDENTITY, NO_SEQUENCE, InFlightBatch, State
from fencepost.producer.core.idempotence.sequence import EPOCH_MAX, distance
from fencepost.producer.errors import DeliveryError, DeliveryFatal, DeliveryTimeout, DeliveryUnknown, Persisted, RecordRefused
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records.batch_header import BatchHeader

RETRIED: Final = (ErrorAction.RETRY, ErrorAction.REFRESH, ErrorAction.HEAL)


class Known(Struct, frozen=True):
    """What DescribeProducers says of our producer id on one partition."""

    epoch: int
    last_sequence: int


class InFlightWindow:
    """See the module. `limit`: max_in_flight. `idempotent`: without it there is no identity, and doubt is simply sent again.

    `healing`: nothing leaves until the broker has been asked or the next epoch begins. `_over`: some sequences will never be acknowledged,
    so nothing new enters under this epoch. `_hole`: some of them are certain not to be in the log. `_end_offset`: what entered last and is
    done ends there, so all that is here stands at or after it. `_looked_to`: where the log was read to, for what is unplaced; `_looking`:
    it is being read, and what the answer shows still counts.
    """

    def __init__(self, *, limit: int, idempotent: bool, retries: int, grace_ms: float) -> None:
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
        self._end_offset = 0
        self._looked_to = 0
        self._looking = False
        self._limit = limit
        self._idempotent = idempotent
        self._retries = retries
        self._grace_ms = grace_ms

    # -- sending -----------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether a fresh batch may enter: the window is clean, below its limit, and has an identity to stamp.

        Until a partition has acknowledged a first batch of the producer id there is only one at a time: a broker that does not know the id
        accepts whichever sequence comes first, so a second batch could land while the first is refused, and lock it out. The same after a
        bump: what made it necessary may be that the broker knows the id no more.
        """
        limit = self._limit if self.introduced or not self._idempotent else 1
        return self._has_identity() and not (self.recovering or self.healing or self._over) and len(self.in_flight_batches) < limit

    def enter(self, in_flight: InFlightBatch) -> None:
        """Stamp a fresh batch and line it up."""
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
        """The batch's bytes are on their way to a socket."""
        in_flight.state = State.FLYING
        in_flight.unrecognised = False
        in_flight.attempts += 1
        self.launches += 1

    # -- answers -----------------------------------------------------------------------------------------------------

    def acknowledged(self, in_flight: InFlightBatch, base_offset: int, log_append_time: int) -> None:
        """The broker has the batch, now or since an earlier attempt. Orphans before it, and what the leader has, are resolved with it."""
        in_flight.state = State.ACKED
        self.introduced = True
        if not in_flight.published:
            in_flight.failure = None
        in_flight.base_offset = base_offset
        # Of a batch that it knows again the broker tells the newest timestamp in it, also where that is the producer's own.
        known_again = in_flight.attempts > 1 and log_append_time == in_flight.max_timestamp
        in_flight.log_append_time = -1 if known_again else log_append_time
        # Without sequences a later batch says nothing of its elders, which may well follow it.
        if self._idempotent and in_flight is not self.in_flight_batches[0]:
            self._confirm()
        self._calm()

    def refused(self, in_flight: InFlightBatch, row: Row, code: int, now_ms: float, backoff_ms: float, message: str = "") -> None:
        """The broker answered with an error."""
        in_flight.last_code = code
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
        """The connection died, or was given up, before the answer."""
        in_flight.doubt = True
        if self._may_repeat(in_flight):
            self._again(in_flight, now_ms + backoff_ms)
        else:
            self._fail(in_flight, "the connection was lost and no retries are left", kind=DeliveryUnknown)

    def too_large(self, in_flight: InFlightBatch) -> None:
        """The leader refuses the size of a batch that an earlier attempt may have brought into its log: it is asked first."""
        in_flight.state = State.WAITING
        in_flight.oversized = in_flight.unrecognised = in_flight.insisted = (
            True  # Its size is looked at before its sequence: it is not known again.
        )
        self.healing = self.recovering = True

    def to_split(self) -> InFlightBatch | None:
        """The batch that has to be split: the leader refuses its size, and does not have it.

        A late copy of an earlier attempt may still arrive, where the limit is raised again. It doubles nothing, because the parts keep the
        sequences: behind the first of them it does not fit, and before it, it makes the parts not fit, which are then asked about.
        """
        if self.healing or self._flying():
            return None
        in_flight = next((in_flight for in_flight in self.in_flight_batches if in_flight.state is State.WAITING), None)
        return in_flight if in_flight is not None and in_flight.oversized and not in_flight.decided else None

    def replace(self, in_flight: InFlightBatch, pieces: list[InFlightBatch]) -> None:
        """Put the parts of a batch that was too large in its place, on the same sequences. What may be true of it may be of them."""
        place = self.in_flight_batches.index(in_flight)
        sequence = in_flight.base_sequence
        for piece in pieces:
            piece.stamp(in_flight.identity, sequence)
            piece.doubt = in_flight.doubt
            piece.astray = in_flight.astray
            piece.deadline_ms, piece.in_grace = in_flight.deadline_ms, in_flight.in_grace
            sequence = piece.next_sequence if self._idempotent else NO_SEQUENCE
        self.in_flight_batches[place : place + 1] = pieces
        self.recovering = True

    # -- deadlines ---------------------------------------------------------------------------------------------------

    def expire(self, now_ms: float) -> None:
        """Fail what is past its delivery deadline; what is in doubt gets a short grace in which the broker is asked."""
        for in_flight in self.in_flight_batches:
            if in_flight.decided or in_flight.deadline_ms > now_ms or in_flight.placed:
                continue
            # Of no grace nobody would be reminded: it ends when it begins.
            if self._idempotent and in_flight.persisted is Persisted.MAYBE and not in_flight.in_grace and now_ms + self._grace_ms > now_ms:
                in_flight.in_grace = in_flight.asking = True
                in_flight.deadline_ms = now_ms + self._grace_ms
            else:
                self._expire(in_flight)

    def _expire(self, in_flight: InFlightBatch) -> None:
        in_flight.fail(DeliveryTimeout, "no acknowledgement within delivery_timeout_ms")
        if not in_flight.unresolved:
            return
        sure = in_flight.persisted is Persisted.NO
        if sure or (not self._idempotent and in_flight.state is State.WAITING):
            in_flight.state = State.FAILED
        self._broken(hole=sure)

    def deadlines(self) -> list[float]:
        """The delivery deadlines of what has no outcome yet, in ms."""
        return [in_flight.deadline_ms for in_flight in self.in_flight_batches if not in_flight.decided and not in_flight.placed]

    def backoff_until(self) -> float:
        """When the batch to be sent next may be, in ms; 0 when nothing waits."""
        return (
            next((in_flight.not_before_ms for in_flight in self.in_flight_batches if in_flight.state is State.WAITING), 0.0)
            if not self.healing
            else 0.0
        )

    # -- healing -----------------------------------------------------------------------------------------------------

    def wants_answer(self) -> bool:
        """Whether the broker should be asked what its log holds of ours."""
        waiting = [in_flight for in_flight in self.in_flight_batches if in_flight.unresolved and not in_flight.decided]
        if any(in_flight.asking for in_flight in waiting):
            return True
        return self.healing and not self._flying() and any(in_flight.doubt for in_flight in waiting)

    def wants_bump(self) -> bool:
        """Whether everything left is known not to be in the log, or already reported, so that the next epoch may begin."""
        if not (self.healing or self._over) or self.identity is None or self._flying() or self.wants_answer():
            return False
        return not any(in_flight.unresolved and in_flight.doubt and not in_flight.decided for in_flight in self.in_flight_batches)

    def described(self, known: Known | None) -> None:
        """Draw the conclusions from DescribeProducers; None: the broker cannot tell."""
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
            self.healing = False  # Sent again they are known by their sequence, and answered with their offset.
            self.recovering = True
        elif missing and not self._flying():
            self._judge_missing(missing, expected=distance(start, missing[0].base_sequence) == covered)
        if self.healing and not self._flying():
            self._give_up([in_flight for in_flight in found if in_flight.state is State.LOGGED])
        if not self._over and not any(in_flight.unresolved for in_flight in self.in_flight_batches):
            self.healing = False
        self._calm()

    def led_by(self, leadership: Leadership) -> None:
        """Under another leader, leader epoch or topic what the one that was asked has may be gone: it goes again, under its sequence."""
        if leadership == self._leadership:
            return
        self._leadership = leadership
        self.hint = None
        for in_flight in self.in_flight_batches:
            in_flight.unrecognised = in_flight.insisted = in_flight.oversized = False
            if in_flight.state is State.LOGGED:
                self._again(in_flight, 0.0)

    def _has_also_a_later(self, in_flight: InFlightBatch) -> bool:
        """Whether the leader is known to have the batch and one after it, so that this one need not be known again: it is confirmed by the
        later one."""
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
        """Whatever the leader has, or was given up, before an acknowledged batch is in the log with it."""
        self._look_for_another_log()
        later = False
        for in_flight in reversed(self.in_flight_batches):
            if in_flight.state is State.ACKED:
                later = True
            elif later and in_flight.unresolved and (in_flight.decided or in_flight.state is State.LOGGED):
                if in_flight.astray:
                    self._forsake(in_flight)
                    continue
                in_flight.state = State.ACKED
                in_flight.unplaced = not in_flight.decided
                self._look_again()
                if in_flight.failure is not None and not in_flight.published:
                    in_flight.fail(type(in_flight.failure), in_flight.failure.reason)
        self._place_between()

    def _look_for_another_log(self) -> None:
        """An offset before which there is no room for the elders: the batch went to another topic of that name, made since they were sent,
        and brokers take any first sequence there. Requests that name topics by their ids (Kafka 4.1) cannot go astray like this.

        The elders are not there, and must not follow: they would be out of order.
        """
        end = self._end_offset
        elders: list[InFlightBatch] = []
        for in_flight in self.in_flight_batches:
            if in_flight.state is State.ACKED and in_flight.base_offset >= 0:
                if in_flight.base_offset < end + sum(each.count for each in elders):
                    self.look_anew()
                    for elder in elders:
                        self._forsake(elder)
                elders = []
                end = in_flight.base_offset + in_flight.count
            elif in_flight.unresolved and not in_flight.published:
                elders.append(in_flight)

    def _forsake(self, in_flight: InFlightBatch) -> None:
        """A later batch is in the log of another topic of that name, and this one may be in the log of the one before."""
        if not in_flight.decided:
            in_flight.fail(DeliveryUnknown, "the topic was deleted and made again while it was under way")
        in_flight.state = State.FAILED
        self._broken(hole=False)

    def _place_between(self) -> None:
        """Where there is just room for them between their neighbours, the offsets of what was confirmed by a later batch are known;
        not when the broker appended them, where that is the records' time."""
        between: list[InFlightBatch] = []
        end = self._end_offset
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
        """Batches the log does not hold at this moment. A doubtful one could still arrive, unless a hole before it can never be filled."""
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
        """The broker cannot tell whether these are in the log: fail what is in doubt, and begin a new epoch. What was sent before, and is
        not in the log, fails with it: it would come after what may be there."""
        given_up = [in_flight for in_flight in in_flight_batches if in_flight.doubt and not in_flight.decided]
        for in_flight in given_up:
            kind = DeliveryTimeout if in_flight.in_grace else DeliveryUnknown
            in_flight.fail(kind, "sent, and whether it reached the log cannot be known")
        for elder in self.in_flight_batches[: self.in_flight_batches.index(given_up[-1])] if given_up else []:
            if elder.unresolved and not elder.decided:
                elder.fail(RecordRefused, "not sent again, because a later batch may be in the log")
        self.healing = True

    def bump(self) -> None:
        """Begin the next epoch of this partition: drop orphans, rewrite the rest from sequence 0. After the last epoch a new producer
        id is needed."""
        assert self.identity is not None
        for in_flight in self.in_flight_batches:
            if in_flight.decided and in_flight.unresolved:
                in_flight.state = State.FAILED
        self._hole = self.introduced = False
        pid, epoch = self.identity
        if epoch >= EPOCH_MAX:
            self.spent_pid = pid
            self.identity = None
        else:
            self.adopt((pid, epoch + 1))

    def adopt(self, identity: tuple[int, int]) -> None:
        """Take an identity and give it to every batch that waits."""
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
        """The sequence is broken and the epoch is not this partition's to bump: everything that is left here fails."""
        self.drop(RecordRefused, "the partition's sequence is broken, and a transaction cannot go on under another epoch")
        self._calm()

    def drop(self, kind: type[DeliveryError], reason: str) -> None:
        """Fail what waits to be sent, or to be sent again. Its sequences are gone, so nothing new leaves under this identity."""
        for in_flight in self.in_flight_batches:
            if in_flight.state in (State.WAITING, State.LOGGED):
                if not in_flight.decided:
                    in_flight.fail(kind, reason)
                in_flight.state = State.FAILED
                self.healing = True

    def begin(self, identity: tuple[int, int], first: int | None = None) -> None:
        """Take the identity of the next transaction; nothing is left of the one before. `first`: the next sequence, where somebody else
        wrote here: the partition is as good as unknown then."""
        assert not self.in_flight_batches, "an identity never changes under a batch"
        self._hole = self.recovering = False
        if first is not None:
            self.first_sequence = first
            self.introduced = False
        self.adopt(identity)

    def emigrate(self) -> None:
        """From here on another cluster's log is written. What may be in this one's fails, as nobody there can be asked; the rest is
        stamped anew. No request is on its way: every link was given up."""
        for in_flight in self.in_flight_batches:
            if in_flight.doubt and not in_flight.decided and not in_flight.placed:
                in_flight.fail(
                    DeliveryUnknown, "sent to another cluster than bootstrap_servers lead to now, and nobody can be asked about it"
                )
            if in_flight.decided:
                in_flight.state = State.FAILED
        self.identity = self.spent_pid = None
        self.healing = self._over = self._hole = False
        self.hint = None
        self.introduce_anew()
        self.next_sequence = self.first_sequence = 0
        self._calm()

    def introduce_anew(self) -> None:
        """From here on a log is written that knows nothing of this producer: it takes any first sequence, also a late one."""
        self.introduced = False
        for in_flight in self.in_flight_batches:
            in_flight.astray = in_flight.attempts > 0
        self.look_anew()

    # -- outcomes ----------------------------------------------------------------------------------------------------

    def take_finished(self) -> list[InFlightBatch]:
        """Batches whose outcome can be published now, in order: nothing overtakes an elder whose futures are still open."""
        finished: list[InFlightBatch] = []
        for in_flight in self.in_flight_batches:
            if in_flight.published:
                continue
            if not (in_flight.decided or in_flight.placed):
                break
            in_flight.published = True
            if in_flight.base_offset >= 0:
                self._end_offset = in_flight.base_offset + in_flight.count
            finished.append(in_flight)
        self.in_flight_batches = [in_flight for in_flight in self.in_flight_batches if not in_flight.published or in_flight.unresolved]
        self._calm()
        return finished

    def fail_all(self, kind: type[DeliveryError], reason: str, code: int) -> None:
        """The producer is dead: everything here fails with it."""
        for in_flight in self.in_flight_batches:
            if not in_flight.decided and not in_flight.placed:
                in_flight.fail(kind, reason, code=code)
            in_flight.state = State.FAILED if in_flight.unresolved else in_flight.state

    # -- offsets -----------------------------------------------------------------------------------------------------

    def wants_offsets(self) -> bool:
        """Whether something is in the log and nobody said where: the log itself has to be read."""
        return any(in_flight.unplaced and not in_flight.decided for in_flight in self.in_flight_batches)

    def look(self) -> int:
        """Begin to read the log: the first offset at which what is looked for can be."""
        self._looking = True
        return max(self._end_offset, self._looked_to)

    def looked_at(self, batches: list[BatchHeader]) -> bool:
        """These stand in the log, below the high watermark. What was passed without being met is there no more (deleted, or compacted).
        Whether that leads on: not when nothing new was shown, or when what is looked for is no more what it was when the reading began."""
        if not self._looking:
            return False
        begun = self.look()
        for header in batches:
            self._looked_to = max(self._looked_to, header.last_offset + 1)
            for in_flight in self.in_flight_batches:
                if in_flight.unplaced and in_flight.identity == (header.producer_id, header.producer_epoch):
                    before = distance(header.base_sequence, in_flight.base_sequence)
                    if 0 <= before <= header.last_offset_delta:
                        in_flight.place(header.base_offset + before, header.max_timestamp if header.timestamp_type else -1)
        for place, in_flight in enumerate(self.in_flight_batches):
            after = [later.base_offset for later in self.in_flight_batches[place + 1 :] if later.base_offset >= 0]
            if in_flight.unplaced and not in_flight.decided and after and self._looked_to >= after[0]:
                in_flight.fail(DeliveryUnknown, "acknowledged, and no more in the log when its offset was looked up")
        return self._looked_to > begun

    def look_anew(self) -> None:
        """The log does not begin, or end, where it was looked into."""
        self._end_offset = 0
        self._look_again()

    def _look_again(self) -> None:
        """What was read, or is being read, may have passed what is looked for from here on."""
        self._looked_to = 0
        self._looking = False

    # -- small print -------------------------------------------------------------------------------------------------

    def _may_repeat(self, in_flight: InFlightBatch) -> bool:
        """Whether the batch may be sent once more. Without sequences nothing depends on one that has failed, and it would come as a record
        of its own."""
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
        """A batch's sequences will never be acknowledged: the next epoch must begin before anything new leaves."""
        if self._idempotent:
            self.healing = self._over = True
            self._hole = self._hole or hole

    def _has_identity(self) -> bool:
        return self.identity is not None or not self._idempotent

    def _flying(self) -> bool:
        return any(in_flight.state is State.FLYING for in_flight in self.in_flight_batches)

    def _is_head(self, in_flight: InFlightBatch) -> bool:
        """Whether no elder, but for what the leader has, could still arrive and make the sequence fit."""
        return next((s for s in self.in_flight_batches if s.state in (State.WAITING, State.FLYING)), None) is in_flight

    def _calm(self) -> None:
        """A window without retries is clean and pipelines again."""
        if self.recovering and not any(in_flight.unresolved for in_flight in self.in_flight_batches):
            self.recovering = False
            self.hint = None
