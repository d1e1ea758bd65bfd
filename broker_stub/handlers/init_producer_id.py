"""InitProducerId (22), versions 0 to 6.

An idempotent producer gets a new id at epoch 0; its expected identity is ignored, as in Kafka. A transactional id keeps its producer id at
its coordinator, and gets the next epoch with every call. When the epochs are used up it gets a new producer id. A producer that expects an
identity which is no longer the id's is fenced: PRODUCER_FENCED, before version 4 INVALID_PRODUCER_EPOCH. An open transaction is aborted
first: CONCURRENT_TRANSACTIONS. A repeated request then gets the epoch after the abort's. A broker that has no ids to give out and does not
reach the controller responds COORDINATOR_LOAD_IN_PROGRESS.

A transactional id needs WRITE on it. Without one the client needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679);
otherwise the answer is CLUSTER_AUTHORIZATION_FAILED.

Version 6 (KIP-939) is unstable and needs unstable.api.versions.enable. Two-phase commit then needs transaction.two.phase.commit.enable and
TWO_PHASE_COMMIT on the transactional id; its transactions have no timeout.

Leaves out: keeping a prepared transaction, which Kafka has not either (UNSUPPORTED_VERSION).
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.handlers.txn_lookups import told
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode, InitProducerIdRequest, InitProducerIdResponse

NONE = -1
FENCED_SINCE = 4


@handles(InitProducerIdRequest, range(7))
def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | Instead:
    code = call.error or _permission_error(call, request) or _refusal(call, request)
    if code:
        return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)
    if request.transactional_id is None:
        if not call.cluster.has_producer_id(call.broker.node_id):
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=NONE, producer_epoch=NONE)
        return InitProducerIdResponse(producer_id=call.cluster.producer_ids.fresh(), producer_epoch=0)
    return _transactional(call, request, request.transactional_id)


def _transactional(call: Call, request: InitProducerIdRequest, transactional_id: str) -> InitProducerIdResponse | Instead:
    from fencepost.broker_stub.transactions.states import NEVER_TIMES_OUT_MS  # imported with the first transactional id

    deferred: DeferredReply[InitProducerIdResponse] = DeferredReply(call)

    def answer(code: int, identity: Identity) -> None:
        code = told(code, call.version, fenced_since=FENCED_SINCE)
        deferred(InitProducerIdResponse(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch))

    expected = Identity(request.producer_id, request.producer_epoch) if request.producer_id != NONE else None
    call.transactions.init(
        transactional_id,
        call.broker.node_id,
        expected=expected,
        timeout_ms=NEVER_TIMES_OUT_MS if request.enable2_pc else request.transaction_timeout_ms,
        then=answer,
    )
    return deferred.result()


def _permission_error(call: Call, request: InitProducerIdRequest) -> int:
    name = request.transactional_id
    if name is not None:
        code = call.refusal(Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
        if not code and request.enable2_pc:
            code = call.refusal(Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, name)
        return code
    if call.asker.may_any(Operation.WRITE, Resource.TOPIC):
        return ErrorCode.NONE
    return call.refusal(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)


def _refusal(call: Call, request: InitProducerIdRequest) -> int:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE) or request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    config = call.cluster.config
    if request.enable2_pc and not config.is_on("transaction.two.phase.commit.enable"):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    in_time = 0 < request.transaction_timeout_ms <= int(config["transaction.max.timeout.ms"])
    return ErrorCode.NONE if in_time or request.enable2_pc else ErrorCode.INVALID_TRANSACTION_TIMEOUT
