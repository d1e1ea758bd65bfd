"""The transaction manager: it turns the state machine's actions into requests to the coordinators, and answers the sender's hooks.

Events and the time come in, commands go out, all on the sender thread. With transaction version 1 a partition is added before its first
batch is sent. With version 2 (KIP-890) the partition's leader adds it, and each end returns the next epoch. The version is chosen with the
identity and after each end, so a transaction ends with the version that it began with.

It sends no InitProducerId inside a transaction, no EndTxn if nothing was written, and no committing EndTxn after a failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Self

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import PRODUCE_VERSIONS, ClusterConnectionStates, Node, Request
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import NEVER, Command, Die, Return, Settle
from fencepost.producer.errors import DeliveryError, Fatal, FencepostError, NoUsableBroker, again, with_code
from fencepost.producer.wire import FindCoordinatorResponse, InitProducerIdResponse
from fencepost.producer.wire.codes import Api, ErrorCode, api_name
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.add_to_txn import AddOffsetsToTxnResponse, AddPartitionsToTxnResponse
from fencepost.producer.wire.messages.describe_transactions import DescribeTransactionsResponse
from fencepost.producer.wire.messages.end_txn import EndTxnResponse
from fencepost.producer.wire.messages.txn_offsets import TxnOffsetCommitResponse
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.config.settings import TransactionSettings
from fencepost.txn.coordinator.coordinator_connection import CoordinatorConnection
from fencepost.txn.coordinator.init_producer_id import Registration
from fencepost.txn.coordinator.kip_939 import TwoPhase
from fencepost.txn.coordinator.pending_calls import Call, Waiting
from fencepost.txn.coordinator.registration_guard import Guard
from fencepost.txn.coordinator.state_machine import AT_CLOSE, Action, Event, Machine, State
from fencepost.txn.coordinator.transaction_contents import TransactionContents
from fencepost.txn.errors import (
    CommitOutcomeUnknown,
    DeliveryAborted,
    IllegalCall,
    MustAbort,
    NotPermitted,
    TransactionCommitted,
    TransactionOpen,
    TransactionTimeout,
)
from fencepost.txn.protocol.error_table import OTHERWISE, Row, Step, judge, refusal
from fencepost.txn.protocol.requests import END_VERSIONS, GROUP, LEAVES, Question, end_request, state_question
from fencepost.txn.recovery.own_outcome import REFUSED
from fencepost.txn.recovery.prepare import Preparation
from fencepost.txn.recovery.prepared_here import OUTSTANDING
from fencepost.txn.recovery.token import PreparedTransaction
from fencepost.txn.shared.shared_partitions import SharedPartitions

log = logging.getLogger("fencepost.txn")

FEATURE: Final = "transaction.version"
UNBEGUN: Final = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
"""The answers to an abort if the coordinator does not know the transaction: either each request that would have begun it was postponed
while the previous transaction was completed, or the id had expired. InitProducerId then tells a fenced producer from one that may continue.
Once a part of the transaction was acknowledged, only the first of these codes can mean that."""
NOTHING_CAME: Final = (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""The answers to the commit of a transaction without writes, with transaction version 2: the coordinator does not know it."""
NOT_ASKED: Final = "no coordinator has been asked yet"
ASKED: Final = "no answer has come yet"
SERVED: Final = {State.OPEN, State.FLUSHING, State.PREPARING}
FAILING: Final = {State.OPEN, State.FLUSHING, State.PREPARING, State.SPOILED, State.ABORTING}
SPOILABLE: Final = {*FAILING, State.COMMITTING}
REMEMBERED: Final = 100
"""The manager remembers the outcome of so many transactions, because a caller may ask about one in doubt after the next ones have ended."""
FORGOTTEN: Final = "call commit() first, or write in `with producer.transaction()`"
IN_BLOCK: Final = "its `with` block has not ended, so let it end before close()"
ENDS: Final = (Event.COMMIT, Event.ABORT, Event.PREPARE)
ANSWERED_BY_AN_ABORT: Final = (Event.COMMIT, Event.PREPARE, Event.SEND_OFFSETS, Event.SHARE)
"""The calls that must fail once the transaction has to be aborted."""


class TransactionManager:
    """See the module. `spoilt`: why the transaction must be aborted; any thread may read it. `version2`: the transaction's version.
    `preparation`: the transaction's token, or the steps towards it. `guard`: checked before the first registration. `on_over`: called with
    COMMIT or ABORT when a transaction is over, before a thread can see that. `block`: the newest transaction that a `with` block ends.
    `aborts_at_close`: that `close` aborts an open transaction is meant. `may_register`: whether the first InitProducerId may be sent, or
    sent again, now; None: at any time."""

    def __init__(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        guard: Guard | None = None,
        two_phase: TwoPhase | None = None,
        existing_topics: tuple[str, ...] = (),
    ) -> None:
        self.machine = Machine()
        self.preparation = Preparation()
        self.transactional_id: str | None = transactional_id
        self.produce_versions = PRODUCE_VERSIONS
        self.drop_reason: tuple[type[DeliveryError], str] | None = None
        self.trouble = NOT_ASKED
        self.identity: tuple[int, int] | None = None
        self.version2 = False
        self.spoilt: MustAbort | None = None
        self.block = 0
        self.aborts_at_close = False
        self.may_register: Callable[[], bool] | None = None
        self.on_over: Callable[[Event], None] | None = None
        self._id: Final = transactional_id
        self._existing_topics: Final = existing_topics
        self._number = 0
        self._ended: dict[int, bool] = {}
        self._waiting = Waiting()
        self._out: list[Command] = []
        self._doubtful = False
        self._unsure = self._put_off = False
        self._fenced_by: FencepostError | None = None
        self._quiet = True
        self._look_again = False
        self._shared_partitions = SharedPartitions(transactional_id)
        self._death: FencepostError | None = None
        self._registration = Registration(transactional_id, timeout_ms=timeout_ms, guard=guard, two_phase=two_phase)

    @classmethod
    def of(cls, ours: TransactionSettings) -> Self:
        """For a producer with these settings."""
        guard = Guard(ours.transactional_id, ours.on_open_transaction, ours.prepared)
        two_phase = TwoPhase(wanted=ours.transaction_two_phase_commit_enable, keep=ours.on_open_transaction is OnOpen.REFUSE)
        return cls(
            ours.transactional_id,
            timeout_ms=ours.transaction_timeout_ms,
            guard=guard,
            two_phase=two_phase,
            existing_topics=ours.existing_topics,
        )

    def attach(self, settings: Settings, *, nodes: ClusterConnectionStates, view: ClusterView, draw: Callable[[], float]) -> None:
        self._connection = CoordinatorConnection(self._id, settings, nodes=nodes, view=view, draw=draw)
        self._contents = TransactionContents(
            self._id, lambda group: CoordinatorConnection(group, settings, key_type=GROUP, nodes=nodes, view=view, draw=draw)
        )
        self._nodes = nodes
        self._view = view

    def end_at_close(self) -> Event | None:
        """The call that `close` makes first. `close` does not abort a transaction whose token the caller has. Any thread may call this."""
        state = self.machine.state
        return None if state is State.PREPARED and self.preparation.handed_out else AT_CLOSE.get(state)

    def gives_up_at_close(self) -> str | None:
        """What the program may have done wrong if `close` now aborts a transaction that could be committed. Any thread may call this."""
        if self.machine.state is not State.OPEN or self.aborts_at_close:
            return None
        return IN_BLOCK if self.block == self._number else FORGOTTEN

    def refuse_spoilt(self) -> None:
        """Raise why the transaction must be aborted: a further record or offset would be lost with the others. Any thread may call this."""
        spoilt = self.spoilt
        if spoilt is not None:
            raise spoilt.again()

    def hand_out(self) -> PreparedTransaction:
        """The token; from now on the processes that have it decide the outcome. Any thread may call this after `prepare` was answered."""
        token = self.preparation.token
        if token is None:
            raise IllegalCall("prepare: another call ended the transaction meanwhile")
        OUTSTANDING.add(token)
        self.preparation.handed_out = True
        return token

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def may_create(self, topic: str) -> bool:
        return topic not in self._existing_topics

    def admit(self, topic: str, partition: int) -> bool:
        if self.machine.state not in SERVED or not self._shared_partitions.admits((topic, partition)):
            return False
        return self.version2 or self._contents.partitions.request(topic, partition)

    def wrote(self, topic: str, partition: int) -> None:
        self._contents.wrote = True
        self._shared_partitions.wrote((topic, partition))

    def unanswered(self) -> None:
        # Its sequence prevents a second write. But if the transaction is over, a leader that first asks the coordinator about it expects
        # that sequence next. It then refuses the next transaction's first batch (OUT_OF_ORDER_SEQUENCE_NUMBER).
        self._contents.broken = True

    def takes_over(self, topic: str, partition: int) -> int | None:
        return None

    def pause_ms(self, code: int, *, introduced: bool, attempts: int) -> tuple[float, float] | None:
        return None

    def looked(self, commands: Sequence[Command], *, quiet: bool) -> None:
        self._quiet = quiet
        self._look_again = False
        failures: list[DeliveryError] = []
        contents = self._contents
        for command in commands:
            if not isinstance(command, Settle):
                continue
            if command.failure is not None:
                failures.append(command.failure)
                contents.broken = contents.broken or command.failure.attempts > 0
            else:
                contents.begun = True
                self._shared_partitions.acknowledged((command.batch.topic, int(command.batch.partition)), int(command.batch.count))
        self.preparation.looked(commands)
        if failures and self.machine.state in FAILING:
            self._spoil(MustAbort(f"a record of the transaction failed: {failures[0]}", failures[0]))
        conflict = self._shared_partitions.conflict()
        if conflict is not None and self.machine.state in SERVED:
            self._spoil(conflict)

    # -- producer ids --------------------------------------------------------------------------------------------------

    def identity_after(self, spent_pid: int | None) -> tuple[int, int] | None:
        return self.identity

    def forget(self) -> None:
        self._out.append(Die(Fatal("bootstrap_servers lead to another cluster now, which does not know this transactional id")))

    def advance(self, now_ms: float) -> list[Command]:
        commands, self._out = self._out, []
        late = self._waiting.expire(now_ms, self._lateness)
        commands += [*late, *self._forget_wishes(late)]
        if self._ends() and not self._contents.wrote:
            self._over(committed=self.machine.state is State.FLUSHING, event=Event.EMPTY)
        if self._confirms() and not self._contents.wrote:
            assert self.identity is not None
            self.preparation.nothing(self._id, self.identity, version2=self.version2, view=self._view)
            self._prepared(Event.EMPTY)
        for connection, ask in self._due_requests():
            node, more = connection.ready(now_ms)
            commands += more
            if node is not None:
                commands += self._ask(node, *ask(node), now_ms, connection)
        commands += self._out
        self._out = []
        return commands

    def answered(self, request: Request, answer: Any, now_ms: float) -> list[Command]:
        connection = self._contents.commits.connection_of(request) or self._connection
        connection.answered()
        if self._death is not None:
            return []
        match answer:
            case FindCoordinatorResponse():
                row, code, commands = connection.found(answer, now_ms)
                if connection is not self._connection and not self._contents.commits.wants(connection):
                    return commands  # The group's transaction was given up, and the next one may not need the group.
                return [*commands, *self._act_on_code(Api.FIND_COORDINATOR, code, row, now_ms, connection)]
            case InitProducerIdResponse():
                if self._registration.two_phase.steps_back(answer.error_code):
                    return []
                row = judge(Api.INIT_PRODUCER_ID, answer.error_code)
                self._registration.refused(row, first=self.identity is None)
                commands = self._act_on_code(Api.INIT_PRODUCER_ID, answer.error_code, row, now_ms)
                return self._registered(answer, now_ms) if answer.error_code == 0 else commands
            case AddPartitionsToTxnResponse() | AddOffsetsToTxnResponse() | TxnOffsetCommitResponse():
                code, row, served = self._contents.answered(connection, answer)
                commands = [*self._waiting.finish(served), *self._act_on_code(request.api, code, row, now_ms, connection)]
                return [*commands, *self._share()]
            case EndTxnResponse():
                return self._end_answered(answer, now_ms)
            case DescribeTransactionsResponse():
                return self._described(answer, now_ms)
        raise AssertionError(f"an answer to no request of ours: {type(answer).__name__}")

    def lost(self, request: Request, now_ms: float) -> None:
        self.trouble = "the connection to the coordinator was lost"
        self._doubtful = self._doubtful or request.api is Api.END_TXN
        self._registration.lost(request.api, first=self.machine.state is State.REGISTERING)
        self._contents.lost(request)
        self._look_for_overtaken()
        (self._contents.commits.connection_of(request) or self._connection).lost(now_ms)

    def next_deadline(self, now_ms: float) -> float:
        if self._look_again:
            return now_ms
        times = self._waiting.deadlines_ms()
        times += [connection.not_before_ms for connection, _ in self._due_requests() if connection.not_before_ms > now_ms]
        return min(times, default=NEVER)

    # -- calls -------------------------------------------------------------------------------------------------------

    def called(self, call: Call, now_ms: float) -> list[Command]:
        # Answer each waiting begin that can succeed; begin no transaction whose caller has left.
        begins = call.event is Event.BEGIN and self.machine.state is State.READY
        if call.left or (begins and not call.outcome.claim()):
            return [Return(call)]
        ends = call.event in ENDS
        if ends and call.number in self._ended:
            return [Return(call, self.about_the_past(call.event, call.number))]
        if call.number and call.number != self._number:
            return [Return(call, IllegalCall(f"{call.event.value}: that transaction is over"))]
        if call.event is Event.COMMIT and self.machine.state is State.OPEN and (missing := self._shared_partitions.missing()) is not None:
            return [Return(call, missing)]
        try:
            action = self.machine.step(call.event)
        except IllegalCall as illegal:
            return [Return(call, illegal)]
        match action:
            case Action.ANSWER:
                return [Return(call)]
            case Action.OPEN:
                self._begin(call)
                return [Return(call)]
            case Action.REFUSE:
                return [Return(call, self._refusal())]
            case Action.DROP:
                self.drop_reason = (DeliveryAborted, "its transaction was aborted")
                self._contents.commits.drop()
                late = self._waiting.answer(MustAbort("the transaction was aborted by another call"), *ANSWERED_BY_AN_ABORT)
                self._waiting.add(call)
                return late
            case Action.ADD:
                assert call.offsets is not None
                self._contents.commits.want(call, *call.offsets)
                self._waiting.add(call)
                self._look_for_overtaken()
                return []
            case Action.SHARE:
                self._contents.wrote = True  # from here on participants may write
                self._waiting.add(call)
                return self._share()
            case Action.TAKE_BACK:
                return [self._take_back(call)]
        self._waiting.add(call)
        return []

    def refusal_of(self, error: FencepostError) -> FencepostError:
        """Why an end was refused: the error that its caller got. If every commit was answered, and a newer producer made the coordinator
        put it off until it fenced this one, that is the reason, and the outcome can be asked for at once."""
        return self._fenced_by.again() if self._fenced_by is not None and isinstance(error, CommitOutcomeUnknown) else error

    def no_usable_broker(self, failure: NoUsableBroker) -> list[Command]:
        self.trouble = str(failure)
        # An open transaction stays open until a broker can be asked, or the caller's time has passed.
        return self._waiting.answer(failure, Event.INIT, Event.BEGIN)

    def abandon(self, error: FencepostError) -> list[Command]:
        unheard = self._connection.request is not None or self._doubtful or self._unsure
        in_doubt = self.machine.state is State.COMMITTING and (unheard or self._put_off)
        if in_doubt and not unheard and isinstance(error, REFUSED):
            self._fenced_by = error
        self._death = self._death or error
        self.machine.step(Event.DIED, error)
        commands: list[Command] = []
        if in_doubt:
            assert self.identity is not None
            self.preparation.doubt(self._id, self.identity, version2=self.version2, view=self._view)
            commands += self._waiting.answer(
                CommitOutcomeUnknown(f"the coordinator was asked to commit, and may have done so; then: {error}"), Event.COMMIT
            )
        return [*commands, *self._waiting.answer(error, *Event)]

    def _begin(self, call: Call) -> None:
        self._number += 1
        call.number = self._number
        self._doubtful = self._unsure = self._put_off = False
        self._contents.begin()
        self._shared_partitions.begin()
        self.preparation.begin()

    def _share(self) -> list[Command]:
        """Answer the waiting `share` calls whose partitions the coordinator has added, or that need no coordinator."""
        if self.machine.state is not State.OPEN:
            return []
        assert self.identity is not None
        commands: list[Command] = []
        partitions = self._contents.partitions
        for call in self._waiting.of(Event.SHARE):
            assert call.share_request is not None
            if call.left:
                self._waiting.finish([call])
                continue
            refusal = self._shared_partitions.refusal(call.share_request.partitions)
            if refusal is None:
                # Each partition is checked, so that one request names them all.
                missing = [tp for tp in call.share_request.partitions if not self.version2 and not partitions.request(*tp)]
                if missing:
                    continue
                self._shared_partitions.share(call.share_request, self.identity, version2=self.version2)
            self._waiting.finish([call])
            commands.append(Return(call, refusal))
        return commands

    def _forget_wishes(self, late: Sequence[Command]) -> list[Command]:
        """A `share` whose time has passed asks for nothing more: a missing partition would block all others, and the commit. Partitions
        that a batch or another `share` waits for are requested again."""
        given_up = [told.call.share_request for told in late if isinstance(told, Return) and told.call.event is Event.SHARE]
        for share_request in given_up:
            self._contents.partitions.give_up(share_request.partitions)
        self._look_again = self._look_again or bool(given_up)
        return self._share() if given_up else []

    def _take_back(self, call: Call) -> Return:
        assert call.share_request is not None
        refusal = self._shared_partitions.take_back(call.share_request.written)
        if refusal is None:
            self.preparation.told(call.share_request.written)
            self._contents.begun = self._contents.begun or self._shared_partitions.filled
        return Return(call, refusal)

    def knows(self, number: int) -> bool:
        """Whether that transaction is one of those that ended recently. Any thread may call this."""
        return number in self._ended

    def about_the_past(self, event: Event, number: int) -> IllegalCall | None:
        """The outcome of a transaction that ended while no caller waited. Any thread may call this."""
        committed = self._ended[number]
        if event is not Event.PREPARE and committed is (event is Event.COMMIT):
            return None
        return IllegalCall(f"{event.value}: the transaction has been {'committed' if committed else 'aborted'}")

    def is_open(self) -> bool:
        """Whether a transaction accepts records. Any thread may call this."""
        return self.machine.state is State.OPEN

    def refuse(self, event: Event) -> None:
        """Raise IllegalCall if the present state refuses the call. Any thread may call this."""
        self.machine.refuse(event)

    def late(self, event: Event, trouble: str, waits: str) -> FencepostError:
        """The error of a call whose time has passed. `trouble`: why the coordinator may not have answered. `waits`: what an earlier state
        waits for. Any thread may call this."""
        state = self.machine.state
        if state is State.COMMITTING:
            return CommitOutcomeUnknown(f"the coordinator was asked to commit and has not answered yet ({trouble})")
        return TransactionTimeout(f"{event.value}: the time passed while the producer is {state.value}: {waits}")

    def _refusal(self) -> FencepostError:
        if self._death is not None:
            return again(self._death)
        assert self.spoilt is not None
        return self.spoilt.again()

    def _lateness(self, call: Call) -> FencepostError:
        trouble = self._known_trouble()
        return self.late(call.event, trouble, trouble if self._quiet else "records are still on their way")

    def _known_trouble(self) -> str:
        """Why the coordinators may not have answered, with the last failure of the brokers' connections if no other cause is known."""
        if self.trouble is not NOT_ASKED:
            return self.trouble
        if self._connection.request is not None or any(each.request is not None for each in self._contents.commits.connections):
            return ASKED
        failures = self._nodes.last_failures()
        return f"{NOT_ASKED}; {failures}" if failures else NOT_ASKED

    # -- what is asked -----------------------------------------------------------------------------------------------

    def _due_requests(self) -> Iterator[tuple[CoordinatorConnection, Question]]:
        """The requests to coordinators that are due now, each with its connection."""
        question = self._due_request()
        if question is not None:
            yield self._connection, question
        if self.machine.state in SERVED:
            assert self.identity is not None
            yield from self._contents.questions(self.identity, version2=self.version2)

    def _due_request(self) -> Question | None:
        """The request to the transaction's own coordinator that is due now."""
        state = self.machine.state
        if state is State.REGISTERING and self.may_register is not None and not self.may_register():
            return None
        if state in (State.REGISTERING, State.RENEWING):
            return self._registration.question(self.identity if state is State.RENEWING else None)
        if state in SERVED:
            assert self.identity is not None
            question = self._contents.question(self.identity, version2=self.version2)
            if question is not None:
                return question
        if state is State.COMMITTING:
            return self._end
        if self._confirms():
            return state_question(self._id)
        return self._end if self._ends() else None

    def _confirms(self) -> bool:
        """Whether the transaction can get its token now."""
        return self.machine.state is State.PREPARING and self._settled()

    def _ends(self) -> bool:
        """Whether the transaction can end now."""
        return self.machine.state in (State.FLUSHING, State.ABORTING) and self._settled()

    def _settled(self) -> bool:
        """Whether no request of the transaction is in flight."""
        return self._quiet and self._connection.request is None and not self._contents.commits.busy

    def _end(self, node: Node) -> tuple[Message, range]:
        assert self.identity is not None
        if self.machine.state is not State.COMMITTING:
            self.machine.step(Event.FLUSHED)
        committed = self.machine.state is State.COMMITTING
        return end_request(self._id, self.identity, committed=committed), END_VERSIONS[self.version2]

    def _ask(self, node: Node, message: Message, versions: range, now_ms: float, connection: CoordinatorConnection) -> list[Command]:
        version = node.version(message.api, versions[-1], least=versions[0])
        if version is None:
            wanted = f"{versions[0]} to {versions[-1]}"
            return [Die(NotPermitted(f"the broker at {node.address} offers none of the versions {wanted} of {api_name(message.api)}"))]
        return connection.send(node, message, version, now_ms)

    # -- what is answered --------------------------------------------------------------------------------------------

    def _registered(self, answer: InitProducerIdResponse, now_ms: float) -> list[Command]:
        self._take((answer.producer_id, answer.producer_epoch))
        self._choose_version()
        held = self._registration.answered(answer)
        if held is not None:
            return self._held(held)
        return self._identified(now_ms)

    def _identified(self, now_ms: float) -> list[Command]:
        """The producer has an identity for its next transaction, unless that must be renewed once more."""
        assert self.identity is not None
        if self._registration.renewed():
            return []
        self.machine.step(Event.REGISTERED, f"producer id {self.identity[0]}, epoch {self.identity[1]}")
        commands = self._waiting.answer(None, Event.INIT)
        for call in self._waiting.take():
            commands += self.called(call, now_ms)
        return commands

    def _described(self, answer: DescribeTransactionsResponse, now_ms: float) -> list[Command]:
        if len(answer.transaction_states) != 1:
            # A broker that was asked about one id and answers about none, or about others, is no coordinator.
            self._connection.again(Step.LOOKUP, now_ms)
            return []
        said = answer.transaction_states[0]
        row = judge(Api.DESCRIBE_TRANSACTIONS, said.error_code)
        if self.machine.state is State.REGISTERING and row.step in (Step.DONE, Step.SPOIL):
            self._connection.went_well()
            held = self._registration.described_predecessor(said, row, self._view.cluster_id)
            return self._held(held) if held is not None else []
        if self.machine.state is State.RENEWING and row.step in (Step.DONE, Step.SPOIL, Step.FATAL):
            self._connection.went_well()
            return self._continued(self._registration.described_end(said), now_ms)
        if self.machine.state not in (State.REGISTERING, State.PREPARING, State.RENEWING):
            self._connection.went_well()
            return []
        commands = self._act_on_code(Api.DESCRIBE_TRANSACTIONS, said.error_code, row, now_ms)
        if row.step is Step.DONE:  # Only PREPARING is left here: the transaction can get its token.
            assert self.identity is not None
            wrong = self._registration.late_opener() or self.preparation.confirm(
                said,
                self.identity,
                version2=self.version2,
                view=self._view,
                coordinator=self._connection.node_id,
                groups=self._contents.commits.taken,
            )
            if wrong is not None:
                self._spoil(MustAbort(wrong))
            else:
                self._prepared(Event.CONFIRMED)
        return commands

    def _continued(self, identity: tuple[int, int] | None, now_ms: float) -> list[Command]:
        """The coordinator described the end that another process asked for. `identity`: the one that followed, or None: InitProducerId."""
        if identity is None:
            return []
        self._take(identity)
        self._choose_version()
        return self._identified(now_ms)

    def _held(self, held: TransactionOpen) -> list[Command]:
        """A transaction is open under the id that must stay open."""
        self.machine.step(Event.HELD, held)
        return self._waiting.answer(held, Event.INIT, Event.BEGIN)

    def _prepared(self, event: Event) -> None:
        """The transaction has its token."""
        self.machine.step(event)
        self._out += self._waiting.answer(None, Event.PREPARE)

    def _end_answered(self, answer: EndTxnResponse, now_ms: float) -> list[Command]:
        committed = self.machine.state is State.COMMITTING
        row = judge(Api.END_TXN, answer.error_code)
        if committed and answer.error_code in NOTHING_CAME and self._shared_partitions.nothing_came and not self._contents.begun:
            # Version 2: no write reached a broker, so there is nothing to commit. The epoch is given up anyway.
            self._over(committed=True, event=Event.ENDED_WORN)
            return []
        # The coordinator had reported the prepared transaction as open; this process or another one wrote it.
        elsewhere = self.preparation.token is not None
        if not committed and answer.error_code in (UNBEGUN[:1] if self._contents.begun or elsewhere else UNBEGUN):
            # So another process has committed it, if it was prepared.
            late = TransactionCommitted("another process with the token has committed the prepared transaction") if elsewhere else None
            if self.preparation.token is not None:
                self._registration.ended_elsewhere(self.preparation.token)
            self._over(committed=elsewhere, event=Event.ENDED_WORN, aborts=late)
            return []
        if row.step is Step.SPOIL and not committed:
            return [Die(with_code(row.kind(refusal(Api.END_TXN, answer.error_code, row)), answer.error_code))]
        # A coordinator that could not write the end in time, or lost its role, may have it in its log. Its successor then carries it out.
        self._unsure = self._unsure or row.step in (Step.RETRY, Step.LOOKUP) or row is OTHERWISE[Api.END_TXN]
        # So may one that answers CONCURRENT_TRANSACTIONS, if something else then changes the transaction (TransactionCoordinator).
        self._put_off = self._put_off or row.step is Step.SOON
        commands = self._act_on_code(Api.END_TXN, answer.error_code, row, now_ms)
        if row.step is Step.DONE:
            if answer.producer_id >= 0:
                self._take((answer.producer_id, answer.producer_epoch))
            # A request that may still arrive must not belong to an epoch that continues (transaction version 1). If a token exists, no
            # later transaction may have the identity that it names (FLINK-8132). And a participant that still has a participation in this
            # transaction must have none in the next.
            spent = self._contents.broken or self._doubtful or self.preparation.token is not None or self._shared_partitions.used
            before, worn = self.version2, spent and not self.version2
            self._choose_version()
            self._over(committed=committed, event=Event.ENDED_WORN if worn or self.version2 is not before else Event.ENDED)
        return commands

    def _act_on_code(
        self, api: Api, code: int, row: Row | None, now_ms: float, connection: CoordinatorConnection | None = None
    ) -> list[Command]:
        """Do what the error table says about an answer's code. `connection`: the connection of the answer, if not the transaction's."""
        row, connection = row or judge(api, code), connection or self._connection
        match row.step:
            case Step.DONE:
                connection.went_well()
                self.trouble = NOT_ASKED
                return []
            case Step.SPOIL if self.machine.state in SPOILABLE and not self._may_be_committed(code):
                self._spoil(MustAbort(refusal(api, code, row), code=code))
                return []
            case Step.FATAL | Step.SPOIL:
                return [Die(with_code(row.kind(refusal(api, code, row) + self._registration.hint(api, code)), code))]
        self.trouble = refusal(api, code, row)
        connection.again(row.step, now_ms)
        return []

    def _may_be_committed(self, code: int) -> bool:
        """Whether an earlier EndTxn may have been carried out although the repeat was refused. INVALID_TXN_STATE excludes it: a coordinator
        answers the repeat of a commit without error."""
        in_doubt = self.machine.state is State.COMMITTING and (self._doubtful or self._unsure or self._put_off)
        return in_doubt and code != ErrorCode.INVALID_TXN_STATE

    def _over(self, *, committed: bool, event: Event, aborts: FencepostError | None = None) -> None:
        """The transaction has its outcome. `aborts`: the error for calls that wanted to abort it."""
        # Before the state changes: a thread that reads there that the transaction is over asks next how it ended (`about_the_past`).
        self._ended[self._number] = committed
        if self.on_over is not None:
            self.on_over(Event.COMMIT if committed else Event.ABORT)
        self.machine.step(event)
        if self.preparation.token is not None:
            OUTSTANDING.discard(self.preparation.token)
        self._out += self._waiting.answer(aborts, Event.ABORT)
        self._ended.pop(self._number - REMEMBERED, None)
        self.drop_reason = self.spoilt = None
        self._out += self._waiting.answer(None, Event.COMMIT)

    def _look_for_overtaken(self) -> None:
        overtaken = self._contents.commits.overtaken()
        if overtaken is not None and self.machine.state in SERVED:
            self._spoil(
                MustAbort(
                    f"older offsets of {overtaken} were sent and not answered: if they arrive late, while the transaction is open, they "
                    "replace the newer ones"
                )
            )

    def _spoil(self, error: MustAbort) -> None:
        """From now on the transaction can only be aborted."""
        if self.machine.step(Event.SPOILED, error) is not Action.FAIL:
            return
        log.warning("transactional id %s: the transaction must be aborted: %s", self._id, error)
        self.spoilt = error
        self._look_again = True
        self.drop_reason = (DeliveryAborted, f"the transaction must be aborted: {error}")
        self._contents.commits.drop()
        self._out += self._waiting.answer(error, *ANSWERED_BY_AN_ABORT)

    def _take(self, identity: tuple[int, int]) -> None:
        if identity != self.identity:
            self._shared_partitions.renewed()
        self.identity = identity

    def _choose_version(self) -> None:
        """By the features that the cluster has finalized (KIP-584)."""
        self.version2 = self._nodes.features.levels.get(FEATURE, 0) >= 2
        self.produce_versions = LEAVES[self.version2]
