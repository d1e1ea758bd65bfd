"""The calls of a transactional producer and its transactions to the sender thread, each with a deadline.

A transaction calls with its own number, and the producer with the number of the open one. When Ctrl-C interrupts a call, no transaction
stays open that its caller does not know of.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import partial
from typing import Final, SupportsFloat

from fencepost.producer.errors import Fatal, FencepostError, Misuse, ProducerClosed
from fencepost.producer.foundations.turns import in_turns
from fencepost.txn.coordinator.inner_producer import InnerProducer
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.coordinator.send_gate import Begun, SendGate
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from fencepost.txn.coordinator.transaction_spans import TransactionSpans
from fencepost.txn.errors import CommitOutcomeUnknown, TransactionTimeout
from fencepost.txn.foundations.call_outcome import SOON_S
from fencepost.txn.group_metadata import GroupMetadata, read_group
from fencepost.txn.offsets import Offsets, read_offsets
from fencepost.txn.protocol.ask_now import ask_now
from fencepost.txn.recovery.own_outcome import LEAST_S, find_out, settle, to_ask_about
from fencepost.txn.recovery.successor import find_successor
from fencepost.txn.recovery.token import PreparedTransaction
from fencepost.txn.shared.participation import TP, Participation, Written, check_partitions
from fencepost.txn.shared.shared_partitions import ShareRequest, read_written

log = logging.getLogger("fencepost.txn")

ANSWER_TURNS: Final = 20
"""The manager ends each call at its deadline. If the sender thread does not answer, because a callback blocks it, the caller gives up after
so many turns: two seconds later."""
LOOK_S: Final = 1.0
"""How often a call that waits looks whether the sender thread runs."""
UNANSWERED: Final = "the sender thread has not answered, because a delivery callback has not returned or the machine is busy"


class TransactionCalls:
    """See the module. `writing`: the open transaction, and the threads that are sending into it. `closed`: the producer was closed."""

    def __init__(self, manager: TransactionManager, inner: InnerProducer) -> None:
        self.manager = manager
        self.inner = inner
        self.writing = SendGate()
        self.closed = False
        self.transactional_id = manager.transactional_id
        self.spans = TransactionSpans(inner.telemetry, manager.transactional_id)
        manager.on_over = self.spans.ended

    def begin(self, timeout: SupportsFloat | None) -> int:
        """Begin a transaction, and return its number."""
        self.inner.admission.refuse_after_fork()
        limit_s = self.inner.admission.patience_s(timeout)
        deadline = time.monotonic() + limit_s
        self.manager.refuse(Event.BEGIN)
        if not self.writing.wait_for_others(limit_s):
            raise TransactionTimeout("begin: a send into the previous transaction has not returned")
        begun = Begun()
        span = self.spans.begin()
        try:
            # Between here and the caller's variable no other function is called, because Ctrl-C could interrupt there.
            begun.number = number = self.call(Event.BEGIN, max(0.0, deadline - time.monotonic()))
            self.writing.newest = begun
            self.spans.open.sending = span
            return number
        except BaseException as error:
            self.spans.not_begun(span, error)
            raise

    def send_offsets(self, offsets: object, group: object, timeout: SupportsFloat | None, number: int) -> None:
        """Commit the offsets with the transaction."""
        given, member = read_offsets(offsets), read_group(group)
        self.manager.refuse_spoilt()
        if given:
            self.call(Event.SEND_OFFSETS, timeout, number, (member, given))

    def share(self, partitions: Iterable[TP], timeout: SupportsFloat | None, number: int) -> Participation:
        """Share these partitions of the transaction."""
        share_request = ShareRequest(partitions=check_partitions(partitions))
        self.call(Event.SHARE, timeout, number, share_request=share_request)
        assert share_request.participation is not None
        return share_request.participation

    def returned(self, written: Iterable[Written], timeout: SupportsFloat | None, number: int) -> None:
        """Take what participants wrote."""
        share_request = ShareRequest(written=read_written(written))
        if share_request.written:
            self.call(Event.RETURNED, timeout, number, share_request=share_request)

    def call(
        self,
        event: Event,
        timeout: SupportsFloat | None,
        number: int = 0,
        offsets: tuple[GroupMetadata, Offsets] | None = None,
        share_request: ShareRequest | None = None,
    ) -> int:
        """Make a call and wait for its outcome."""
        if self.inner.on_sender():
            raise Misuse(f"{event.value}() inside a delivery callback would never end: the callback runs on the thread that delivers")
        if self.closed:
            raise ProducerClosed("the producer is closed")
        limit_s = self.inner.admission.patience_s(timeout)
        admission = self.inner.admission
        call = admission.call(event, limit_s, number, offsets, share_request)
        deadline = time.monotonic() + limit_s
        try:
            admission.make(call)
            self._wait(call, deadline)
            return call.outcome.result()
        except BaseException:  # Ctrl-C may interrupt at any point.
            abort = admission.leave(call)
            if abort is not None:
                abort.outcome.wait(SOON_S)
            raise

    def _wait(self, call: Call, deadline: float) -> None:
        """Wait for the outcome. Not `result(timeout)`, because a TransactionTimeout is a TimeoutError too."""

        def told(limit_s: float) -> bool:
            if call.outcome.wait(limit_s):
                return True
            if not self.inner.running and not call.outcome.done():
                self.inner.admission.refuse_after_fork()
                raise ProducerClosed("the producer is closed")
            return False

        if not in_turns(told, deadline, turns=ANSWER_TURNS, longest_s=LOOK_S):
            raise self.manager.late(call.event, UNANSWERED, UNANSWERED)

    def prepare(self, timeout: SupportsFloat | None, number: int) -> PreparedTransaction:
        """Prepare the transaction, and return its token."""
        self.call(Event.PREPARE, timeout, number)
        self.spans.ended(Event.PREPARE)
        return self.manager.hand_out()

    def end(self, event: Event, timeout: SupportsFloat | None, number: int) -> None:
        """Commit or abort the transaction."""
        try:
            self._end_or_find_out(event, self.inner.admission.patience_s(timeout), number)
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: self.end(Event.COMMIT, limit, number)
            self.spans.failed(unknown)
            raise
        except Fatal as error:
            self.spans.failed(error)
            raise
        if self.writing.over(number) and not self.manager.knows(number):
            self.spans.ended(event)

    def _end_or_find_out(self, event: Event, limit_s: float, number: int) -> None:
        preparation = self.manager.preparation
        token = preparation.token
        prepared = token if token is not None and token.wrote else None
        began = time.monotonic()
        try:
            self.call(event, limit_s, number)
        except FencepostError as error:
            if self.closed and self.manager.knows(number):
                told = self.manager.about_the_past(event, number)
                if told is None:
                    return
                raise ProducerClosed(f"the producer is closed; {told}") from error
            refusal = self.manager.refusal_of(error)
            asked = to_ask_about(prepared, preparation.in_question, refusal)
            if asked is None or self.inner.on_sender():
                raise
            left_s = limit_s - (time.monotonic() - began)
            status = ask_now(partial(find_out, asked, refusal, self.inner.settings, left_s))
            if not isinstance(refusal, Fatal):
                self._give_up()
            settle(status, refusal, committed=event is Event.COMMIT, prepared=prepared is not None)

    def _give_up(self) -> None:
        """If the coordinator has ended the transaction, end it here too."""
        try:
            self.call(Event.ABORT, LEAST_S)
        except FencepostError as error:
            log.debug("transactional id %s: %s", self.transactional_id, error)

    def replaced(self, timeout: SupportsFloat | None) -> bool:
        """Whether another producer has registered under the id since."""
        assert self.transactional_id is not None
        identity, version2 = self.manager.identity, self.manager.version2
        limit_s = self.inner.admission.patience_s(timeout)
        return ask_now(partial(find_successor, self.transactional_id, identity, self.inner.settings, limit_s, version2=version2))

    def is_handed_out(self, number: int) -> bool:
        """Whether `prepare` has returned the token of that transaction."""
        return number == self.writing.current and self.manager.preparation.handed_out
