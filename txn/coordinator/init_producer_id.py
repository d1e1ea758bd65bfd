"""The registration of a transactional id: whether it may abort the open transaction, and what InitProducerId's answer says.

This module makes the requests and reads the answers; the manager sends them. The error table says what an error code means.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fencepost.producer.core.cluster.cluster_connection_states import Node
from fencepost.producer.wire.codes import Api, ErrorCode, api_name
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages import InitProducerIdResponse
from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.coordinator.kip_939 import TwoPhase
from fencepost.txn.coordinator.registration_guard import Guard, kept
from fencepost.txn.errors import TransactionOpen
from fencepost.txn.protocol.error_table import Row, Step, refusal
from fencepost.txn.protocol.requests import Identity, Question, init_request, init_versions, state_question

FENCES: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
OPENING: Final = (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN)


class Registration:
    """See the module. `guard`: checked before the first registration. `two_phase`: the wishes of KIP-939."""

    def __init__(self, transactional_id: str, *, timeout_ms: int, guard: Guard | None, two_phase: TwoPhase | None) -> None:
        self.two_phase: Final = two_phase or TwoPhase()
        self._id: Final = transactional_id
        self._timeout_ms: Final = timeout_ms
        self._guard: Final = guard or Guard(transactional_id)
        self._passed = False
        self._lost: dict[Api, None] = {}

    def question(self, renewed: Identity | None) -> Question:
        """The request for the coordinator. `renewed`: the identity whose epoch is to be bumped, or None for the first registration."""
        if renewed is None and not self._passed and self._guard.looks:
            return state_question(self._id)
        return partial(self._ask_identity, renewed)

    def heard_of_a_predecessor(self, said: TransactionState, row: Row, cluster_id: str | None) -> TransactionOpen | None:
        """The error if the registration would abort an open transaction that it must not abort."""
        code = said.error_code
        held: TransactionOpen | None = None
        if row.step is Step.DONE:
            held = self._guard.refusal(said, cluster_id)
        elif code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            held = TransactionOpen(refusal(Api.DESCRIBE_TRANSACTIONS, code, row))
        self._passed = held is None
        return held

    def heard(self, answer: InitProducerIdResponse) -> TransactionOpen | None:
        """The error if the coordinator kept a transaction open under the identity."""
        self._passed = False
        for api in OPENING:
            self._lost.pop(api, None)
        if answer.ongoing_txn_producer_id < 0:
            return None
        return kept((answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch), self._id)

    def lost(self, api: Api) -> None:
        """A request was lost. Kafka takes a late InitProducerId for that of a newer producer. A late request that adds to a transaction can
        open one after the end and before the next epoch, and that transaction must be aborted."""
        if api in OPENING or api is Api.INIT_PRODUCER_ID:
            self._lost[api] = None

    def hint(self, api: Api, code: int) -> str:
        """What else a refusal may mean."""
        own = [each for each in self._lost if api is Api.INIT_PRODUCER_ID or each not in OPENING] if code in FENCES else []
        if not own:
            return self.two_phase.hint(code)
        return f"; or this producer's own {' or '.join(map(api_name, own))}, which was lost before, has arrived late"

    def _ask_identity(self, renewed: Identity | None, node: Node) -> tuple[Message, range]:
        two_phase, keep = self.two_phase.flags(node)
        message = init_request(self._id, self._timeout_ms, renewed, two_phase=two_phase, keep=keep and renewed is None)
        return message, init_versions(renewing=renewed is not None, two_phase=two_phase)
