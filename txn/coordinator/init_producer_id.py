"""The registration of a transactional id: whether it may abort the open transaction, and what InitProducerId's answer says.

This module makes the requests and reads the answers; the manager sends them. The error table says what an error code means.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fencepost.producer.core.cluster.cluster_connection_states import Node
from fencepost.producer.errors import with_code
from fencepost.producer.wire import InitProducerIdResponse
from fencepost.producer.wire.codes import Api, ErrorCode, api_name
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.coordinator.kip_939 import TwoPhase, offers_two_phase
from fencepost.txn.coordinator.registration_guard import Guard, kept
from fencepost.txn.errors import TransactionOpen
from fencepost.txn.protocol.error_table import Row, Step, refusal
from fencepost.txn.protocol.requests import Identity, Question, init_request, init_versions, state_question
from fencepost.txn.recovery.outcome import next_identity
from fencepost.txn.recovery.token import PreparedTransaction

FENCES: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
OPENING: Final = (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN)
LATE: Final = "which was lost before, has arrived late"
CARRIED_OUT: Final = "which was answered with an error before, has been carried out"


class Registration:
    """See the module. `guard`: checked before the first registration. `two_phase`: the wishes of KIP-939."""

    def __init__(self, transactional_id: str, *, timeout_ms: int, guard: Guard | None, two_phase: TwoPhase | None) -> None:
        self.two_phase: Final = two_phase or TwoPhase()
        self._id: Final = transactional_id
        self._timeout_ms: Final = timeout_ms
        self._guard: Final = guard or Guard(transactional_id)
        self._passed = False
        self._doubts: dict[Api, str] = {}
        self._lost = self._repeated = False
        self._ended: PreparedTransaction | None = None

    def ended_elsewhere(self, token: PreparedTransaction) -> None:
        """Another process ended this producer's prepared transaction. With transaction version 2 the coordinator gave that process the
        producer's next epoch, and remembers the present one only until it restarts. So it is asked for the next one first."""
        self._ended = token if token.transaction_version >= 2 else None

    def question(self, renewed: Identity | None) -> Question:
        """The request for the coordinator. `renewed`: the identity whose epoch is to be bumped, or None for the first registration."""
        if renewed is not None and self._ended is not None:
            return partial(self._ask_next_identity, renewed)
        if renewed is None and not self._passed and self._guard.looks:
            return state_question(self._id)
        return partial(self._ask_identity, renewed)

    def described_predecessor(self, said: TransactionState, row: Row, cluster_id: str | None) -> TransactionOpen | None:
        """The error if the registration would abort an open transaction that it must not abort."""
        code = said.error_code
        held: TransactionOpen | None = None
        if row.step is Step.DONE:
            held = self._guard.refusal(said, cluster_id)
        elif code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            held = with_code(TransactionOpen(refusal(Api.DESCRIBE_TRANSACTIONS, code, row)), code)
        self._passed = held is None
        return held

    def described_end(self, said: TransactionState) -> Identity | None:
        """The identity with which the producer continues; None if only InitProducerId can tell."""
        assert self._ended is not None
        found = next_identity(self._ended, said) if said.error_code == ErrorCode.NONE else None
        self._ended = None
        return found

    def answered(self, answer: InitProducerIdResponse) -> TransactionOpen | None:
        """The error if the coordinator kept a transaction open under the identity."""
        self._passed = False
        self._ended = None
        if answer.ongoing_txn_producer_id < 0:
            return None
        return kept((answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch), self._id)

    def renewed(self) -> bool:
        """The producer has its next identity, and no answer is outstanding. Brokers refuse a late request that adds to a transaction.

        Returns whether the identity must be renewed once more, because a repeated InitProducerId gave it. If the lost one arrived after the
        end of a transaction, Kafka would take it for a repeat (KIP-360) and forget how that transaction ended. One epoch later, Kafka
        refuses it.
        """
        once_more, self._repeated = self._repeated, False
        self._doubts.clear()
        return once_more

    def lost(self, api: Api, *, first: bool) -> None:
        """A request was lost. A late request that adds to a transaction can open one after the end and before the next epoch, and that
        transaction must be aborted. While a transaction is open, Kafka takes a late InitProducerId for that of a newer producer.
        `first`: it was a registration, not the bump of an epoch."""
        if api is Api.INIT_PRODUCER_ID:
            self._lost = True
            self._repeated = not first
        elif api in OPENING:
            self._doubts[api] = LATE

    def late_opener(self) -> str | None:
        """Return why the transaction cannot have a token, or None. A lost request may arrive after another process has ended the
        transaction. It would then open the next one under the same epoch. This producer's end would end that one, and look successful."""
        lost = [api_name(api) for api in OPENING if api in self._doubts]
        return f"{lost[0]} was sent and not answered; it may arrive after another process has ended the transaction" if lost else None

    def refused(self, row: Row, *, first: bool) -> None:
        """InitProducerId was answered with an error. If the producer may repeat the request, the coordinator may have carried it out.
        `first`: the request was a registration, not the bump of an epoch."""
        if first and row.step is Step.SOON:
            self._guard.warn()
        if row.step in (Step.RETRY, Step.LOOKUP):
            self._doubts.setdefault(Api.INIT_PRODUCER_ID, CARRIED_OUT)

    def hint(self, api: Api, code: int) -> str:
        """What else a refusal may mean."""
        if code not in FENCES:
            return self.two_phase.hint(code)
        doubts = {**self._doubts, Api.INIT_PRODUCER_ID: LATE} if self._lost else self._doubts
        own = [
            f"; or this producer's own {api_name(each)}, {how}"
            for each, how in doubts.items()
            if api is Api.INIT_PRODUCER_ID or each not in OPENING
        ]
        return "".join(own) or self.two_phase.hint(code)

    def _ask_next_identity(self, renewed: Identity, node: Node) -> tuple[Message, range]:
        # With KIP-939 a newer producer may keep the open transaction and end it under its own epoch, which would look the same.
        return self._ask_identity(renewed, node) if offers_two_phase(node) else state_question(self._id)(node)

    def _ask_identity(self, renewed: Identity | None, node: Node) -> tuple[Message, range]:
        two_phase, keep = self.two_phase.flags(node)
        message = init_request(self._id, self._timeout_ms, renewed, two_phase=two_phase, keep=keep and renewed is None)
        return message, init_versions(renewing=renewed is not None, two_phase=two_phase)
