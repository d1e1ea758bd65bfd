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

from producer.core.batch import UNTOLD
from producer.core.cluster import Leadership
from producer.core.errors import DeliveryError, DeliveryFatal, DeliveryTimeout, DeliveryUnknown, Persisted, RecordRefused
from producer.core.sequence import EPOCH_MAX, distance
from producer.core.slot import NO_IDENTITY, NO_SEQUENCE, Slot, State
from producer.core.verdict import Landed, Row, Verdict
from producer.wire.batch_header import BatchHeader
from producer.wire.codes import ErrorCode

RETRIED: Final = (Verdict.RETRY, Verdict.REFRESH, Verdict.HEAL)


class Known(Struct, frozen=True):
    """What DescribeProducers says of our producer id on one partition."""

    epoch: int
    last_sequence: int


class Window:
    """See the module. `limit`: max_in_flight. `idempotent`: without it there is no identity, and doubt is simply sent again.

    `healing`: nothing leaves until the broker has been asked or the next epoch begins. `_over`: some sequences will never be acknowledged,
    so nothing new enters under this epoch. `_hole`: some of them are certain not to be in the log. `_end_offset`: what entered last and is
    done ends there, so all that is here stands at or after it. `_looked_to`: where the log was read to, for what is unplaced; `_looking`:
    it is being read, and what the answer shows still counts.
    """

    def __init__(self, *, limit: int, idempotent: bool, retries: int, grace_ms: float) -> None:
        self.slots: list[Slot] = []
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
        return self._has_identity() and not (self.recovering or self.healing or self._over) and len(self.slots) < limit

    def enter(self, slot: Slot) -> None:
        """Stamp a fresh batch and line it up."""
        if self._idempotent:
            assert self.identity is not None
            slot.stamp(self.identity, self.next_sequence)
            self.next_sequence = slot.next_sequence
        else:
            slot.stamp(NO_IDENTITY, NO_SEQUENCE)
        self.slots.append(slot)

    def sendable(self, now_ms: float) -> Slot | None:
        """The batch to send now: while recovering only the oldest unresolved one, otherwise the oldest that has not been sent."""
        if self.healing or not self._has_identity():
            return None
        for slot in self.slots:
            if slot.state is State.WAITING:
                return slot if slot.not_before_ms <= now_ms else None
            if self.recovering and slot.state is State.FLYING:
                return None
        return None

    def launched(self, slot: Slot) -> None:
        """The slot's bytes are on their way to a socket."""
        slot.state = State.FLYING
        slot.unrecognised = False
        slot.attempts += 1
        self.launches += 1

    # -- answers -----------------------------------------------------------------------------------------------------

    def acknowledged(self, slot: Slot, base_offset: int, log_append_time: int) -> None:
        """The broker has the batch, now or since an earlier attempt. Orphans before it, and what the leader has, are resolved with it."""
        slot.state = State.ACKED
        self.introduced = True
        if not slot.published:
            slot.failure = None
        slot.base_offset = base_offset
        # Of a batch that it knows again the broker tells the newest timestamp in it, also where that is the producer's own.
        known_again = slot.attempts > 1 and log_append_time == slot.max_timestamp
        slot.log_append_time = -1 if known_again else log_append_time
        # Without sequences a later batch says nothing of its elders, which may well follow it.
        if self._idempotent and slot is not self.slots[0]:
            self._confirm()
        self._calm()

    def refused(self, slot: Slot, row: Row, code: int, now_ms: float, backoff_ms: float, message: str = "") -> None:
        """The broker answered with an error."""
        slot.last_code = code
        slot.state = State.WAITING
        slot.doubt = slot.doubt or row.landed is not Landed.NO
        slot.appended = slot.appended or row.landed is Landed.YES
        slot.unrecognised = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if row.verdict in RETRIED and self._may_repeat(slot):
            self._again(slot, now_ms + backoff_ms)
            if row.verdict is Verdict.HEAL and self._idempotent and self._is_head(slot):
                if slot.unrecognised and self._has_also_a_later(slot):
                    slot.state = State.LOGGED
                    self._confirm()
                else:
                    self.healing = True
        else:
            kind = DeliveryFatal if row.verdict is Verdict.FATAL else RecordRefused
            self._fail(slot, f"refused by the broker: {message or row.why}", kind=kind)

    def lost(self, slot: Slot, now_ms: float, backoff_ms: float) -> None:
        """The connection died, or was given up, before the answer."""
        slot.doubt = True
        if self._may_repeat(slot):
            self._again(slot, now_ms + backoff_ms)
        else:
            self._fail(slot, "the connection was lost and no retries are left", kind=DeliveryUnknown)

    def too_large(self, slot: Slot) -> None:
        """The leader refuses the size of a batch that an earlier attempt may have brought into its log: it is asked first."""
        slot.state = State.WAITING
        slot.oversized = slot.unrecognised = slot.insisted = True  # Its size is looked at before its sequence: it is not known again.
        self.healing = self.recovering = True

    def to_split(self) -> Slot | None:
        """The batch that has to be split: the leader refuses its size, and does not have it.

        A late copy of an earlier attempt may still arrive, where the limit is raised again. It doubles nothing, because the parts keep the
        sequences: behind the first of them it does not fit, and before it, it makes the parts not fit, which are then asked about.
        """
        if self.healing or self._flying():
            return None
        slot = next((slot for slot in self.slots if slot.state is State.WAITING), None)
        return slot if slot is not None and slot.oversized and not slot.decided else None

    def replace(self, slot: Slot, pieces: list[Slot]) -> None:
        """Put the parts of a batch that was too large in its place, on the same sequences. What may be true of it may be of them."""
        place = self.slots.index(slot)
        sequence = slot.base_sequence
        for piece in pieces:
            piece.stamp(slot.identity, sequence)
            piece.doubt = slot.doubt
            piece.astray = slot.astray
            piece.deadline_ms, piece.in_grace = slot.deadline_ms, slot.in_grace
            sequence = piece.next_sequence if self._idempotent else NO_SEQUENCE
        self.slots[place : place + 1] = pieces
        self.recovering = True

    # -- deadlines ---------------------------------------------------------------------------------------------------

    def expire(self, now_ms: float) -> None:
        """Fail what is past its delivery deadline; what is in doubt gets a short grace in which the broker is asked."""
        for slot in self.slots:
            if slot.decided or slot.deadline_ms > now_ms or slot.placed:
                continue
            # Of no grace nobody would be reminded: it ends when it begins.
            if self._idempotent and slot.persisted is Persisted.MAYBE and not slot.in_grace and now_ms + self._grace_ms > now_ms:
                slot.in_grace = slot.asking = True
                slot.deadline_ms = now_ms + self._grace_ms
            else:
                self._expire(slot)

    def _expire(self, slot: Slot) -> None:
        slot.fail(DeliveryTimeout, "no acknowledgement within delivery_timeout_ms")
        if not slot.unresolved:
            return
        sure = slot.persisted is Persisted.NO
        if sure or (not self._idempotent and slot.state is State.WAITING):
            slot.state = State.FAILED
        self._broken(hole=sure)

    def deadlines(self) -> list[float]:
        """The delivery deadlines of what has no outcome yet, in ms."""
        return [slot.deadline_ms for slot in self.slots if not slot.decided and not slot.placed]

    def backoff_until(self) -> float:
        """When the batch to be sent next may be, in ms; 0 when nothing waits."""
        return next((slot.not_before_ms for slot in self.slots if slot.state is State.WAITING), 0.0) if not self.healing else 0.0

    # -- healing -----------------------------------------------------------------------------------------------------

    def wants_answer(self) -> bool:
        """Whether the broker should be asked what its log holds of ours."""
        waiting = [slot for slot in self.slots if slot.unresolved and not slot.decided]
        if any(slot.asking for slot in waiting):
            return True
        return self.healing and not self._flying() and any(slot.doubt for slot in waiting)

    def wants_bump(self) -> bool:
        """Whether everything left is known not to be in the log, or already reported, so that the next epoch may begin."""
        if not (self.healing or self._over) or self.identity is None or self._flying() or self.wants_answer():
            return False
        return not any(slot.unresolved and slot.doubt and not slot.decided for slot in self.slots)

    def described(self, known: Known | None) -> None:
        """Draw the conclusions from DescribeProducers; None: the broker cannot tell."""
        open_slots = [slot for slot in self.slots if slot.unresolved]
        for slot in open_slots:
            slot.asking = False
        if not open_slots:
            return
        if known is None or known.epoch != open_slots[0].identity[1] or known.last_sequence < 0:
            if not self._flying():
                self._give_up(open_slots)
            return
        start = open_slots[0].base_sequence
        covered = distance(start, known.last_sequence) + 1
        missing = [slot for slot in open_slots if distance(start, slot.base_sequence) >= covered]
        found = open_slots[: len(open_slots) - len(missing)]
        self.hint = known
        for slot in missing:
            if slot.state is State.LOGGED:
                self._again(slot, 0.0)
        for slot in found:
            slot.doubt = True
            if slot.state is State.WAITING:
                slot.not_before_ms = 0.0
                if slot.unrecognised and (slot is not found[-1] or slot.insisted):
                    slot.state = State.LOGGED
                slot.insisted = slot.insisted or slot is found[-1]
        self._confirm()
        if any(slot.state is State.WAITING for slot in found):
            self.healing = False  # Sent again they are known by their sequence, and answered with their offset.
            self.recovering = True
        elif missing and not self._flying():
            self._judge_missing(missing, expected=distance(start, missing[0].base_sequence) == covered)
        if self.healing and not self._flying():
            self._give_up([slot for slot in found if slot.state is State.LOGGED])
        if not self._over and not any(slot.unresolved for slot in self.slots):
            self.healing = False
        self._calm()

    def led_by(self, leadership: Leadership) -> None:
        """Under another leader, leader epoch or topic what the one that was asked has may be gone: it goes again, under its sequence."""
        if leadership == self._leadership:
            return
        self._leadership = leadership
        self.hint = None
        for slot in self.slots:
            slot.unrecognised = slot.insisted = slot.oversized = False
            if slot.state is State.LOGGED:
                self._again(slot, 0.0)

    def _has_also_a_later(self, slot: Slot) -> bool:
        """Whether the leader is known to have the slot and one after it, so that this one need not be known again: it is confirmed by the
        later one."""
        hint = self.hint
        if hint is None or hint.epoch != slot.identity[1] or distance(slot.base_sequence, hint.last_sequence) < 0:
            return False
        later = self.slots[self.slots.index(slot) + 1 :]
        return any(
            other.state is State.ACKED
            or (other.state in (State.WAITING, State.FLYING) and distance(other.base_sequence, hint.last_sequence) >= 0)
            for other in later
        )

    def _confirm(self) -> None:
        """Whatever the leader has, or was given up, before an acknowledged batch is in the log with it."""
        self._look_for_another_log()
        later = False
        for slot in reversed(self.slots):
            if slot.state is State.ACKED:
                later = True
            elif later and slot.unresolved and (slot.decided or slot.state is State.LOGGED):
                if slot.astray:
                    self._forsake(slot)
                    continue
                slot.state = State.ACKED
                slot.unplaced = not slot.decided
                self._look_again()
                if slot.failure is not None and not slot.published:
                    slot.fail(type(slot.failure), slot.failure.reason)
        self._place_between()

    def _look_for_another_log(self) -> None:
        """An offset before which there is no room for the elders: the batch went to another topic of that name, made since they were sent,
        and brokers take any first sequence there. Requests that name topics by their ids (Kafka 4.1) cannot go astray like this.

        The elders are not there, and must not follow: they would be out of order.
        """
        end = self._end_offset
        elders: list[Slot] = []
        for slot in self.slots:
            if slot.state is State.ACKED and slot.base_offset >= 0:
                if slot.base_offset < end + sum(each.count for each in elders):
                    self.look_anew()
                    for elder in elders:
                        self._forsake(elder)
                elders = []
                end = slot.base_offset + slot.count
            elif slot.unresolved and not slot.published:
                elders.append(slot)

    def _forsake(self, slot: Slot) -> None:
        """A later batch is in the log of another topic of that name, and this one may be in the log of the one before."""
        if not slot.decided:
            slot.fail(DeliveryUnknown, "the topic was deleted and made again while it was under way")
        slot.state = State.FAILED
        self._broken(hole=False)

    def _place_between(self) -> None:
        """Where there is just room for them between their neighbours, the offsets of what was confirmed by a later batch are known;
        not when the broker appended them, where that is the records' time."""
        between: list[Slot] = []
        end = self._end_offset
        for slot in self.slots:
            if slot.state is State.ACKED and slot.base_offset >= 0:
                if slot.base_offset - end == sum(each.count for each in between):
                    for each in between:
                        each.place(end, UNTOLD if slot.log_append_time >= 0 else -1)
                        end += each.count
                between = []
                end = slot.base_offset + slot.count
            elif slot.state is not State.FAILED:
                between.append(slot)

    def _judge_missing(self, missing: list[Slot], *, expected: bool) -> None:
        """Slots the log does not hold at this moment. A doubtful one could still arrive, unless a hole before it can never be filled."""
        doubtful = [slot for slot in missing if slot.doubt and not slot.decided]
        if expected and (doubtful or not self.healing):
            self.healing = False
            self.recovering = True
        elif not expected and self._hole:
            for slot in missing:
                slot.doubt = slot.decided
            self.healing = True
        else:
            self._give_up(doubtful)

    def _give_up(self, slots: list[Slot]) -> None:
        """The broker cannot tell whether these are in the log: fail what is in doubt, and begin a new epoch. What was sent before, and is
        not in the log, fails with it: it would come after what may be there."""
        given_up = [slot for slot in slots if slot.doubt and not slot.decided]
        for slot in given_up:
            kind = DeliveryTimeout if slot.in_grace else DeliveryUnknown
            slot.fail(kind, "sent, and whether it reached the log cannot be known")
        for elder in self.slots[: self.slots.index(given_up[-1])] if given_up else []:
            if elder.unresolved and not elder.decided:
                elder.fail(RecordRefused, "not sent again, because a later batch may be in the log")
        self.healing = True

    def bump(self) -> None:
        """Begin the next epoch of this partition: drop orphans, rewrite the rest from sequence 0. After the last epoch a new producer
        id is needed."""
        assert self.identity is not None
        for slot in self.slots:
            if slot.decided and slot.unresolved:
                slot.state = State.FAILED
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
        for slot in self.slots:
            if slot.state is State.WAITING:
                slot.stamp(identity, self.next_sequence)
                self.next_sequence = slot.next_sequence
        self._calm()

    def spoil(self) -> None:
        """The sequence is broken and the epoch is not this partition's to bump: everything that is left here fails."""
        self.drop(RecordRefused, "the partition's sequence is broken, and a transaction cannot go on under another epoch")
        self._calm()

    def drop(self, kind: type[DeliveryError], reason: str) -> None:
        """Fail what waits to be sent, or to be sent again. Its sequences are gone, so nothing new leaves under this identity."""
        for slot in self.slots:
            if slot.state in (State.WAITING, State.LOGGED):
                if not slot.decided:
                    slot.fail(kind, reason)
                slot.state = State.FAILED
                self.healing = True

    def begin(self, identity: tuple[int, int], first: int | None = None) -> None:
        """Take the identity of the next transaction; nothing is left of the one before. `first`: the next sequence, where somebody else
        wrote here: the partition is as good as unknown then."""
        assert not self.slots, "an identity never changes under a batch"
        self._hole = self.recovering = False
        if first is not None:
            self.first_sequence = first
            self.introduced = False
        self.adopt(identity)

    def emigrate(self) -> None:
        """From here on another cluster's log is written. What may be in this one's fails, as nobody there can be asked; the rest is
        stamped anew. No request is on its way: every link was given up."""
        for slot in self.slots:
            if slot.doubt and not slot.decided and not slot.placed:
                slot.fail(DeliveryUnknown, "sent to another cluster than bootstrap_servers lead to now, and nobody can be asked about it")
            if slot.decided:
                slot.state = State.FAILED
        self.identity = self.spent_pid = None
        self.healing = self._over = self._hole = False
        self.hint = None
        self.introduce_anew()
        self.next_sequence = self.first_sequence = 0
        self._calm()

    def introduce_anew(self) -> None:
        """From here on a log is written that knows nothing of this producer: it takes any first sequence, also a late one."""
        self.introduced = False
        for slot in self.slots:
            slot.astray = slot.attempts > 0
        self.look_anew()

    # -- outcomes ----------------------------------------------------------------------------------------------------

    def take_finished(self) -> list[Slot]:
        """Slots whose outcome can be published now, in order: nothing overtakes an elder whose futures are still open."""
        finished: list[Slot] = []
        for slot in self.slots:
            if slot.published:
                continue
            if not (slot.decided or slot.placed):
                break
            slot.published = True
            if slot.base_offset >= 0:
                self._end_offset = slot.base_offset + slot.count
            finished.append(slot)
        self.slots = [slot for slot in self.slots if not slot.published or slot.unresolved]
        self._calm()
        return finished

    def fail_all(self, kind: type[DeliveryError], reason: str, code: int) -> None:
        """The producer is dead: everything here fails with it."""
        for slot in self.slots:
            if not slot.decided and not slot.placed:
                slot.fail(kind, reason, code=code)
            slot.state = State.FAILED if slot.unresolved else slot.state

    # -- offsets -----------------------------------------------------------------------------------------------------

    def wants_offsets(self) -> bool:
        """Whether something is in the log and nobody said where: the log itself has to be read."""
        return any(slot.unplaced and not slot.decided for slot in self.slots)

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
            for slot in self.slots:
                if slot.unplaced and slot.identity == (header.producer_id, header.producer_epoch):
                    before = distance(header.base_sequence, slot.base_sequence)
                    if 0 <= before <= header.last_offset_delta:
                        slot.place(header.base_offset + before, header.max_timestamp if header.timestamp_type else -1)
        for place, slot in enumerate(self.slots):
            after = [later.base_offset for later in self.slots[place + 1 :] if later.base_offset >= 0]
            if slot.unplaced and not slot.decided and after and self._looked_to >= after[0]:
                slot.fail(DeliveryUnknown, "acknowledged, and no more in the log when its offset was looked up")
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

    def _may_repeat(self, slot: Slot) -> bool:
        """Whether the slot may be sent once more. Without sequences nothing depends on one that has failed, and it would come as a record
        of its own."""
        return slot.attempts <= self._retries and (self._idempotent or not slot.decided)

    def _again(self, slot: Slot, not_before_ms: float) -> None:
        slot.state = State.WAITING
        slot.not_before_ms = not_before_ms
        self.recovering = True

    def _fail(self, slot: Slot, reason: str, *, kind: type[DeliveryError] = RecordRefused) -> None:
        if not slot.decided:
            slot.fail(kind, reason)
        slot.state = State.FAILED
        self._broken(hole=not slot.doubt)

    def _broken(self, *, hole: bool) -> None:
        """A slot's sequences will never be acknowledged: the next epoch must begin before anything new leaves."""
        if self._idempotent:
            self.healing = self._over = True
            self._hole = self._hole or hole

    def _has_identity(self) -> bool:
        return self.identity is not None or not self._idempotent

    def _flying(self) -> bool:
        return any(slot.state is State.FLYING for slot in self.slots)

    def _is_head(self, slot: Slot) -> bool:
        """Whether no elder, but for what the leader has, could still arrive and make the sequence fit."""
        return next((s for s in self.slots if s.state in (State.WAITING, State.FLYING)), None) is slot

    def _calm(self) -> None:
        """A window without retries is clean and pipelines again."""
        if self.recovering and not any(slot.unresolved for slot in self.slots):
            self.recovering = False
            self.hint = None
