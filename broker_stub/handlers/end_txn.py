"""EndTxn (26), versions 0 to 5.

Responds when the end is decided. The markers follow; until they are written, requests for the id are CONCURRENT_TRANSACTIONS. Up to
version 4 the epoch stays, and a repeated end gets the response of the first one. From version 5 on (KIP-890) every end raises the epoch,
and the response has the identity to go on with. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2. Needs WRITE on the
transactional id.

Leaves out: nothing that is known.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.handlers.txn_lookups import told
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2
BUMPS_SINCE = 5


@handles(EndTxnRequest, range(6))
def end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse | Instead:
    code = call.error or call.refusal(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
    if code:
        return EndTxnResponse(error_code=code)
    deferred: DeferredReply[EndTxnResponse] = DeferredReply(call)

    def answer(code: int, identity: Identity) -> None:
        code = told(code, call.version, fenced_since=FENCED_SINCE)
        deferred(EndTxnResponse(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch))

    call.transactions.end(
        request.transactional_id,
        call.broker.node_id,
        Identity(request.producer_id, request.producer_epoch),
        commit=request.committed,
        version=2 if call.version >= BUMPS_SINCE else 0,
        then=answer,
    )
    return deferred.result()
