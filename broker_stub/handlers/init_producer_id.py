"""InitProducerId (22), versions 0 to 5.

An idempotent producer gets an id that nobody had before, at epoch 0; what identity it expected is ignored, as in Kafka. A transactional id
keeps its id and gets the next epoch with every call, a new id when the epochs are used up, and is fenced when it expects an identity that
is no longer its own: PRODUCER_FENCED, in versions before 4 INVALID_PRODUCER_EPOCH.

A transactional id needs WRITE on it. Without one IDEMPOTENT_WRITE on the cluster is needed, or WRITE on any topic (KIP-679): who may write
nothing at all is told CLUSTER_AUTHORIZATION_FAILED.

Leaves out: transactions (there is none to abort here), and two-phase commit.
"""

from __future__ import annotations

from broker_stub.call import Call
from broker_stub.operations import Operation, Resource
from broker_stub.pids import NONE, Fenced, Identity
from broker_stub.router import handles
from producer.wire import ErrorCode, InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE = 4


@handles(InitProducerIdRequest, range(6))
def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    code = call.error or _permission_error(call, request.transactional_id) or _refusal(call, request)
    if code:
        return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)
    ids = call.cluster.producer_ids
    if request.transactional_id is None:
        identity = ids.fresh()
    else:
        expected = Identity(request.producer_id, request.producer_epoch) if request.producer_id != NONE else None
        try:
            identity = ids.of(request.transactional_id, expected)
        except Fenced:
            code = ErrorCode.PRODUCER_FENCED if call.version >= FENCED_SINCE else ErrorCode.INVALID_PRODUCER_EPOCH
            return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


def _permission_error(call: Call, transactional_id: str | None) -> int:
    if transactional_id is not None:
        return call.refusal(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
    if call.asker.may_any(Operation.WRITE, Resource.TOPIC):
        return ErrorCode.NONE
    return call.refusal(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)


def _refusal(call: Call, request: InitProducerIdRequest) -> int:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE) or request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        longest_ms = int(call.cluster.config["transaction.max.timeout.ms"])
        if not 0 < request.transaction_timeout_ms <= longest_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE
