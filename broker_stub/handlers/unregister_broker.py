"""UnregisterBroker (64), version 0.

The controller forgets the broker: DescribeCluster does not name it, and it leads nothing. It is registered again when it starts. A broker
that is not registered is BROKER_ID_NOT_REGISTERED. As in Kafka, a broker that runs goes on, unheard, until it starts again.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.cluster_admin import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(UnregisterBrokerRequest, range(1), cluster=Operation.ALTER, forwarded=True)
def unregister_broker(call: Call, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    if call.error:
        return UnregisterBrokerResponse(error_code=call.error, error_message=call.needs_words(call.error, Operation.ALTER))
    node = request.broker_id
    broker = call.cluster.brokers.get(node)
    if broker is None or not broker.registered:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=f"Broker ID {node} is not currently registered"
        )
    call.cluster.unregister(node)
    return UnregisterBrokerResponse()
