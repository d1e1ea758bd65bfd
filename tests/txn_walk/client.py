"""A producer that behaves as Kafka's clients do: what it sends, when it retries, and when it gives up.

It is a generator of requests. Each request is answered or lost; then the client continues. It does only what a client may do. It commits
acknowledged records, and begins no transaction before the last one has ended. It registers again if it does not know which of its sequences
were used. It believes every answer; the model finds the wrong ones.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fencepost.producer.wire import Api, ErrorCode, api_name, error_name
from tests.txn_walk import speech as say
from tests.txn_walk.model import Broken, Txn, Write
from tests.txn_walk.site import Ask, batch
from tests.txn_walk.speech import ADD_VERSION, AGAIN, OK, REFUSED, UNCERTAIN, Identity, Speech, code_of, written

if TYPE_CHECKING:
    from tests.txn_walk.walk import Walk

Asking = Generator[Ask, Any, bool]
"""Whether it goes on; what it gets for a request is the answer, or LOST."""

TIMEOUTS_MS: Final = (5_000, 20_000, 20_000, 60_000)


class Client:
    """A process with a transactional id. `going` is its generator. The client is over when the generator ends."""

    def __init__(self, walk: Walk, transactional_id: str, speech: Speech) -> None:
        self.transactional_id = transactional_id
        self.speech = speech
        self.identity: Identity | None = None
        self.txn: Txn | None = None
        self.is_careless = False
        """It ends what it has not begun."""
        self.late = False
        """So much time has passed that it may have been taken for dead."""
        self.going = self._life()
        self._walk = walk
        self._rng = walk.rng
        self._sequences: dict[int, int] = {}
        self._added: set[object] = set()
        self._doubt = False
        self._began_ms = self._known_ms = walk.site.now_ms
        self._timeout_ms = self._rng.choice(TIMEOUTS_MS)

    def _life(self) -> Generator[Ask, Any, None]:
        if not (yield from self._introduce(None)):
            return
        rng = self._rng
        while not self._walk.closing:
            drawn = rng.random()
            if drawn < 0.04:
                goes_on = yield from self._introduce(self.identity)
            elif drawn < 0.08:
                goes_on = yield from self._end(self._begun(), commit=rng.random() < 0.4, careless=True)
            else:
                goes_on = yield from self._transact()
            if not goes_on:
                return

    # Transactions

    def _begun(self) -> Txn:
        self.txn = self._walk.model.begin(self.transactional_id, self._own())
        self._added.clear()
        self._began_ms = self._walk.site.now_ms
        return self.txn

    def _transact(self) -> Asking:
        txn, rng = self._begun(), self._rng
        fine = True
        for _ in range(rng.choice((1, 1, 2, 3))):
            offsets = txn.group_offset is None and rng.random() < 0.2
            went: bool | None = yield from (
                self._commit_offset(txn) if offsets else self._write(txn, rng.randrange(len(self._walk.site.data)))
            )
            if went is None:
                return False
            fine = fine and went
            if not fine:
                break
        drawn = rng.random()
        if fine and drawn < 0.08:
            self._walk.prepared(self, txn)
            return False
        return (yield from self._end(txn, commit=fine and drawn < 0.75))

    def _write(self, txn: Txn, index: int) -> Generator[Ask, Any, bool | None]:
        """Send one batch until it is acknowledged. False if the transaction must be aborted, None if the client has lost it."""
        site, identity = self._walk.site, self._own()
        if not self.speech.bumps and not (yield from self._add(index)):
            return None
        sequence = self._sequences.get(index, 0)
        write = txn.write(index, self._rng.choice((1, 1, 2)))
        request = say.produce(self.transactional_id, index, batch(write.values, site.now_ms, identity, sequence))
        done = yield from self._until_taken(Ask(site.data[index], request, self.speech.produce, partial(_acknowledged, write)))
        if done:
            self._sequences[index] = sequence + len(write.values)
        return done

    def _commit_offset(self, txn: Txn) -> Generator[Ask, Any, bool | None]:
        """Commit an offset of the group, until it is accepted; returns as `_write`."""
        site, name = self._walk.site, self.transactional_id
        if not self.speech.bumps:
            add = Ask(site.state, say.add_group(name, self._own()), ADD_VERSION, self._heard_add)
            if not (yield from self._until_added(add)):
                return None
        txn.group_offset = txn.number
        return (yield from self._until_taken(Ask(site.offsets, say.commit_offset(name, self._own(), txn.number), self.speech.offsets)))

    def _until_taken(self, ask: Ask) -> Asking:
        """Send the request until it is accepted, or give up. Then the used sequences are unknown."""
        while True:
            code = code_of((yield ask))
            if code == OK:
                return True
            if code not in AGAIN:
                self.refused(ask, code)
            if code not in AGAIN or self._rng.random() < 0.1:
                self._doubt = True
                return False

    def _add(self, index: int) -> Asking:
        """AddPartitionsToTxn of a client before transaction version 2. Sometimes it adds partitions again."""
        if index in self._added and self._rng.random() < 0.8:
            return True
        request = say.add_partition(self.transactional_id, self._own(), index)
        done = yield from self._until_added(Ask(self._walk.site.state, request, ADD_VERSION, self._heard_add))
        if done:
            self._added.add(index)
        return done

    def _until_added(self, ask: Ask) -> Asking:
        """Add to the transaction. False if another producer has the id now."""
        while True:
            code = code_of((yield ask))
            if code == OK:
                return True
            if code not in AGAIN:
                self.refused(ask, code)
                return False

    def _heard_add(self, answer: Any) -> None:
        if code_of(answer) == OK:
            self._added.add("something")

    # Ends

    def _end(self, txn: Txn, *, commit: bool, careless: bool = False) -> Asking:
        """Send EndTxn until it is answered. `careless`: nothing was written, and no client of Kafka would send it."""
        self.is_careless = careless
        while True:
            ask = self.end_request(txn, commit=commit)
            answer = yield ask
            code = code_of(answer)
            if code == OK:
                break
            if code not in AGAIN:
                crossed = not commit and (txn.may_be_read or not self._added)
                if careless and code == ErrorCode.INVALID_TXN_STATE:
                    self.txn = None
                    return True
                if not crossed:
                    self.refused(ask, code)
                return False
            if commit and self._rng.random() < 0.06:
                commit = False  # wrong while the outcome of the commit is unknown
        self.txn = None
        if self.speech.bumps:
            self._taken((answer.producer_id, answer.producer_epoch))
        elif self._doubt:
            return (yield from self._introduce(self.identity))
        return True

    def end_request(self, txn: Txn, *, commit: bool) -> Ask:
        request = say.end(self.transactional_id, self._own(), commit=commit)
        heard, seen = partial(self._heard_end, txn, commit), partial(self._seen_end, txn, commit)
        return Ask(self._walk.site.state, request, self.speech.end, heard, seen)

    def _seen_end(self, txn: Txn, commit: bool) -> None:
        txn.commits += commit

    def _heard_end(self, txn: Txn, commit: bool, answer: Any) -> None:
        code = answer.error_code
        if code == OK:
            self._known_ms = self._walk.site.now_ms
            txn.ended(commit=commit)
            if self.speech.bumps:
                self._walk.model.given(self.transactional_id, (answer.producer_id, answer.producer_epoch), self)
        elif code not in UNCERTAIN:
            txn.commits -= commit  # the coordinator did not carry it out

    # Identities

    def _introduce(self, expected: Identity | None) -> Asking:
        """Send InitProducerId until it is answered."""
        ask = self.init_request(expected)
        while True:
            answer = yield ask
            code = code_of(answer)
            if code == OK:
                self._taken((answer.producer_id, answer.producer_epoch))
                self._doubt = False
                return True
            if code not in AGAIN:
                if expected is None:
                    raise Broken(f"InitProducerId was answered {error_name(code)}")
                return False

    def init_request(self, expected: Identity | None) -> Ask:
        request = say.init(self.transactional_id, expected, self._timeout_ms)
        return Ask(self._walk.site.state, request, self.speech.init, self._heard_init, partial(self._walk.seen_init, self))

    def _heard_init(self, answer: Any) -> None:
        if answer.error_code == OK:
            self.late = False
            self._known_ms = self._walk.site.now_ms
            self._walk.model.given(self.transactional_id, (answer.producer_id, answer.producer_epoch), self)

    def _own(self) -> Identity:
        assert self.identity is not None
        return self.identity

    def _taken(self, identity: Identity) -> None:
        if identity != self.identity:
            self._sequences.clear()
        self.identity = identity

    def look_at_the_time(self, now_ms: int, expires_after_ms: int) -> None:
        """Whether its transaction may have been aborted, or its id forgotten."""
        too_long = self.txn is not None and now_ms - self._began_ms >= self._timeout_ms
        self.late = self.late or too_long or now_ms - self._known_ms >= expires_after_ms

    def refused(self, ask: Ask, code: int) -> None:
        """The only client of an id, if it is in time, must not be refused."""
        api, what, identity = ask.request.api, api_name(ask.request.api), self._own()
        if code not in REFUSED:
            raise Broken(f"{what} was answered {error_name(code)}")
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self.speech.bumps:
            return  # because of a late copy of the last transaction's batch, the partition expects that sequence (D6)
        if code == ErrorCode.INVALID_PRODUCER_EPOCH and self._walk.model.had_a_higher_epoch(self.transactional_id, identity):
            return  # as in Kafka, a leader compares the epochs of two concurrent producers, not their producer ids
        if code == ErrorCode.INVALID_TXN_STATE and api == Api.PRODUCE and identity[0] in self._walk.marked_again:
            return  # a copy of an older marker came during the verification, and the partition has forgotten its request
        if not self.late and self._walk.owner_of(self.transactional_id) is self:
            raise Broken(f"{what} of {identity}, the only client of {self.transactional_id!r}, was answered {error_name(code)}")


def _acknowledged(write: Write, answer: Any) -> None:
    if code_of(answer) == OK:
        write.acknowledged(written(answer).base_offset)
