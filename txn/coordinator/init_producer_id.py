"""How a transactional id is registered: whether what is open under it may be aborted by that, and what InitProducerId says.

The manager asks and is answered; this makes the questions and judges what was said. What an error code comes to is `verdict`'s.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from fencepost.producer.core.cluster.broker_connections import Node
from fencepost.producer.wire.codes import Api, ErrorCode, api_name
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages import InitProducerIdResponse
from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.coordinator.kip_939 import TwoPhase
from fencepost.txn.errors import TransactionOpen
from fencepost.txn.protocol.error_table import Row, Step, refusal
from fencepost.txn.protocol.requests import Identity, Question, init_request, init_versions, state_question
from fencepost.txn.recovery.prepared_here import Guard, kept

FENCES: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
OPENING: Final = (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN)


class Registration:
    """See the module. `guard`: asked before the first one. `two_phase`: what else is wanted beside an identity."""

    def __init__(self, transactional_id: str, *, timeout_ms: int, guard: Guard | None, two_phase: TwoPhase | None) -> None:
        self.two_phase: Final = two_phase or TwoPhase()
        self._id: Final = transactional_id
        self._timeout_ms: Final = timeout_ms
        self._guard: Final = guard or Guard(transactional_id)
        self._passed = False
        self._lost: dict[Api, None] = {}

    def question(self, renewed: Identity | None) -> Question:
        """What the coordinator is to be asked. `renewed`: the identity that is to be raised, None for the first one."""
        if renewed is None and not self._passed and self._guard.looks:
            return state_question(self._id)
        return partial(self._ask_identity, renewed)

    def heard_of_a_predecessor(self, said: TransactionState, row: Row, cluster_id: str | None) -> TransactionOpen | None:
        """Why what is open under the id may not be aborted by registering, if it may not."""
        code = said.error_code
        held: TransactionOpen | None = None
        if row.step is Step.DONE:
            held = self._guard.refusal(said, cluster_id)
        elif code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            held = TransactionOpen(refusal(Api.DESCRIBE_TRANSACTIONS, code, row))
        self._passed = held is None
        return held

    def heard(self, answer: InitProducerIdResponse) -> TransactionOpen | None:
        """Why the identity is of no use, if a transaction was kept open under it."""
        self._passed = False
        for api in OPENING:
            self._lost.pop(api, None)
        if answer.ongoing_txn_producer_id < 0:
            return None
        return kept((answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch), self._id)

    def lost(self, api: Api) -> None:
        """A request has no answer. An InitProducerId is a newer producer's to Kafka, whenever it comes; what adds to a transaction opens
        one where it comes after the end and before the next identity, for which that transaction is then aborted."""
        if api in OPENING or api is Api.INIT_PRODUCER_ID:
            self._lost[api] = None

    def hint(self, api: Api, code: int) -> str:
        """What else a refusal may be about."""
        own = [each for each in self._lost if api is Api.INIT_PRODUCER_ID or each not in OPENING] if code in FENCES else []
        if not own:
            return self.two_phase.hint(code)
        return f"; or nobody did, and this producer's own {' or '.join(map(api_name, own))}, which was lost before, has come late"

    def _ask_identity(self, renewed: Identity | None, node: Node) -> tuple[Message, range]:
        two_phase, keep = self.two_phase.flags(node)
        message = init_request(self._id, self._timeout_ms, renewed, two_phase=two_phase, keep=keep and renewed is None)
        return message, init_versions(renewing=renewed is not None, two_phase=two_phase)
