"""AddOffsetsToTxn (25), versions 0 to 4.

Adds the partition of `__consumer_offsets` with the group's offsets to the producer's transaction, by the rules of AddPartitionsToTxn.
Clients of transaction version 2 do not send it. Needs WRITE on the transactional id and READ on the group.

Leaves out: nothing that is known.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC
from fencepost.broker_stub.handlers.txn_lookups import told
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire.messages.add_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2


@handles(AddOffsetsToTxnRequest, range(5), group=Operation.READ)
def add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse | Instead:
    code = call.error or call.refusal(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
    code = code or call.group_error(request.group_id)
    if code:
        return AddOffsetsToTxnResponse(error_code=code)
    deferred: DeferredReply[AddOffsetsToTxnResponse] = DeferredReply(call)
    topic = call.cluster.internal_topic(OFFSETS_TOPIC)
    call.transactions.add(
        request.transactional_id,
        call.broker.node_id,
        Identity(request.producer_id, request.producer_epoch),
        frozenset(((OFFSETS_TOPIC, partition_for(request.group_id, len(topic.partitions))),)),
        version=0,
        then=lambda code: deferred(AddOffsetsToTxnResponse(error_code=told(code, call.version, fenced_since=FENCED_SINCE))),
    )
    return deferred.result()
